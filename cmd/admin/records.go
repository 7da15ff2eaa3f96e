package admin

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/recordbatch"
)

// Bounds of one look at records. A look that reaches one says where it ended, and the next goes on there.
const (
	recordsMax      = 500
	readBytes       = 1 << 20  // of one read, and about what is taken of the log where nothing is searched
	searchBytesMax  = 64 << 20 // of the log, for one search
	searchTimeMax   = 2 * time.Second
	shownBytesMax   = 2 << 10 // of a key, value or header that is shown in a list
	wholeBytesMax   = 4 << 20 // of one record alone
	headersShownMax = 50
	answerBytesMax  = 2 << 20 // of records in one answer
)

// content is a key or a value: text where it is UTF-8, base64 where it is not, neither where it is null.
type content struct {
	Bytes  int     `json:"bytes"` // of all of it; -1: null
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
	Cut    bool    `json:"cut,omitempty"` // only its beginning is here
}

func contentOf(b []byte, most int) content {
	if b == nil {
		return content{Bytes: -1}
	}
	c := content{Bytes: len(b), Cut: len(b) > most}
	shown := b[:min(len(b), most)]
	// A cut may fall into a character: what is left of it does not make the text another one.
	for end := len(shown); end > 0 && end > len(shown)-utf8.UTFMax; end-- {
		if utf8.Valid(shown[:end]) {
			text := string(shown[:end])
			c.Text = &text
			return c
		}
		if !c.Cut {
			break
		}
	}
	if len(shown) == 0 {
		c.Text = new(string)
		return c
	}
	text := base64.StdEncoding.EncodeToString(shown)
	c.Base64 = &text
	return c
}

type recordHeader struct {
	Key   content `json:"key"`
	Value content `json:"value"`
}

type record struct {
	Offset      int64          `json:"offset"`
	Timestamp   int64          `json:"timestamp"` // Unix milliseconds
	Key         content        `json:"key"`
	Value       content        `json:"value"`
	Headers     []recordHeader `json:"headers"`
	HeadersLeft int            `json:"headers_left,omitempty"` // not shown
	LeaderEpoch int32          `json:"leader_epoch"`
	ProducerID  int64          `json:"producer_id"` // -1: none
	Control     bool           `json:"control,omitempty"`
}

type recordsAnswer struct {
	Topic         string   `json:"topic"`
	Partition     int32    `json:"partition"`
	LogStart      int64    `json:"log_start_offset"`
	HighWatermark int64    `json:"high_watermark"`
	From          int64    `json:"from"`    // offset that was begun at
	Next          int64    `json:"next"`    // offset to go on at
	End           bool     `json:"end"`     // nothing is behind it now
	Scanned       int64    `json:"scanned"` // records that were looked at
	Records       []record `json:"records"`
}

// recordScan is one look at a partition.
type recordScan struct {
	shard  *engine.Shard
	topic  string
	offset int64
	upTo   int64

	span   engine.Span
	in     recordbatch.Input
	result recordbatch.Result
	batch  []byte
}

// RunGuarded encodes what the span holds; it reads mapped bytes.
func (s *recordScan) RunGuarded() (err error) {
	s.batch, err = recordbatch.AppendBatches(s.batch[:0], &s.in, &s.result)
	return err
}

// next returns the records that follow, as a consumer would get them, and goes on behind them. There may be none of them
// although the log goes on, where compaction removed them.
func (s *recordScan) next() ([]*kgo.Record, error) {
	defer s.span.Release()
	if err := s.shard.ReadBlocking(&s.span, s.offset, s.upTo, readBytes); err != nil {
		return nil, err
	}
	if err := s.span.Load(); err != nil {
		return nil, err
	}
	s.in = recordbatch.Input{Span: s.span.Bytes(), AtBlock: s.span.AtBlock, Header: s.span.Header, Identity: s.shard.Identity(),
		From: s.offset, UpTo: s.upTo, MaxBytes: readBytes, AtLeastOne: true}
	if err := engine.Guard(s); err != nil {
		return nil, fmt.Errorf("%s: %w", s.span.Place(), err)
	}
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.RecordBatches = s.batch
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: s.offset, Topic: s.topic},
		&partition, kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		return nil, got.Err
	}
	if s.result.NextOffset <= s.offset {
		return nil, errors.New("the read did not go on")
	}
	s.offset = s.result.NextOffset
	return got.Records, nil
}

