package model

import (
	"encoding/binary"
	"fmt"
)

// RecordOverhead is the fixed bytes of a record: offset and four lengths.
const RecordOverhead = 24

// Marks of a record's metadata; each announces a field, in this order, except metaNullValue.
const (
	metaTimestamp = 1 << 0 // zigzag varint
	metaKey       = 1 << 1 // uvarint length, bytes
	metaNullValue = 1 << 2
	metaHeaders   = 1 << 3 // raw, see Headers
	metaExpiry    = 1 << 4 // i64
	metaKnown     = metaTimestamp | metaKey | metaNullValue | metaHeaders | metaExpiry
)

// Record is one record. Slices share the bytes they were parsed from.
type Record struct {
	Offset         int64
	TimestampDelta int64  // milliseconds to the append's base timestamp
	Key            []byte // nil: null, which differs from empty
	Value          []byte // nil: null, which differs from empty
	// Headers are the raw headers, nil for none: a zigzag varint count, then for each a zigzag varint
	// length and the name, a zigzag varint length (-1: null) and the value. See HeaderReader.
	Headers []byte
	Expiry  int64 // milliseconds since the epoch, 0: never
	// ProtocolData belongs to one protocol, whose tag is its first byte; nil for none. Skip unknown tags.
	ProtocolData []byte
}

// layout returns what the metadata of r announces and its length, 0 where everything has its default.
func (r *Record) layout() (flags byte, length int) {
	if r.TimestampDelta != 0 {
		flags |= metaTimestamp
		length = uvarintLen(zigzag(r.TimestampDelta))
	}
	if r.Key != nil {
		flags |= metaKey
		length += uvarintLen(uint64(len(r.Key))) + len(r.Key)
	}
	if r.Value == nil {
		flags |= metaNullValue
	}
	if len(r.Headers) > 0 {
		flags |= metaHeaders
		length += len(r.Headers)
	}
	if r.Expiry != 0 {
		flags |= metaExpiry
		length += 8
	}
	if flags != 0 {
		length++
	}
	return flags, length
}

// put writes r into d, whose length is the record's size, with the layout that layout returned.
func (r *Record) put(d []byte, flags byte, metadata int) {
	be := binary.BigEndian
	be.PutUint64(d, uint64(r.Offset))
	be.PutUint32(d[8:], uint32(len(d)-12))
	be.PutUint32(d[12:], uint32(metadata))
	i := 16
	if flags != 0 {
		d[i] = flags
		i++
		if flags&metaTimestamp != 0 {
			i += putUvarint(d[i:], zigzag(r.TimestampDelta))
		}
		if flags&metaKey != 0 {
			i += putUvarint(d[i:], uint64(len(r.Key)))
			i += copy(d[i:], r.Key)
		}
		if flags&metaHeaders != 0 {
			i += copy(d[i:], r.Headers)
		}
		if flags&metaExpiry != 0 {
			be.PutUint64(d[i:], uint64(r.Expiry))
			i += 8
		}
	}
	be.PutUint32(d[i:], uint32(len(r.ProtocolData)))
	i += 4
	i += copy(d[i:], r.ProtocolData)
	be.PutUint32(d[i:], uint32(len(r.Value)))
	copy(d[i+4:], r.Value)
}

// ParseRecord reads the record at the start of b into r and returns its size. The raw headers are not
// walked: that was done before they were stored, and ScanAppend does it. Errors: ErrShort, ErrFlags for
// marks of a newer version, ErrMalformed.
func ParseRecord(b []byte, r *Record) (n int, err error) {
	be := binary.BigEndian
	if len(b) < RecordOverhead {
		return 0, ErrShort
	}
	total := uint64(be.Uint32(b[8:]))
	metadata := uint64(be.Uint32(b[12:]))
	if total > uint64(len(b)-12) {
		return 0, ErrShort
	}
	if metadata+12 > total {
		return 0, malformedRecord(b)
	}
	d := b[12 : 12+total : 12+total]
	rest := d[4+metadata:]
	protocol := uint64(be.Uint32(rest))
	if protocol+8 > uint64(len(rest)) {
		return 0, malformedRecord(b)
	}
	r.ProtocolData = nil
	if protocol != 0 {
		r.ProtocolData = rest[4 : 4+protocol : 4+protocol]
	}
	value := rest[4+protocol:]
	if uint64(be.Uint32(value)) != uint64(len(value)-4) {
		return 0, malformedRecord(b)
	}
	r.Offset = int64(be.Uint64(b))
	r.Value = value[4:]
	if metadata == 0 {
		r.TimestampDelta, r.Expiry, r.Key, r.Headers = 0, 0, nil, nil
		return int(12 + total), nil
	}
	if err := r.parseMetadata(d[4 : 4+metadata : 4+metadata]); err != nil {
		return 0, err
	}
	return int(12 + total), nil
}

