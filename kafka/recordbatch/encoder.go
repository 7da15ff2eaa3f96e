package recordbatch

import (
	"encoding/binary"
	"fmt"
	"math"

	"millrace/engine/model"
	"millrace/perf"
)

// Input is what AppendBatches encodes. It is reused from call to call.
type Input struct {
	// Span is stored bytes that begin with an append header or, where AtBlock, with a block header whose
	// append has the header Header. They may end anywhere: what is not whole is not served.
	Span    []byte
	AtBlock bool
	// Header is the append at the start of Span where AtBlock. AppendBatches leaves there the header of the
	// append that Result.Consumed lies in, where Result.AtBlock.
	Header   model.AppendHeader
	Identity uint32
	// From and UpTo bound the offsets that are served: [From, UpTo).
	From, UpTo int64
	// MaxBytes bounds what is appended. AtLeastOne serves the first record although it alone is larger.
	MaxBytes   int
	AtLeastOne bool
}

// Result is what AppendBatches did.
type Result struct {
	// NextOffset is the first offset that was not served and may exist; Input.From where nothing was.
	NextOffset int64
	// Consumed is the position in Span of the append or block to go on with; AtBlock tells which.
	Consumed int
	AtBlock  bool
	Records  int
}

// AppendBatches appends v2 batches of the records in [From, UpTo) to dst, one per stored block, and returns
// dst. Every block that is served is verified first; where one is damaged nothing of it leaves: what stands
// before it is served, and if that is nothing, the error is returned (model.ErrChecksum and the like;
// model.ErrShort where Span holds no whole block). dst grows only where its capacity does not suffice.
//
// A batch holds records of one append only, begins at its first record's offset and is cut between records.
// Where the end of an append is served, the last offset delta reaches the append's last offset, so that
// readers pass offsets whose records compaction removed; where no record is left for that, by an empty
// batch.
func AppendBatches(dst []byte, in *Input, res *Result) ([]byte, error) {
	e := encoding{in: in, start: len(dst)}
	return e.run(dst, res)
}

// encoding is one run over a span.
type encoding struct {
	in         *Input
	start      int // of what is appended to dst
	compressor *Compressor
	// batch is where the open batch begins, records what is in it.
	batch     int
	records   int
	base      int64 // offset of its first record
	lastDelta int64
	maxDelta  int64 // of timestamps
	next      int64
	cut       bool // the batch ends before the block does, for want of room
	bounded   bool // the block has records beyond Input.UpTo
}

func (e *encoding) run(dst []byte, res *Result) ([]byte, error) {
	in := e.in
	*res = Result{NextOffset: in.From, AtBlock: in.AtBlock}
	appendStart := int64(math.MinInt64)
	for res.Consumed < len(in.Span) && res.NextOffset < in.UpTo {
		rest := in.Span[res.Consumed:]
		var err error
		var more bool
		if res.AtBlock {
			dst, more, err = e.block(dst, rest, appendStart, res)
		} else {
			appendStart = int64(res.Consumed)
			dst, more, err = e.header(dst, rest, res)
		}
		if err != nil && len(dst) == e.start {
			return dst, err
		}
		if err != nil || !more {
			break
		}
	}
	return dst, nil
}

// header takes an append header: it goes to the blocks behind it, or over an append that has nothing to
// serve. more is false where the run ends here.
func (e *encoding) header(dst, rest []byte, res *Result) (out []byte, more bool, err error) {
	h := &e.in.Header
	if err := h.Parse(rest, e.in.Identity); err != nil {
		return dst, false, err
	}
	switch {
	case h.BaseOffset >= e.in.UpTo:
		return dst, false, nil
	case h.LastOffset < res.NextOffset:
		if uint64(h.Length) > uint64(len(rest)) {
			return dst, false, model.ErrShort
		}
		res.Consumed += int(h.Length)
	case h.BlockCount == 0:
		dst, ok := e.emptyBatch(dst, max(h.BaseOffset, res.NextOffset))
		if !ok {
			return dst, false, nil
		}
		res.Consumed += int(h.Length)
		res.NextOffset = min(h.LastOffset+1, e.in.UpTo)
		return dst, true, nil
	default:
		res.Consumed += model.HeaderSize
		res.AtBlock = true
	}
	return dst, true, nil
}

