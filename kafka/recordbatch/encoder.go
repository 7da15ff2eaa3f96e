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
	keepTime  int64 // mask of timestamp deltas: none where the append has one time
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
	e.maxDelta, e.lastDelta, e.keepTime = math.MinInt64, 0, -1
	if h.Flags&model.FlagLogAppendTime != 0 {
		e.keepTime = 0
	}
	out := reserve(dst, HeaderSize)
	at, most := e.batch+HeaderSize, e.batch+max(limit, 0)
	end := min(len(out), most)
	// Records are taken one by one until the first is served, then plain ones in a run.
	for len(records) > 0 && !e.cut && !e.bounded {
		if e.records > 0 {
			if at, records = e.values(out[:end], at, records); len(records) == 0 {
				break
			}
		}
		var r model.Record
		n, err := model.ParseRecord(records, &r)
		if err != nil {
			return dst, err
		}
		switch {
		case r.Offset < from:
		case r.Offset < h.BaseOffset || r.Offset > h.LastOffset:
			return dst, fmt.Errorf("record at offset %d: %w: outside its append", r.Offset, model.ErrMalformed)
		case r.Offset >= e.in.UpTo:
			e.bounded = true
		default:
			if e.records == 0 {
				e.base = r.Offset
			}
			body := e.bodySize(&r)
			size := varintLen(int64(body)) + body
			if at+size > end {
				if at+size > most && (e.records > 0 || !atLeastOne) {
					e.cut = true
					break
				}
				// A record is never larger on the wire than it is stored.
				out = reserve(out[:at], max(size, min(most-at, len(records))))
				end = max(min(len(out), most), at+size)
			}
			e.record(out[at:at+size], body, &r)
			at += size
		}
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

// bodySize returns the bytes of r on the wire behind its length.
func (e *encoding) bodySize(r *model.Record) int {
	size := 3 + varintLen(r.TimestampDelta&e.keepTime) + varintLen(r.Offset-e.base) + max(len(r.Headers), 1)
	if r.Key != nil {
		size += varintLen(int64(len(r.Key))) - 1 + len(r.Key)
	}
	if r.Value != nil {
		size += varintLen(int64(len(r.Value))) - 1 + len(r.Value)
	}
	return size
}

// record writes r over d, which is as long as r on the wire.
func (e *encoding) record(d []byte, body int, r *model.Record) {
	timestampDelta, delta := r.TimestampDelta&e.keepTime, r.Offset-e.base
	i := putVarint(d, 0, int64(body))
	d[i] = 0 // attributes
	i = putVarint(d, i+1, timestampDelta)
	i = putVarint(d, i, delta)
	i = putBytes(d, i, r.Key)
	i = putBytes(d, i, r.Value)
	if len(r.Headers) == 0 {
		d[i] = 0
	} else {
		copy(d[i:], r.Headers)
	}
	e.maxDelta = max(e.maxDelta, timestampDelta)
	e.lastDelta = delta
	e.records++
}

// values writes records from the front as long as they have nothing but a value, fit and are to be served;
// record takes every other one. It is what most records of a busy broker cost. What stands before a value
// is put together in a register: at most seven bytes, then three.
func (e *encoding) values(out []byte, at int, records []byte) (end int, rest []byte) {
	le := binary.LittleEndian
	base, span := e.base, uint64(min(e.in.UpTo, e.in.Header.LastOffset+1, e.base+shortMax/2)-e.base)
	maxDelta, lastDelta, count, keepTime := e.maxDelta, e.lastDelta, e.records, e.keepTime
	for len(records) > 0 {
		offset, timestampDelta, value, n := model.ParseValue(records)
		delta := uint64(offset - base)
		if n == 0 || delta >= span || uint(len(value)-1) >= shortMax/2-32 {
			break
		}
		timestampDelta &= keepTime
		t, timeBits := short(zigzag(timestampDelta))
		o, offsetBits := short(delta << 1)
		v, valueBits := short(uint64(len(value)) << 1)
		body := 3 + int(timeBits+offsetBits+valueBits)/8 + len(value)
		w, bits := short(uint64(body) << 1)
		size := int(bits/8) + body
		if at+size > len(out) {
			break
		}
		d := out[at : at+size]
		bits += 8 // attributes
		w |= t << (bits & 63)
		bits += timeBits
		w |= o << (bits & 63)
		le.PutUint64(d, w)
		le.PutUint32(d[(bits+offsetBits)/8:], uint32(v<<8|1)) // null key, length of the value
		copy(d[size-1-len(value):], value)
		d[size-1] = 0 // headers
		maxDelta = max(maxDelta, timestampDelta)
		lastDelta = int64(delta)
		at += size
		count++
		records = records[n:]
	}
	e.maxDelta, e.lastDelta, e.records = maxDelta, lastDelta, count
	return at, records
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