func (v *view) records(p *parameters) (any, error) {
	t, err := v.topicNamed(p.text("topic"))
	if err != nil {
		return nil, err
	}
	number := p.number("partition", 0, 0, math.MaxInt32)
	limit := p.number("limit", 50, 1, recordsMax)
	most := shownBytesMax
	if p.choice("whole", "false", "true") == "true" {
		most, limit = wholeBytesMax, 1
	}
	sh := v.Shards.Shard(model.ShardID{Topic: t.ID, Partition: int32(number)})
	if p.fault == nil && (sh == nil || sh.State().Quarantined) {
		return nil, refusef(http.StatusNotFound, "partition %d of topic %q is not served here", number, t.Name)
	}
	if p.fault != nil {
		return nil, p.fault
	}
	state := sh.State()
	from, err := v.startOf(p, sh, state)
	if err != nil || p.fault != nil {
		return nil, err
	}
	out := &recordsAnswer{Topic: t.Name, Partition: int32(number), LogStart: state.LogStart, HighWatermark: state.HighWatermark, From: from, Records: []record{}}
	scan := &recordScan{shard: sh, topic: t.Name, offset: from, upTo: state.HighWatermark}
	if err := out.fill(p, scan, int(limit), most); err != nil {
		if errors.Is(err, engine.ErrOffsetOutOfRange) || errors.Is(err, engine.ErrShardDeleted) {
			return nil, refusef(http.StatusGone, "the records were deleted meanwhile")
		}
		return nil, err
	}
	return out, nil
}

// startOf returns the offset to begin at, within the log.
func (v *view) startOf(p *parameters, sh *engine.Shard, state engine.State) (int64, error) {
	if !p.has("time") {
		// Below 0 it counts from the end.
		offset := p.number("offset", state.LogStart, math.MinInt64, math.MaxInt64)
		if offset < 0 {
			offset = max(state.HighWatermark+offset, 0)
		}
		return min(max(offset, state.LogStart), state.HighWatermark), nil
	}
	if p.has("offset") {
		return 0, refusef(http.StatusBadRequest, "offset and time are two places to begin at: give one")
	}
	offset, _, _, found, err := sh.OffsetForTimestamp(p.number("time", 0, math.MinInt64, math.MaxInt64))
	if err != nil || !found {
		return state.HighWatermark, err
	}
	return min(max(offset, state.LogStart), state.HighWatermark), nil
}

// fill takes records until one of the bounds is reached.
func (a *recordsAnswer) fill(p *parameters, scan *recordScan, limit, most int) error {
	search := []byte(p.text("search"))
	deadline := time.Now().Add(searchTimeMax)
	read, shown := 0, 0
	for {
		if scan.offset >= scan.upTo {
			a.Next, a.End = scan.upTo, true
			return nil
		}
		records, err := scan.next()
		if err != nil {
			return fmt.Errorf("topic %s partition %d offset %d: %w", a.Topic, a.Partition, scan.offset, err)
		}
		for _, r := range records {
			a.Next = r.Offset
			if len(a.Records) == limit || shown > answerBytesMax {
				return nil
			}
			a.Scanned++
			if len(search) == 0 || holds(r, search) {
				a.Records = append(a.Records, recordOf(r, most))
				shown += min(len(r.Key), most) + min(len(r.Value), most) + 512*min(len(r.Headers), headersShownMax)
			}
		}
		a.Next = scan.offset
		read += len(scan.batch)
		select {
		case <-p.done:
			return nil
		default:
		}
		if len(a.Records) == limit || read >= searchBytesMax || time.Now().After(deadline) {
			a.End = scan.offset >= scan.upTo
			return nil
		}
	}
}

// holds tells whether a record has some bytes in its key, value or headers.
func holds(r *kgo.Record, search []byte) bool {
	if bytes.Contains(r.Key, search) || bytes.Contains(r.Value, search) {
		return true
	}
	for _, h := range r.Headers {
		if bytes.Contains([]byte(h.Key), search) || bytes.Contains(h.Value, search) {
			return true
		}
	}
	return false
}

func recordOf(r *kgo.Record, most int) record {
	out := record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: contentOf(r.Key, most), Value: contentOf(r.Value, most),
		Headers: []recordHeader{}, LeaderEpoch: r.LeaderEpoch, ProducerID: r.ProducerID, Control: r.Attrs.IsControl()}
	for i, h := range r.Headers {
		if i == headersShownMax {
			out.HeadersLeft = len(r.Headers) - i
			break
		}
		out.Headers = append(out.Headers, recordHeader{contentOf([]byte(h.Key), 256), contentOf(h.Value, 256)})
	}
	return out
}
