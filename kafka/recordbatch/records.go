package recordbatch

import (
	"math"

	"millrace/engine/model"
)

// EncodeAppend walks the records once, checks each, and adds them to the append that b has begun at
// baseOffset. It sets the base and max timestamp of b.Header. On an error the append is to be given up.
// Errors wrap ErrInvalidRecord or ErrTimestamp and name the first bad record.
//
// Offset deltas must count up from 0: a compressed batch of an old client may say otherwise, and wrong
// deltas are refused rather than stored.
func (d *Decoder) EncodeAppend(b *model.Builder, baseOffset int64) error {
	w := d.newWalk(baseOffset)
	for count := int(d.batch.Count); ; {
		if !d.limits.KeyRequired {
			w.values(b, count)
		}
		if w.index == count {
			break
		}
		if err := d.next(&w, b); err != nil {
			return err
		}
	}
	if len(w.src) != 0 {
		return refuse(ErrInvalidRecord, "%d bytes after the last record", len(w.src))
	}
	b.Header.BaseTimestamp, b.Header.MaxTimestamp = w.base, w.maxTimestamp
	if d.limits.LogAppendTime {
		b.Header.BaseTimestamp, b.Header.MaxTimestamp = d.limits.Now, d.limits.Now
	}
	return nil
}

// walk is the state of one walk over a batch's records.
type walk struct {
	src          []byte // records to come
	index        int    // of the first of them
	baseOffset   int64
	base         int64 // timestamp
	maxTimestamp int64
	least, most  int64 // timestamps allowed
	keepTime     int64 // mask of the stored timestamp delta: none with log append time
	sizeMax      int64
}

func (d *Decoder) newWalk(baseOffset int64) walk {
	w := walk{src: d.records, baseOffset: baseOffset, base: d.batch.BaseTimestamp, maxTimestamp: -1, sizeMax: math.MaxInt64}
	if d.limits.LogAppendTime {
		w.least, w.most = math.MinInt64, math.MaxInt64
	} else {
		w.keepTime = -1
		w.least, w.most = d.limits.timestampRange()
	}
	if d.batch.Codec() != model.CodecNone && d.limits.RecordBytesMax > 0 {
		w.sizeMax = d.limits.RecordBytesMax
	}
	return w
}

// values takes records from the front as long as they have nothing but a value, a timestamp near the base
// and nothing wrong with them; next takes every other record. With everything in registers it is what most
// records of a busy broker cost.
func (w *walk) values(b *model.Builder, count int) {
	src, base, maxTimestamp := w.src, w.base, w.maxTimestamp
	i := w.index
	for ; i < count && len(src) >= headSize; i++ {
		p := (*[headSize]byte)(src)
		body, at := head(p, 0)
		end := at + int(body>>1)
		timeDelta, at := head(p, at+1) // behind the attributes, which are ignored
		offsetDelta, at := head(p, at)
		key := p[at&(headSize-1)]
		length, at := head(p, at+1)
		// Lengths are even, that of a null key is 1; behind the value is the count of headers.
		if at >= headSize || (body|length)&1 != 0 || key != 1 || offsetDelta != uint64(i)<<1 ||
			end > len(src) || at+int(length>>1)+1 != end || src[end-1] != 0 || int64(end) > w.sizeMax {
			break
		}
		delta := unzigzag(timeDelta)
		timestamp := base + delta
		if timestamp < w.least || timestamp > w.most || (base^timestamp)&(delta^timestamp) < 0 {
			break
		}
		maxTimestamp = max(maxTimestamp, timestamp)
		b.AddValue(w.baseOffset+int64(i), delta&w.keepTime, src[at:end-1])
		src = src[end:]
	}
	w.src, w.index, w.maxTimestamp = src, i, maxTimestamp
}

