package kafka

import (
	"encoding/binary"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/recordbatch"
	"millrace/meta/config"
	"millrace/perf"
)

// fetchEncoder writes the records of one partition at a time. A loop has one, and each worker that encodes
// takes one.
type fetchEncoder struct {
	pool   *perf.Pool
	in     recordbatch.Input
	result recordbatch.Result
	dst    []byte

	compressor *recordbatch.Compressor // of the codec and level last used, on workers only
	codec      model.Codec             // of the partition at hand
	level      int                     // that compressor was made with
}

func (c *fetchEncoder) init(pool *perf.Pool) { c.pool = pool }

// RunGuarded encodes; it reads mapped bytes.
func (c *fetchEncoder) RunGuarded() (err error) {
	if c.codec != model.CodecNone {
		c.dst, err = c.compressor.AppendBatches(c.dst, &c.in, &c.result)
		return err
	}
	c.dst, err = recordbatch.AppendBatches(c.dst, &c.in, &c.result)
	return err
}

// useCodec prepares for a topic's codec.
func (c *fetchEncoder) useCodec(topic *config.Topic) (err error) {
	codec, level := codecOf(topic)
	c.codec = codec
	if codec == model.CodecNone || (c.compressor != nil && c.compressor.Codec() == codec && c.level == level) {
		return nil
	}
	c.level = level
	c.compressor, err = recordbatch.NewCompressor(codec, level)
	return err
}

// replyOverhead is what a reply takes beside its partitions, partitionOverhead what each takes beside its
// records and the topic's name.
const (
	replyOverhead     = 64
	partitionOverhead = 96
)

// encode makes f.reply and releases the spans.
func (f *fetchRequest) encode(c *fetchEncoder) {
	size := replyOverhead + len(f.names) + len(f.slots)*partitionOverhead
	left := f.maxBytes
	for i := range f.slots {
		s := &f.slots[i]
		if s.spanBytes > 0 {
			size += min(s.spanBytes, max(s.maxBytes, 0), left)
			left = max(left-s.spanBytes, 0)
		}
	}
	f.reply = c.pool.Get(size)
	w := replyWriter{b: f.reply.B, flexible: f.e.flexible()}
	f.beginReply(&w)
	topics := w.openCount(len(f.slots))
	for i := 0; i < len(f.slots); {
		i = f.encodeTopic(c, &w, &topics, i)
	}
	w.closeCount(topics)
	w.b = appendNoTags(w.b, w.flexible)
	endReply(w.b)
	f.reply.B = w.b
	if f.session != nil && !f.full {
		f.session.Lock()
		f.session.Rotate()
		f.session.Unlock()
	}
	f.releaseSpans()
}

func (f *fetchRequest) beginReply(w *replyWriter) {
	w.b = beginReply(w.b, f.e.correlation, w.flexible)
	w.b = appendInt32(w.b, 0) // throttle time
	if f.e.version >= 7 {
		w.b = appendInt16(w.b, f.code)
		w.b = appendInt32(w.b, f.sessionID)
	}
}

// replySessionError answers a fault of the session.
func (f *fetchRequest) replySessionError() *perf.Buffer {
	reply := f.loop.server.o.Pool.Get(replyOverhead)
	w := replyWriter{b: reply.B, flexible: f.e.flexible()}
	f.sessionID = 0
	f.beginReply(&w)
	w.b = appendArrayLength(w.b, 0, w.flexible)
	reply.B = appendNoTags(w.b, w.flexible)
	endReply(reply.B)
	return reply
}

// encodeTopic writes the partitions from slot first on that stand together and are of one topic, and returns
// the slot after them.
func (f *fetchRequest) encodeTopic(c *fetchEncoder, w *replyWriter, topics *count, first int) (next int) {
	start := len(w.b)
	s := &f.slots[first]
	if f.usesIDs {
		w.b = append(w.b, s.topic[:]...)
	} else {
		w.b = appendString(w.b, f.name(s), w.flexible)
	}
	for next = first + 1; next < len(f.slots) && f.sameTopic(s, &f.slots[next]); {
		next++
	}
	partitions := w.openCount(next - first)
	for i := first; i < next; i++ {
		at := len(w.b)
		s := &f.slots[i]
		f.encodePartition(c, w, s)
		if f.news(s) || f.full || s.divergesEpoch >= 0 {
			partitions.n++
		} else {
			w.b = w.b[:at]
		}
	}
	if partitions.n == 0 {
		w.b = w.b[:start]
		return next
	}
	w.closeCount(partitions)
	w.b = appendNoTags(w.b, w.flexible)
	topics.n++
	return next
}

// news tells whether the client must be told of a partition. The session is locked for that only: records are
// encoded without, since an event loop may want the session meanwhile.
func (f *fetchRequest) news(s *fetchSlot) bool {
	if s.known == nil {
		return true
	}
	f.session.Lock()
	defer f.session.Unlock()
	return s.known.Changed(s.code, s.recordBytes, s.state.HighWatermark, s.state.LogStart)
}

