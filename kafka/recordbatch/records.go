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
	src, count := d.records, int(d.batch.Count)
	least, most := d.limits.timestampRange()
	base, maxTimestamp := d.batch.BaseTimestamp, int64(-1)
	sizeMax := int64(math.MaxInt64)
	if d.batch.Codec() != model.CodecNone && d.limits.RecordBytesMax > 0 {
		sizeMax = d.limits.RecordBytesMax
	}
	r := &d.record
	for i := 0; i < count; i++ {
		end, offsetDelta := parseValue(src, r)
		if end == 0 {
			size, at := varint(src, 0)
			if at < 0 || size < 0 || size > int64(len(src)-at) {
				return refuseRecord(ErrInvalidRecord, i, "its length is wrong")
			}
			end = at + int(size)
			offsetDelta = parseRecord(src[at:end:end], r)
		}
		if offsetDelta != int64(i) {
			return d.refuseParsed(i, offsetDelta, end)
		}
		if int64(end) > sizeMax {
			return refuseRecord(ErrInvalidRecord, i, "it has %d bytes, %d are allowed", end, sizeMax)
		}
		if r.Key == nil && d.limits.KeyRequired {
			return refuseRecord(ErrInvalidRecord, i, "a compacted topic takes no record without a key")
		}
		timestamp := base + r.TimestampDelta
		if (base^timestamp)&(r.TimestampDelta^timestamp) < 0 {
			return refuseRecord(ErrInvalidRecord, i, "its timestamp overflows")
		}
		if d.limits.LogAppendTime {
			r.TimestampDelta = 0
		} else if (timestamp < least || timestamp > most) && timestamp != -1 {
			return refuseRecord(ErrTimestamp, i, "timestamp %d is not in [%d, %d]", timestamp, least, most)
		}
		maxTimestamp = max(maxTimestamp, timestamp)
		if r.Key == nil && r.Headers == nil && r.Value != nil {
			b.AddValue(baseOffset+int64(i), r.TimestampDelta, r.Value)
		} else {
			r.Offset = baseOffset + int64(i)
			b.Add(r)
		}
		src = src[end:]
	}
	if len(src) != 0 {
		return refuse(ErrInvalidRecord, "%d bytes after the last record", len(src))
	}
	b.Header.BaseTimestamp, b.Header.MaxTimestamp = base, maxTimestamp
	if d.limits.LogAppendTime {
		b.Header.BaseTimestamp, b.Header.MaxTimestamp = d.limits.Now, d.limits.Now
	}
	return nil
}

// refuseParsed says what is wrong with a record that did not give the offset delta of its place.
func (d *Decoder) refuseParsed(i int, offsetDelta int64, size int) error {
	if offsetDelta == badRecord {
		return refuseRecord(ErrInvalidRecord, i, "its lengths contradict each other in %d bytes", size)
	}
	return refuseRecord(ErrInvalidRecord, i, "its offset delta is %d", offsetDelta)
}

// parseValue is parseRecord, length included, for a record that has nothing but a value and short numbers
// before it. size is 0 for every other record, bad ones among them.
func parseValue(src []byte, r *model.Record) (size int, offsetDelta int64) {
	if len(src) < headSize {
		return 0, 0
	}
	p := (*[headSize]byte)(src)
	body, at := head(p, 0)
	end := at + int(body>>1)
	delta, i := head(p, at+1)
	offset, i := head(p, i)
	key := p[i&(headSize-1)]
	value, i := head(p, i+1)
	// Lengths are even, that of a null key is 1; behind the value is the count of headers.
	if i >= headSize || (body|value)&1 != 0 || key != 1 || end > len(src) || i+int(value>>1)+1 != end || src[end-1] != 0 {
		return 0, 0
	}
	r.TimestampDelta = unzigzag(delta)
	r.Key, r.Headers = nil, nil
	r.Value = src[i : end-1 : end-1]
	return end, unzigzag(offset)
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
