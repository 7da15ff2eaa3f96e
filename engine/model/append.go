package model

import (
	"encoding/binary"
	"fmt"
	"math"

	"millrace/perf"
)

const (
	// HeaderSize is the size of an append's header frame in bytes.
	HeaderSize = 104
	// Magic stands at byte 4 of every append header.
	Magic = 0x4D52
	// Version is the version that is written.
	Version = 1
)

// AppendHeader is the header frame of an append: everything that is the same for all its records.
type AppendHeader struct {
	Kind  Kind
	Flags Flags
	Codec Codec // of the producer's batch
	// Identity is the shard's; it also seeds every checksum of the append.
	Identity uint32
	// Length is the bytes of the whole append, this header and all blocks included.
	Length      uint32
	RecordCount uint32
	BlockCount  uint32
	LeaderEpoch int32
	// BaseOffset and LastOffset are the range that the append was given, both inclusive. They stay when
	// compaction removes records.
	BaseOffset int64
	LastOffset int64
	// Timestamps are milliseconds since the epoch. A record's is BaseTimestamp plus its delta.
	BaseTimestamp int64
	MaxTimestamp  int64
	ProducerID    int64 // -1: none
	ProducerEpoch int16
	BaseSequence  int32 // -1: none
	LastSequence  int32
	DeleteHorizon int64 // 0 unless FlagDeleteHorizon
}

// Put writes the frame with its checksum into dst[:HeaderSize].
func (h *AppendHeader) Put(dst []byte) {
	be := binary.BigEndian
	d := dst[:HeaderSize:HeaderSize]
	be.PutUint16(d[4:], Magic)
	d[6] = Version
	d[7] = byte(h.Kind)
	be.PutUint16(d[8:], uint16(h.Flags))
	d[10] = byte(h.Codec)
	d[11] = 0 // body codec: none
	be.PutUint32(d[12:], h.Identity)
	be.PutUint32(d[16:], h.Length)
	be.PutUint32(d[20:], h.RecordCount)
	be.PutUint32(d[24:], h.BlockCount)
	be.PutUint32(d[28:], uint32(h.LeaderEpoch))
	be.PutUint64(d[32:], uint64(h.BaseOffset))
	be.PutUint64(d[40:], uint64(h.LastOffset))
	be.PutUint64(d[48:], uint64(h.BaseTimestamp))
	be.PutUint64(d[56:], uint64(h.MaxTimestamp))
	be.PutUint64(d[64:], uint64(h.ProducerID))
	be.PutUint16(d[72:], uint16(h.ProducerEpoch))
	be.PutUint16(d[74:], 0)
	be.PutUint32(d[76:], uint32(h.BaseSequence))
	be.PutUint32(d[80:], uint32(h.LastSequence))
	be.PutUint64(d[84:], uint64(h.DeleteHorizon))
	clear(d[92:])
	be.PutUint32(d, perf.UpdateCRC32C(h.Identity, d[4:]))
}

// Parse reads the header frame at the start of b and verifies it for the shard with that identity. Of the
// append's blocks nothing need be in b. Errors: ErrShort, ErrNotAppend, ErrForeign, ErrChecksum,
// ErrVersion, ErrKind, ErrFlags, ErrBodyCodec, ErrMalformed; h is then undefined.
func (h *AppendHeader) Parse(b []byte, identity uint32) error {
	be := binary.BigEndian
	if len(b) < HeaderSize {
		return ErrShort
	}
	d := b[:HeaderSize:HeaderSize]
	if be.Uint16(d[4:]) != Magic {
		return ErrNotAppend
	}
	h.Identity = be.Uint32(d[12:])
	if be.Uint32(d) != perf.UpdateCRC32C(h.Identity, d[4:]) {
		return fmt.Errorf("append header: %w", ErrChecksum)
	}
	if h.Identity != identity {
		return fmt.Errorf("append header: %w", ErrForeign)
	}
	if d[6] != Version {
		return fmt.Errorf("append header: %w %d, this program knows %d", ErrVersion, d[6], Version)
	}
	h.Kind, h.Flags, h.Codec = Kind(d[7]), Flags(be.Uint16(d[8:])), Codec(d[10])
	h.Length = be.Uint32(d[16:])
	h.RecordCount = be.Uint32(d[20:])
	h.BlockCount = be.Uint32(d[24:])
	h.LeaderEpoch = int32(be.Uint32(d[28:]))
	h.BaseOffset = int64(be.Uint64(d[32:]))
	h.LastOffset = int64(be.Uint64(d[40:]))
	h.BaseTimestamp = int64(be.Uint64(d[48:]))
	h.MaxTimestamp = int64(be.Uint64(d[56:]))
	h.ProducerID = int64(be.Uint64(d[64:]))
	h.ProducerEpoch = int16(be.Uint16(d[72:]))
	h.BaseSequence = int32(be.Uint32(d[76:]))
	h.LastSequence = int32(be.Uint32(d[80:]))
	h.DeleteHorizon = int64(be.Uint64(d[84:]))
	if d[11] != 0 {
		return fmt.Errorf("append header: %w %d", ErrBodyCodec, d[11])
	}
	reserved := uint64(be.Uint16(d[74:])) | be.Uint64(d[92:]) | uint64(be.Uint32(d[100:]))
	if h.Flags&^flagsKnown != 0 || reserved != 0 {
		return fmt.Errorf("append header: %w %s, reserved bytes %x", ErrFlags, h.Flags, reserved)
	}
	return h.check()
}

// check refuses what a right checksum cannot excuse.
func (h *AppendHeader) check() error {
	switch h.Kind {
	case KindData, KindControl:
		if h.RecordCount == 0 || h.BlockCount == 0 || h.BlockCount > h.RecordCount {
			return fmt.Errorf("append header: %w: %d records in %d blocks", ErrMalformed, h.RecordCount, h.BlockCount)
		}
	case KindEmpty:
		if h.RecordCount != 0 || h.BlockCount != 0 {
			return fmt.Errorf("append header: %w: empty append with %d records in %d blocks", ErrMalformed,
				h.RecordCount, h.BlockCount)
		}
	default:
		return fmt.Errorf("append header: %w %d", ErrKind, uint8(h.Kind))
	}
	if (h.Kind == KindControl) != (h.Flags&FlagControl != 0) {
		return fmt.Errorf("append header: %w: kind %s with flags %s", ErrMalformed, h.Kind, h.Flags)
	}
	span := h.LastOffset - h.BaseOffset
	if h.BaseOffset < 0 || h.LastOffset < h.BaseOffset || h.LastOffset == math.MaxInt64 ||
		span > math.MaxInt32 || int64(h.RecordCount) > span+1 {
		return fmt.Errorf("append header: %w: %d records in offsets %d to %d", ErrMalformed,
			h.RecordCount, h.BaseOffset, h.LastOffset)
	}
	least := HeaderSize + int64(h.BlockCount)*BlockHeaderSize + int64(h.RecordCount)*RecordOverhead
	if int64(h.Length) < least || h.Length > math.MaxInt32 {
		return fmt.Errorf("append header: %w: length %d for %d records in %d blocks", ErrMalformed,
			h.Length, h.RecordCount, h.BlockCount)
	}
	if h.Kind == KindEmpty && h.Length != HeaderSize {
		return fmt.Errorf("append header: %w: length %d of an empty append", ErrMalformed, h.Length)
	}
	return nil
}

// IsHeader tells whether b may begin with an append header. It looks at the magic only: Parse verifies.
func IsHeader(b []byte) bool { return len(b) >= HeaderSize && binary.BigEndian.Uint16(b[4:]) == Magic }