// block serves the block at the start of rest.
func (e *encoding) block(dst, rest []byte, appendStart int64, res *Result) (out []byte, more bool, err error) {
	var b model.BlockHeader
	if err := b.Verify(rest, e.in.Identity); err != nil {
		return dst, false, err
	}
	if appendStart != math.MinInt64 && appendStart+int64(b.Back) != int64(res.Consumed) {
		return dst, false, fmt.Errorf("block at %d: %w: not this append's", res.Consumed, model.ErrMalformed)
	}
	records := rest[model.BlockHeaderSize:b.Size()]
	if e.compressor != nil {
		dst, err = e.compressor.block(e, dst, records, b.Last, res.NextOffset)
	} else {
		used := len(dst) - e.start
		dst, err = e.encode(dst, records, b.Last, e.in.MaxBytes-used, e.in.AtLeastOne && used == 0, res.NextOffset)
		if err == nil && e.records > 0 {
			e.seal(dst, model.CodecNone)
		}
	}
	if err != nil {
		return dst, false, err
	}
	res.Records += e.records
	if e.cut {
		res.NextOffset = e.next
		return dst, false, nil
	}
	from := max(e.in.Header.BaseOffset, res.NextOffset)
	if e.records == 0 && (e.bounded || b.Last && from <= e.in.Header.LastOffset) {
		// All that this append still had was removed: readers are led over it.
		var ok bool
		if dst, ok = e.emptyBatch(dst, from); !ok {
			return dst, false, nil
		}
		e.next = e.in.Header.LastOffset + 1
	}
	res.NextOffset = min(max(res.NextOffset, e.next), e.in.UpTo)
	if e.bounded {
		return dst, false, nil
	}
	res.Consumed += b.Size()
	res.AtBlock = !b.Last
	return dst, true, nil
}

// encode appends the records of a verified block that lie in [from, UpTo) as a batch without compression,
// at most limit bytes of it, its header yet to be written by seal. Where nothing is to be served, dst comes
// back as it was and e.records is 0. e.next is the first offset after what was served.
func (e *encoding) encode(dst, records []byte, last bool, limit int, atLeastOne bool, from int64) ([]byte, error) {
	h := &e.in.Header
	e.batch, e.records, e.next = len(dst), 0, from
	e.cut, e.bounded = false, false
	e.maxDelta, e.lastDelta = math.MinInt64, 0
	// A record is never larger on the wire than it is stored.
	out := reserve(dst, max(HeaderSize, min(limit, HeaderSize+len(records))))
	at, end := e.batch+HeaderSize, min(len(out), e.batch+max(limit, 0))
	// Deltas are those to the append's base timestamp.
	keepTime := h.Flags&model.FlagLogAppendTime == 0
	var r model.Record
	for len(records) > 0 {
		offset, timestampDelta, value, n := model.ParseValue(records)
		full := n == 0
		if full {
			var err error
			if n, err = model.ParseRecord(records, &r); err != nil {
				return dst, err
			}
			offset, timestampDelta = r.Offset, r.TimestampDelta
		}
		if offset < from {
			records = records[n:]
			continue
		}
		if offset < h.BaseOffset || offset > h.LastOffset {
			return dst, fmt.Errorf("record at offset %d: %w: outside its append", offset, model.ErrMalformed)
		}
		if offset >= e.in.UpTo {
			e.bounded = true
			break
		}
		if e.records == 0 {
			e.base = offset
		}
		if !keepTime {
			timestampDelta = 0
		}
		delta := offset - e.base
		body := 4 + varintLen(timestampDelta) + varintLen(delta)
		if full {
			body += fieldsSize(&r)
		} else {
			body += varintLen(int64(len(value))) - 1 + len(value)
		}
		size := varintLen(int64(body)) + body
		if at+size > end {
			if e.records > 0 || !atLeastOne {
				e.cut = true
				break
			}
			out = reserve(out[:at], size)
			end = at + size
		}
		d := out[at : at+size : at+size]
		i := putVarint(d, 0, int64(body))
		d[i] = 0 // attributes
		i = putVarint(d, i+1, timestampDelta)
		i = putVarint(d, i, delta)
		if full {
			putFields(d, i, &r)
		} else {
			d[i] = 1 // null key
			i = putVarint(d, i+1, int64(len(value)))
			copy(d[i:], value)
			d[size-1] = 0 // headers
		}
		at += size
		e.maxDelta = max(e.maxDelta, timestampDelta)
		e.lastDelta = delta
		e.records++
		records = records[n:]
	}
	if e.records == 0 {
		return dst, nil
	}
	e.next = e.base + e.lastDelta + 1
	if e.bounded || last && !e.cut {
		e.next = min(h.LastOffset+1, e.in.UpTo)
		e.lastDelta = e.next - 1 - e.base
	}
	return out[:at], nil
}

