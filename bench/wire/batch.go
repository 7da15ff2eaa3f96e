package wire

import (
	"encoding/binary"
	"fmt"

	"millrace/perf"
)

// Places in a v2 batch.
const (
	atLength        = 8
	atEpoch         = 12
	atMagic         = 16
	atCRC           = 17
	atAttributes    = 21
	atLastDelta     = 23
	atBaseTime      = 27
	atMaxTime       = 35
	atProducerID    = 43
	atProducerEpoch = 51
	atBaseSequence  = 53
	atCount         = 57
	// HeaderBytes is the size of a batch before its records.
	HeaderBytes = 61
)

// Compress returns the records of a batch compressed and the codec's number in the attributes of a batch.
type Compress func(records []byte) ([]byte, int8)

// AppendBatch appends a batch of keyless records to dst, with base offset 0, no producer and one timestamp
// for all. A nil compress leaves the records as they are. It returns the bytes and how many the batch has
// before compression.
func AppendBatch(dst []byte, values [][]byte, timestampMs int64, compress Compress) ([]byte, int) {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderBytes)...)
	for i, v := range values {
		dst = appendRecord(dst, i, v)
	}
	plain := len(dst) - start
	var attributes int8
	if compress != nil {
		packed, codec := compress(dst[start+HeaderBytes:])
		dst = append(dst[:start+HeaderBytes], packed...)
		attributes = codec
	}
	b := dst[start:]
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-atEpoch))
	b[atMagic] = 2
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint32(b[atLastDelta:], uint32(len(values)-1))
	binary.BigEndian.PutUint64(b[atBaseTime:], uint64(timestampMs))
	binary.BigEndian.PutUint64(b[atMaxTime:], uint64(timestampMs))
	binary.BigEndian.PutUint32(b[atCount:], uint32(len(values)))
	Stamp(b, -1, -1, -1)
	return dst, plain
}

func appendRecord(dst []byte, delta int, value []byte) []byte {
	// Attributes, no time delta, the offset delta, no key, the value, no headers.
	size := 1 + 1 + varintSize(int64(delta)) + 1 + varintSize(int64(len(value))) + len(value) + 1
	dst = binary.AppendVarint(dst, int64(size))
	dst = append(dst, 0, 0)
	dst = binary.AppendVarint(dst, int64(delta))
	dst = binary.AppendVarint(dst, -1)
	dst = binary.AppendVarint(dst, int64(len(value)))
	dst = append(dst, value...)
	return append(dst, 0)
}

func varintSize(v int64) int {
	n := 1
	for u := uint64(v)<<1 ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

// Stamp writes a producer's id, epoch and base sequence into the batch b and makes its checksum right.
func Stamp(b []byte, producerID int64, epoch int16, sequence int32) {
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(producerID))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(b[atBaseSequence:], uint32(sequence))
	binary.BigEndian.PutUint32(b[atCRC:], perf.CRC32C(b[atAttributes:]))
}

// NextSequence is the base sequence after a batch of so many records: it wraps from 2^31-1 to 0.
func NextSequence(sequence int32, records int) int32 {
	return int32((uint32(sequence) + uint32(records)) & 0x7fffffff)
}

// Header is what a batch says of itself, with its checksum verified.
type Header struct {
	BaseOffset int64
	Codec      int8
	Control    bool
	LastDelta  int32
	Count      int32
}

// ParseBatch reads the batch that src begins with and verifies its checksum. It returns the bytes after the
// batch's header and the size of the batch, which is 0 when src ends before the batch does, as the last one
// of a fetch may.
func ParseBatch(src []byte) (h Header, body []byte, size int, err error) {
	if len(src) < atEpoch {
		return h, nil, 0, nil
	}
	length := int(int32(binary.BigEndian.Uint32(src[atLength:])))
	if length < HeaderBytes-atEpoch {
		return h, nil, 0, fmt.Errorf("a batch of %d bytes", length)
	}
	size = atEpoch + length
	if len(src) < size {
		return h, nil, 0, nil
	}
	b := src[:size]
	h.BaseOffset = int64(binary.BigEndian.Uint64(b))
	if b[atMagic] != 2 {
		return h, nil, 0, fmt.Errorf("batch at offset %d has magic %d, not 2", h.BaseOffset, b[atMagic])
	}
	if want, got := binary.BigEndian.Uint32(b[atCRC:]), perf.CRC32C(b[atAttributes:]); want != got {
		return h, nil, 0, fmt.Errorf("batch at offset %d has checksum %08x, its bytes have %08x", h.BaseOffset, want, got)
	}
	attributes := binary.BigEndian.Uint16(b[atAttributes:])
	h.Codec, h.Control = int8(attributes&7), attributes&0x20 != 0
	h.LastDelta = int32(binary.BigEndian.Uint32(b[atLastDelta:]))
	h.Count = int32(binary.BigEndian.Uint32(b[atCount:]))
	return h, b[HeaderBytes:], size, nil
}

// Records walks the records of a batch.
type Records struct{ left []byte }

// NewRecords walks decompressed records.
func NewRecords(records []byte) Records { return Records{records} }

// Next returns the next record's offset delta and value. It fails on bytes that are no record; the caller
// knows from the header how many there must be, and asks Rest after the last.
func (r *Records) Next() (delta int64, value []byte, err error) {
	size, n := binary.Varint(r.left)
	if n <= 0 || size < 0 || size > int64(len(r.left)-n) {
		return 0, nil, fmt.Errorf("a record of %d bytes with %d left", size, len(r.left))
	}
	b := r.left[n : n+int(size)]
	r.left = r.left[n+int(size):]
	if len(b) < 2 {
		return 0, nil, fmt.Errorf("a record of %d bytes", size)
	}
	b = b[1:] // attributes
	if _, n = binary.Varint(b); n <= 0 {
		return 0, nil, fmt.Errorf("a record without a time")
	}
	b = b[n:]
	if delta, n = binary.Varint(b); n <= 0 {
		return 0, nil, fmt.Errorf("a record without an offset")
	}
	b = b[n:]
	_, b, ok := lengthPrefixed(b)
	if !ok {
		return 0, nil, fmt.Errorf("record %d has a broken key", delta)
	}
	if value, b, ok = lengthPrefixed(b); !ok {
		return 0, nil, fmt.Errorf("record %d has a broken value", delta)
	}
	if len(b) == 0 {
		return 0, nil, fmt.Errorf("record %d has no count of headers", delta)
	}
	return delta, value, nil
}

// Rest returns how many bytes are left.
func (r *Records) Rest() int { return len(r.left) }

func lengthPrefixed(b []byte) (bytes, rest []byte, ok bool) {
	size, n := binary.Varint(b)
	if n <= 0 || size < -1 || size > int64(len(b)-n) {
		return nil, nil, false
	}
	b = b[n:]
	if size < 0 {
		return nil, b, true
	}
	return b[:size], b[size:], true
}