// ParseValue is ParseRecord for a record that AddValue wrote with a timestamp delta of at most two bytes. n
// is 0 for any other record and for damage: ParseRecord then tells which.
func ParseValue(b []byte) (offset, timestampDelta int64, value []byte, n int) {
	be := binary.BigEndian
	if len(b) < RecordOverhead {
		return 0, 0, nil, 0
	}
	lengths := be.Uint64(b[8:])
	at := int(uint32(lengths)) // bytes of metadata
	if at != 0 {
		// Flags, then one byte, or two of which the first is marked.
		if at != 2 && at != 3 || len(b) < RecordOverhead+at || b[16] != metaTimestamp || b[15+at] >= 0x80 {
			return 0, 0, nil, 0
		}
		u := uint64(b[17])
		if at == 3 {
			if u < 0x80 {
				return 0, 0, nil, 0
			}
			u = u&0x7f | uint64(b[18])<<7
		}
		timestampDelta = unzigzag(u)
	}
	at += RecordOverhead
	size := be.Uint64(b[at-8:]) // no protocol data: its length, the upper half, is 0
	n = int(12 + lengths>>32)
	if size > uint64(len(b)-at) || at+int(size) != n {
		return 0, 0, nil, 0
	}
	return int64(be.Uint64(b)), timestampDelta, b[at:n:n], n
}

// parseMetadata reads m, which is not empty. r.Value is already set.
func (r *Record) parseMetadata(m []byte) error {
	r.TimestampDelta, r.Expiry, r.Key, r.Headers = 0, 0, nil, nil
	flags := m[0]
	m = m[1:]
	if flags&^metaKnown != 0 {
		return fmt.Errorf("record at offset %d: %w %02x, written by a newer version", r.Offset, ErrFlags, flags)
	}
	if flags&metaTimestamp != 0 {
		v, n := uvarint(m)
		if n == 0 {
			return r.malformed("timestamp")
		}
		r.TimestampDelta = unzigzag(v)
		m = m[n:]
	}
	if flags&metaKey != 0 {
		v, n := uvarint(m)
		if n == 0 || v > uint64(len(m)-n) {
			return r.malformed("key")
		}
		end := n + int(v)
		r.Key = m[n:end:end]
		m = m[end:]
	}
	if flags&metaNullValue != 0 {
		if len(r.Value) != 0 {
			return r.malformed("null value")
		}
		r.Value = nil
	}
	if flags&metaExpiry != 0 {
		if len(m) < 8 {
			return r.malformed("expiry")
		}
		r.Expiry = int64(binary.BigEndian.Uint64(m[len(m)-8:]))
		m = m[:len(m)-8]
	}
	if flags&metaHeaders != 0 {
		if len(m) == 0 {
			return r.malformed("headers")
		}
		r.Headers = m[:len(m):len(m)]
		m = nil
	}
	if len(m) != 0 {
		return r.malformed("metadata length")
	}
	return nil
}

func (r *Record) malformed(what string) error {
	return fmt.Errorf("record at offset %d: %w: %s", r.Offset, ErrMalformed, what)
}

func malformedRecord(b []byte) error {
	return fmt.Errorf("record at offset %d: %w: lengths", binary.BigEndian.Uint64(b), ErrMalformed)
}
