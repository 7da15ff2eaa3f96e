package brokertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// batchHeaderBytes is the size of a v2 batch up to its first record.
const batchHeaderBytes = 61

// DecodeBatches decodes the records field of a fetch reply: whole v2 batches, a cut one at the end is left out.
// It is strict: magic 2, a right CRC, counts and deltas that agree, no byte left over inside a batch.
func DecodeBatches(raw []byte) ([]*Batch, error) {
	var batches []*Batch
	for at := 0; len(raw)-at >= batchHeaderBytes; {
		size := 12 + int(int32(binary.BigEndian.Uint32(raw[at+8:])))
		if size < batchHeaderBytes {
			return batches, fmt.Errorf("batch at %d announces %d bytes", at, size)
		}
		if size > len(raw)-at {
			break
		}
		b, err := decodeBatch(raw[at : at+size])
		if err != nil {
			return batches, fmt.Errorf("batch at %d: %w", at, err)
		}
		batches = append(batches, b)
		at += size
	}
	return batches, nil
}

func decodeBatch(raw []byte) (*Batch, error) {
	be := binary.BigEndian
	crc := be.Uint32(raw[17:])
	attributes := int16(be.Uint16(raw[21:]))
	length := int32(be.Uint32(raw[8:]))
	b := &Batch{
		BaseOffset:      int64(be.Uint64(raw)),
		Length:          &length,
		LeaderEpoch:     int32(be.Uint32(raw[12:])),
		Magic:           int8(raw[16]),
		CRC:             &crc,
		Attributes:      attributes &^ 7,
		Codec:           attributes & 7,
		LastOffsetDelta: int32(be.Uint32(raw[23:])),
		FirstTimestamp:  int64(be.Uint64(raw[27:])),
		MaxTimestamp:    int64(be.Uint64(raw[35:])),
		ProducerID:      int64(be.Uint64(raw[43:])),
		ProducerEpoch:   int16(be.Uint16(raw[51:])),
		BaseSequence:    int32(be.Uint32(raw[53:])),
		Count:           int32(be.Uint32(raw[57:])),
		Payload:         raw[batchHeaderBytes:],
	}
	if b.Magic != 2 {
		return nil, fmt.Errorf("magic %d", b.Magic)
	}
	if got := crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)); got != crc {
		return nil, fmt.Errorf("crc %08x stands, %08x is right", crc, got)
	}
	plain, err := Decompress(b.Codec, b.Payload)
	if err != nil {
		return nil, err
	}
	b.Plain = plain
	r := varReader{src: plain}
	for range b.Count {
		record := r.record(b)
		if r.err != nil {
			return nil, fmt.Errorf("record %d: %w", len(b.Records), r.err)
		}
		b.Records = append(b.Records, record)
	}
	if len(r.src) > 0 {
		return nil, fmt.Errorf("%d bytes after the last record", len(r.src))
	}
	return b, b.check()
}

// check demands what every broker must serve: rising deltas within last_offset_delta.
func (b *Batch) check() error {
	last := int32(-1)
	for i, r := range b.Records {
		if r.OffsetDelta <= last || r.OffsetDelta > b.LastOffsetDelta {
			return fmt.Errorf("record %d has offset delta %d after %d, last_offset_delta %d", i, r.OffsetDelta, last, b.LastOffsetDelta)
		}
		last = r.OffsetDelta
	}
	return nil
}

// varReader goes bad once: after the first fault it returns zero values and keeps err.
type varReader struct {
	src []byte
	err error
}

var errShort = errors.New("ends early or has a bad varint")

func (r *varReader) varint() int64 {
	v, n := binary.Varint(r.src)
	if n <= 0 {
		r.err, r.src = errShort, nil
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *varReader) bytes() []byte {
	n := r.varint()
	if n == -1 {
		return nil
	}
	if n < 0 || n > int64(len(r.src)) {
		r.err, r.src = errShort, nil
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}

func (r *varReader) record(b *Batch) Record {
	n := r.varint()
	if n < 1 || n > int64(len(r.src)) {
		r.err = errShort
		return Record{}
	}
	body := varReader{src: r.src[1:n]}
	record := Record{Attributes: int8(r.src[0])}
	r.src = r.src[n:]
	record.Timestamp = b.FirstTimestamp + body.varint()
	record.OffsetDelta = int32(body.varint())
	record.Offset = b.BaseOffset + int64(record.OffsetDelta)
	record.Key = body.bytes()
	record.Value = body.bytes()
	for range min(body.varint(), 1<<20) {
		record.Headers = append(record.Headers, Header{Key: string(body.bytes()), Value: body.bytes()})
		if body.err != nil {
			break
		}
	}
	if body.err == nil && len(body.src) > 0 {
		body.err = fmt.Errorf("%d bytes after the headers", len(body.src))
	}
	r.err = body.err
	if b.Attributes&TimestampTypeBit != 0 {
		record.Timestamp = b.MaxTimestamp
	}
	return record
}

// Bits of a batch's attributes.
const (
	TimestampTypeBit int16 = 0x08
	TransactionalBit int16 = 0x10
	ControlBit       int16 = 0x20
)
