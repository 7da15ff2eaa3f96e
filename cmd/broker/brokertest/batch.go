package brokertest

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// Codecs as the low three bits of a batch's attributes name them.
const (
	None int16 = iota
	Gzip
	Snappy // the raw block form; SnappyJava frames it as the Java client does
	LZ4
	Zstd
)

// Header is one record header. A nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a batch. A nil Key or Value is null, an empty one is empty.
type Record struct {
	Key, Value  []byte
	Headers     []Header
	Timestamp   int64 // absolute, milliseconds
	OffsetDelta int32
	Attributes  int8
	Offset      int64 // absolute; set when decoding only
}

// Batch is a v2 record batch in which every field can be set wrong. NewBatch fills what follows from the
// records; a test then spoils what it wants and calls Encode.
type Batch struct {
	BaseOffset      int64
	Length          *int32 // nil: what Encode finds
	LeaderEpoch     int32
	Magic           int8
	CRC             *uint32 // nil: what Encode finds
	Attributes      int16   // without the codec
	Codec           int16
	LastOffsetDelta int32
	FirstTimestamp  int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
	Records         []Record

	// Plain, if not nil, stands for the encoded records before compression, Payload for them after it.
	Plain, Payload []byte
}

// NewBatch makes a valid, uncompressed batch without a producer id. Records without an offset delta are numbered.
func NewBatch(records ...Record) *Batch {
	b := &Batch{
		LeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
		Count: int32(len(records)), LastOffsetDelta: int32(len(records) - 1), Records: slices.Clone(records),
	}
	for i := range b.Records {
		b.Records[i].OffsetDelta = int32(i)
	}
	if len(records) > 0 {
		b.FirstTimestamp, b.MaxTimestamp = records[0].Timestamp, records[0].Timestamp
	}
	for _, r := range records {
		b.MaxTimestamp = max(b.MaxTimestamp, r.Timestamp)
	}
	return b
}

// Values makes records of the given values at one timestamp, without keys.
func Values(timestamp int64, values ...string) []Record {
	records := make([]Record, len(values))
	for i, v := range values {
		records[i] = Record{Value: []byte(v), Timestamp: timestamp}
	}
	return records
}

// Idempotent sets the producer fields and returns b.
func (b *Batch) Idempotent(id int64, epoch int16, sequence int32) *Batch {
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = id, epoch, sequence
	return b
}

// Compressed sets the codec and returns b.
func (b *Batch) Compressed(codec int16) *Batch {
	b.Codec = codec
	return b
}

// AppendRecord encodes r against the batch's first timestamp.
func AppendRecord(dst []byte, firstTimestamp int64, r Record) []byte {
	body := []byte{byte(r.Attributes)}
	body = binary.AppendVarint(body, r.Timestamp-firstTimestamp)
	body = binary.AppendVarint(body, int64(r.OffsetDelta))
	body = appendVarBytes(body, r.Key)
	body = appendVarBytes(body, r.Value)
	body = binary.AppendVarint(body, int64(len(r.Headers)))
	for _, h := range r.Headers {
		body = appendVarBytes(body, []byte(h.Key))
		body = appendVarBytes(body, h.Value)
	}
	dst = binary.AppendVarint(dst, int64(len(body)))
	return append(dst, body...)
}

// appendVarBytes writes a length as a zigzag varint and the bytes; nil is length -1. A header key is never nil:
// []byte("") is empty, not nil.
func appendVarBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

// EncodeRecords returns the records as they stand in the batch before compression.
func (b *Batch) EncodeRecords() []byte {
	var plain []byte
	for _, r := range b.Records {
		plain = AppendRecord(plain, b.FirstTimestamp, r)
	}
	return plain
}

// Encode returns the batch's bytes. It panics when a codec fails, which none does on memory.
func (b *Batch) Encode() []byte {
	payload := b.Payload
	if payload == nil {
		plain := b.Plain
		if plain == nil {
			plain = b.EncodeRecords()
		}
		payload = Compress(b.Codec, plain)
	}
	checked := binary.BigEndian.AppendUint16(nil, uint16(b.Attributes|b.Codec))
	checked = binary.BigEndian.AppendUint32(checked, uint32(b.LastOffsetDelta))
	checked = binary.BigEndian.AppendUint64(checked, uint64(b.FirstTimestamp))
	checked = binary.BigEndian.AppendUint64(checked, uint64(b.MaxTimestamp))
	checked = binary.BigEndian.AppendUint64(checked, uint64(b.ProducerID))
	checked = binary.BigEndian.AppendUint16(checked, uint16(b.ProducerEpoch))
	checked = binary.BigEndian.AppendUint32(checked, uint32(b.BaseSequence))
	checked = binary.BigEndian.AppendUint32(checked, uint32(b.Count))
	checked = append(checked, payload...)

	length := int32(9 + len(checked))
	if b.Length != nil {
		length = *b.Length
	}
	crc := crc32.Checksum(checked, crc32.MakeTable(crc32.Castagnoli))
	if b.CRC != nil {
		crc = *b.CRC
	}
	raw := binary.BigEndian.AppendUint64(nil, uint64(b.BaseOffset))
	raw = binary.BigEndian.AppendUint32(raw, uint32(length))
	raw = binary.BigEndian.AppendUint32(raw, uint32(b.LeaderEpoch))
	raw = append(raw, byte(b.Magic))
	raw = binary.BigEndian.AppendUint32(raw, crc)
	return append(raw, checked...)
}