// next takes any one record.
func (d *Decoder) next(w *walk, b *model.Builder) error {
	i, r := w.index, &d.record
	size, at := varint(w.src, 0)
	if at < 0 || size < 0 || size > int64(len(w.src)-at) {
		return refuseRecord(ErrInvalidRecord, i, "its length is wrong")
	}
	end := at + int(size)
	offsetDelta := parseRecord(w.src[at:end:end], r)
	if offsetDelta != int64(i) {
		return d.refuseParsed(i, offsetDelta, end)
	}
	if int64(end) > w.sizeMax {
		return refuseRecord(ErrInvalidRecord, i, "it has %d bytes, %d are allowed", end, w.sizeMax)
	}
	if r.Key == nil && d.limits.KeyRequired {
		return refuseRecord(ErrInvalidRecord, i, "a compacted topic takes no record without a key")
	}
	timestamp := w.base + r.TimestampDelta
	if (w.base^timestamp)&(r.TimestampDelta^timestamp) < 0 {
		return refuseRecord(ErrInvalidRecord, i, "its timestamp overflows")
	}
	if (timestamp < w.least || timestamp > w.most) && timestamp != -1 {
		return refuseRecord(ErrTimestamp, i, "timestamp %d is not in [%d, %d]", timestamp, w.least, w.most)
	}
	w.maxTimestamp = max(w.maxTimestamp, timestamp)
	r.TimestampDelta &= w.keepTime
	r.Offset = w.baseOffset + int64(i)
	b.Add(r)
	w.src = w.src[end:]
	w.index++
	return nil
}

// refuseParsed says what is wrong with a record that did not give the offset delta of its place.
func (d *Decoder) refuseParsed(i int, offsetDelta int64, size int) error {
	if offsetDelta == badRecord {
		return refuseRecord(ErrInvalidRecord, i, "its lengths contradict each other in %d bytes", size)
	}
	return refuseRecord(ErrInvalidRecord, i, "its offset delta is %d", offsetDelta)
}

// badRecord is no offset delta, which has 32 bits.
const badRecord = math.MinInt64

// parseRecord reads the record that b is, without its length, into r, all but its offset, and returns the
// offset delta or badRecord. Slices of r share b.
func parseRecord(b []byte, r *model.Record) (offsetDelta int64) {
	// Attributes are unused and ignored (b[0]).
	delta, i := varlong(b, 1)
	offsetDelta, i = varint(b, i)
	keyLength, i := varint(b, i)
	if i < 0 || keyLength < -1 || keyLength > int64(len(b)-i) {
		return badRecord
	}
	r.TimestampDelta = delta
	r.Key = nil
	if keyLength >= 0 {
		end := i + int(keyLength)
		r.Key = b[i:end:end]
		i = end
	}
	valueLength, i := varint(b, i)
	if i < 0 || valueLength < -1 || valueLength > int64(len(b)-i) {
		return badRecord
	}
	r.Value = nil
	if valueLength >= 0 {
		end := i + int(valueLength)
		r.Value = b[i:end:end]
		i = end
	}
	r.Headers = nil
	if i == len(b)-1 && b[i] == 0 {
		return offsetDelta
	}
	if !headersFit(b, i) {
		return badRecord
	}
	if zeroHeaders(b, i) {
		return offsetDelta
	}
	r.Headers = b[i:len(b):len(b)]
	return offsetDelta
}

// headersFit tells whether b[i:] is exactly a count and that many headers.
func headersFit(b []byte, i int) bool {
	count, i := varint(b, i)
	// A header takes two bytes or more.
	if i < 0 || count < 0 || count > int64(len(b)-i)/2 {
		return false
	}
	var length int64
	for ; count > 0; count-- {
		length, i = varint(b, i)
		if i < 0 || length < 0 || length > int64(len(b)-i) {
			return false
		}
		length, i = varint(b, i+int(length))
		if i < 0 || length < -1 || length > int64(len(b)-i) {
			return false
		}
		i += max(int(length), 0)
	}
	return i == len(b)
}

// zeroHeaders tells whether b[i:] announces no headers, be it in more bytes than needed.
func zeroHeaders(b []byte, i int) bool {
	count, _ := varint(b, i)
	return count == 0
}