// encodePartition writes one partition with what records the limits leave.
func (f *fetchRequest) encodePartition(c *fetchEncoder, w *replyWriter, s *fetchSlot) {
	start := len(w.b)
	f.encodePartitionHead(w, s)
	records := w.openLength(s.spanBytes)
	if s.spanBytes > 0 {
		if err := f.encodeRecords(c, w, s); err != nil {
			place := f.place(s)
			place.segment, place.position = s.span.PlaceOf(c.result.Consumed)
			s.code = f.loop.server.readFailed(place, err)
			s.spanBytes = 0
			s.span.Release()
			w.b = w.b[:start]
			f.encodePartitionHead(w, s)
			records = w.openLength(0)
		}
	}
	s.recordBytes = w.closeLength(records)
	if s.divergesEpoch < 0 {
		w.b = appendNoTags(w.b, w.flexible)
		return
	}
	w.b = append(w.b, 1, 0, 13) // one tag: 0, the diverging epoch, of 13 bytes
	w.b = appendInt32(w.b, s.divergesEpoch)
	w.b = appendInt64(w.b, s.divergesAt)
	w.b = append(w.b, 0)
}

func (f *fetchRequest) encodePartitionHead(w *replyWriter, s *fetchSlot) {
	version := f.e.version
	high, stable, start := s.state.HighWatermark, s.state.LastStable, s.state.LogStart
	if s.code != codeNone {
		high, stable, start = -1, -1, -1
		s.state = engine.State{HighWatermark: -1, LastStable: -1, LogStart: -1}
	}
	w.b = appendInt32(w.b, s.partition)
	w.b = appendInt16(w.b, s.code)
	w.b = appendInt64(w.b, high)
	w.b = appendInt64(w.b, stable)
	if version >= 5 {
		w.b = appendInt64(w.b, start)
	}
	if f.readCommitted && s.code == codeNone {
		w.b = appendArrayLength(w.b, 0, w.flexible) // aborted transactions
	} else {
		w.b = appendArrayLength(w.b, -1, w.flexible)
	}
	if version >= 11 {
		w.b = appendInt32(w.b, -1) // preferred read replica
	}
}

// encodeRecords writes the records of a partition. Only the first records of the whole reply may exceed the
// limits (KIP-74).
func (f *fetchRequest) encodeRecords(c *fetchEncoder, w *replyWriter, s *fetchSlot) error {
	in := &c.in
	in.Span, in.AtBlock, in.Header = s.span.Bytes(), s.span.AtBlock, s.span.Header
	in.Identity, in.From, in.UpTo = s.shard.Identity(), s.offset, s.upTo
	in.MaxBytes = max(min(s.maxBytes, f.maxBytes-f.bytes), 0)
	in.AtLeastOne = f.bytes == 0
	before := len(w.b)
	if err := c.useCodec(s.view.config); err != nil {
		return err
	}
	c.dst = w.b
	err := engine.Guard(c)
	in.Span = nil
	if err != nil {
		c.dst = nil
		return err
	}
	w.b, c.dst = c.dst, nil
	f.bytes += len(w.b) - before
	f.records += c.result.Records
	return nil
}

// replyWriter appends to a reply whose counts and lengths are known only afterwards.
type replyWriter struct {
	b        []byte
	flexible bool
}

// count is the place of a number that is filled in later.
type count struct{ at, reserved, n int }

// openCount reserves the place of an array length that will hardly be longer than one for expected elements.
func (w *replyWriter) openCount(expected int) count {
	return w.open(expected)
}

// openLength reserves the place of the length of nullable bytes.
func (w *replyWriter) openLength(expected int) count { return w.open(expected) }

func (w *replyWriter) open(expected int) count {
	c := count{at: len(w.b), reserved: 4}
	if w.flexible {
		c.reserved = uvarintSize(uint64(expected) + 1)
	}
	w.b = append(w.b, "\x00\x00\x00\x00\x00"[:c.reserved]...)
	return c
}

// closeCount fills in c.n; where it takes another number of bytes than was reserved, what follows moves.
func (w *replyWriter) closeCount(c count) {
	if !w.flexible {
		binary.BigEndian.PutUint32(w.b[c.at:], uint32(c.n))
		return
	}
	if need := uvarintSize(uint64(c.n) + 1); need != c.reserved {
		body := w.b[c.at+c.reserved:]
		if need > c.reserved {
			w.b = append(w.b, "\x00\x00\x00\x00"[:need-c.reserved]...)
		}
		copy(w.b[c.at+need:], body)
		w.b = w.b[:c.at+need+len(body)]
	}
	binary.PutUvarint(w.b[c.at:], uint64(c.n)+1)
}

// closeLength fills in the number of bytes since openLength and returns it.
func (w *replyWriter) closeLength(c count) int {
	c.n = len(w.b) - c.at - c.reserved
	w.closeCount(c)
	return c.n
}

func uvarintSize(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}
