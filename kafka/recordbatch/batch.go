package recordbatch

import (
	"encoding/binary"
	"math"

	"millrace/engine/model"
	"millrace/perf"
)

// Sizes and positions of the v2 batch header.
const (
	// HeaderSize is the bytes before the records.
	HeaderSize = 61
	// logOverhead is base offset and batch length, which the length does not count.
	logOverhead = 12
	// legacyOverhead is the least batch length of any magic.
	legacyOverhead = 14
	magicEnd       = 17 // bytes needed to see the magic
	crcStart       = 21 // the checksum covers from the attributes to the end

	// recordSizeMin is the bytes of the smallest record, with its length.
	recordSizeMin = 7
)

// Attribute bits. Others are ignored, as Apache Kafka does.
const (
	attributeCodec         = 0x07
	attributeLogAppendTime = 0x08
	attributeTransactional = 0x10
	attributeControl       = 0x20
)

// Batch is one v2 batch, parsed in place.
type Batch struct {
	BaseOffset      int64
	LeaderEpoch     int32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64 // as the client says; the decoder computes its own
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
	// Records are the bytes behind the header, compressed by Codec. They share the parsed bytes.
	Records []byte
}

// Codec returns how the records are compressed; it may be one that does not exist.
func (b *Batch) Codec() model.Codec { return model.Codec(b.Attributes & attributeCodec) }

// LogAppendTime tells whether the batch claims that a broker set its timestamps.
func (b *Batch) LogAppendTime() bool { return b.Attributes&attributeLogAppendTime != 0 }

// Transactional tells whether the batch belongs to a transaction.
func (b *Batch) Transactional() bool { return b.Attributes&attributeTransactional != 0 }

// Control tells whether the batch holds markers.
func (b *Batch) Control() bool { return b.Attributes&attributeControl != 0 }

// Size returns the wire size of the batch, header included.
func (b *Batch) Size() int { return HeaderSize + len(b.Records) }

// Parse reads the batch at the start of src, checks its frame and checksum and returns its size. Counts and
// records are not checked. b shares src. Errors wrap ErrCorrupt or, as Apache Kafka has it for bytes that
// are no whole batch and for magic 0 and 1, ErrInvalidRecord.
func (b *Batch) Parse(src []byte) (n int, err error) {
	n, err = frame(src)
	if err != nil {
		return 0, err
	}
	return n, b.parse(src[:n])
}

// ParseProduced reads the records field of a produce request: exactly one batch, of at most bytesMax bytes
// on the wire, with right frame, checksum and counts. A tail that is no batch is dropped as Apache Kafka
// does. b shares src. Errors are those of Parse and ErrTooLarge; codec and transactional bit are
// Decoder.Open's to judge.
func (b *Batch) ParseProduced(src []byte, bytesMax int) error {
	n, err := frame(src)
	if err != nil {
		return err
	}
	if err := checkTail(src[n:]); err != nil {
		return err
	}
	if base := binary.BigEndian.Uint64(src); base != 0 {
		return refuse(ErrInvalidRecord, "the base offset is %d instead of 0", int64(base))
	}
	if n > bytesMax {
		return refuse(ErrTooLarge, "the batch has %d bytes, %d are allowed", n, bytesMax)
	}
	if err := b.parse(src[:n]); err != nil {
		return err
	}
	return b.checkCounts()
}

// frame returns the size of the v2 batch at the start of src.
func frame(src []byte) (int, error) {
	if len(src) < logOverhead {
		return 0, refuse(ErrInvalidRecord, "%d bytes hold no batch", len(src))
	}
	length := int64(int32(binary.BigEndian.Uint32(src[8:])))
	if length < legacyOverhead {
		return 0, refuse(ErrCorrupt, "batch length %d is too small", length)
	}
	if len(src) < magicEnd {
		return 0, refuse(ErrInvalidRecord, "%d bytes hold no batch", len(src))
	}
	switch magic := int8(src[16]); {
	case magic < 0 || magic > 2:
		return 0, refuse(ErrCorrupt, "unknown magic %d", magic)
	case magic < 2:
		return 0, refuse(ErrInvalidRecord, "magic %d is no longer taken", magic)
	}
	if length+logOverhead > int64(len(src)) {
		return 0, refuse(ErrInvalidRecord, "batch length %d, but only %d bytes are there", length, len(src)-logOverhead)
	}
	if length+logOverhead < HeaderSize {
		return 0, refuse(ErrCorrupt, "batch length %d is too small", length)
	}
	return int(length) + logOverhead, nil
}

// checkTail judges what stands behind the one batch: bytes that cannot be a whole batch are ignored.
func checkTail(tail []byte) error {
	if len(tail) < logOverhead {
		return nil
	}
	length := int64(int32(binary.BigEndian.Uint32(tail[8:])))
	if length < legacyOverhead {
		return refuse(ErrCorrupt, "batch length %d behind the batch is too small", length)
	}
	if len(tail) < magicEnd {
		return nil
	}
	if magic := int8(tail[16]); magic < 0 || magic > 2 {
		return refuse(ErrCorrupt, "unknown magic %d behind the batch", magic)
	}
	if length+logOverhead > int64(len(tail)) {
		return nil
	}
	return refuse(ErrInvalidRecord, "more than one batch")
}

// parse reads a batch whose frame is right.
func (b *Batch) parse(src []byte) error {
	be := binary.BigEndian
	d := src[:HeaderSize:HeaderSize]
	if be.Uint32(d[17:]) != perf.CRC32C(src[crcStart:]) {
		return refuse(ErrCorrupt, "the checksum does not match")
	}
	b.BaseOffset = int64(be.Uint64(d))
	b.LeaderEpoch = int32(be.Uint32(d[12:]))
	b.Attributes = int16(be.Uint16(d[21:]))
	b.LastOffsetDelta = int32(be.Uint32(d[23:]))
	b.BaseTimestamp = int64(be.Uint64(d[27:]))
	b.MaxTimestamp = int64(be.Uint64(d[35:]))
	b.ProducerID = int64(be.Uint64(d[43:]))
	b.ProducerEpoch = int16(be.Uint16(d[51:]))
	b.BaseSequence = int32(be.Uint32(d[53:]))
	b.Count = int32(be.Uint32(d[57:]))
	b.Records = src[HeaderSize:len(src):len(src)]
	return nil
}

// checkCounts checks what a client may say of its batch as a whole.
func (b *Batch) checkCounts() error {
	if b.Count <= 0 {
		return refuse(ErrInvalidRecord, "the batch says it has %d records", b.Count)
	}
	if b.LastOffsetDelta != b.Count-1 {
		return refuse(ErrInvalidRecord, "%d records with a last offset delta of %d", b.Count, b.LastOffsetDelta)
	}
	if b.Control() {
		return refuse(ErrInvalidRecord, "clients may not write control batches")
	}
	if b.ProducerID >= 0 && b.BaseSequence < 0 {
		return refuse(ErrInvalidRecord, "producer %d with base sequence %d", b.ProducerID, b.BaseSequence)
	}
	if b.Codec() == model.CodecNone && int64(b.Count)*recordSizeMin > int64(len(b.Records)) {
		return refuse(ErrInvalidRecord, "%d records in %d bytes", b.Count, len(b.Records))
	}
	return nil
}

// addSequence moves a sequence by n records; sequences wrap from 2^31-1 to 0.
func addSequence(base int32, n int64) int32 {
	if base < 0 {
		return base
	}
	return int32((int64(base) + n) & math.MaxInt32)
}