// reserve returns dst with all its capacity, which is n bytes beyond its length at least.
func reserve(dst []byte, n int) []byte {
	if n > cap(dst)-len(dst) {
		grown := make([]byte, len(dst), len(dst)+n)
		copy(grown, dst)
		dst = grown
	}
	return dst[:cap(dst)]
}

// fieldsSize returns the bytes of key, value and headers on the wire beyond one byte for each.
func fieldsSize(r *model.Record) int {
	size := max(len(r.Headers), 1) - 1
	if r.Key != nil {
		size += varintLen(int64(len(r.Key))) - 1 + len(r.Key)
	}
	if r.Value != nil {
		size += varintLen(int64(len(r.Value))) - 1 + len(r.Value)
	}
	return size
}

// putFields writes key, value and headers of r at b[i:], which has exactly the room.
func putFields(b []byte, i int, r *model.Record) {
	i = putBytes(b, i, r.Key)
	i = putBytes(b, i, r.Value)
	if len(r.Headers) == 0 {
		b[i] = 0
		return
	}
	copy(b[i:], r.Headers)
}

// putBytes writes length and bytes, or -1 for nil.
func putBytes(b []byte, i int, v []byte) int {
	if v == nil {
		b[i] = 1
		return i + 1
	}
	i = putVarint(b, i, int64(len(v)))
	return i + copy(b[i:], v)
}

// seal writes the header of the open batch, which ends dst, checksum last.
func (e *encoding) seal(dst []byte, codec model.Codec) {
	h := &e.in.Header
	maxTimestamp := h.MaxTimestamp
	if h.Flags&model.FlagLogAppendTime == 0 {
		maxTimestamp = -1
		if e.records > 0 {
			maxTimestamp = max(maxTimestamp, h.BaseTimestamp+e.maxDelta)
		}
	}
	putHeader(dst[e.batch:], h, codec, e.base, e.lastDelta, maxTimestamp, e.records)
}

// emptyBatch appends a batch without records from offset from to the append's last, and tells whether it
// fitted.
func (e *encoding) emptyBatch(dst []byte, from int64) ([]byte, bool) {
	used := len(dst) - e.start
	if used+HeaderSize > e.in.MaxBytes && (used > 0 || !e.in.AtLeastOne) {
		return dst, false
	}
	h := &e.in.Header
	at := len(dst)
	dst = reserve(dst, HeaderSize)[:at+HeaderSize]
	putHeader(dst[at:], h, model.CodecNone, from, min(h.LastOffset, e.in.UpTo-1)-from, h.MaxTimestamp, 0)
	return dst, true
}

// putHeader writes the batch header over b[:HeaderSize]; the records stand behind it, compressed by codec.
func putHeader(b []byte, h *model.AppendHeader, codec model.Codec, base, lastDelta, maxTimestamp int64, count int) {
	be := binary.BigEndian
	attributes := uint16(codec)
	if h.Flags&model.FlagLogAppendTime != 0 {
		attributes |= attributeLogAppendTime
	}
	if h.Flags&model.FlagTransactional != 0 {
		attributes |= attributeTransactional
	}
	if h.Flags&model.FlagControl != 0 {
		attributes |= attributeControl
	}
	d := b[:HeaderSize:HeaderSize]
	be.PutUint64(d, uint64(base))
	be.PutUint32(d[8:], uint32(len(b)-logOverhead))
	be.PutUint32(d[12:], uint32(h.LeaderEpoch))
	d[16] = 2
	be.PutUint16(d[21:], attributes)
	be.PutUint32(d[23:], uint32(lastDelta))
	be.PutUint64(d[27:], uint64(h.BaseTimestamp))
	be.PutUint64(d[35:], uint64(maxTimestamp))
	be.PutUint64(d[43:], uint64(h.ProducerID))
	be.PutUint16(d[51:], uint16(h.ProducerEpoch))
	be.PutUint32(d[53:], uint32(addSequence(h.BaseSequence, base-h.BaseOffset)))
	be.PutUint32(d[57:], uint32(count))
	be.PutUint32(d[17:], perf.CRC32C(b[crcStart:]))
}
