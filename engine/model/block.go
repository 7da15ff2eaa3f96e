package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"millrace/perf"
)

const (
	// BlockHeaderSize is the size of a block's header in bytes.
	BlockHeaderSize = 20
	// BlockPayloadTarget is the bytes of records that a block holds at most, unless its only record is
	// larger. It fits the second-level cache twice, so that the checksum is taken while the bytes are hot.
	BlockPayloadTarget = 128 << 10
)

const (
	blockFirst = 1 << 0
	blockLast  = 1 << 1
)

// BlockHeader stands before the records of a block.
type BlockHeader struct {
	// Length is the bytes of records after the header.
	Length uint32
	// Back is the distance from the first byte of the append's header frame to the block's first byte.
	Back uint32
	// Count is the number of records.
	Count       uint32
	First, Last bool // block of its append
}

// Size returns the bytes of the whole block.
func (h *BlockHeader) Size() int { return BlockHeaderSize + int(h.Length) }

// Parse reads the block header at the start of b. It does not verify the checksum and does not need the
// records; VerifyBlock does both. Errors: ErrShort, ErrFlags, ErrMalformed.
func (h *BlockHeader) Parse(b []byte) error {
	be := binary.BigEndian
	if len(b) < BlockHeaderSize {
		return ErrShort
	}
	d := b[:BlockHeaderSize:BlockHeaderSize]
	h.Length, h.Back, h.Count = be.Uint32(d[4:]), be.Uint32(d[8:]), be.Uint32(d[12:])
	flags := be.Uint32(d[16:])
	h.First, h.Last = flags&(blockFirst<<24) != 0, flags&(blockLast<<24) != 0
	if flags&^((blockFirst|blockLast)<<24) != 0 {
		return fmt.Errorf("block header: %w %08x", ErrFlags, flags)
	}
	if h.Length > math.MaxInt32-BlockHeaderSize || h.Count == 0 ||
		uint64(h.Length) < uint64(h.Count)*RecordOverhead ||
		h.Back < HeaderSize || h.First != (h.Back == HeaderSize) {
		return fmt.Errorf("block header: %w: %d records in %d bytes, %d back", ErrMalformed, h.Count, h.Length, h.Back)
	}
	return nil
}

// Verify parses the block at the start of b and checks its checksum, which needs the whole block. Records
// are b[BlockHeaderSize:h.Size()]. Errors: those of Parse, ErrShort, ErrChecksum.
func (h *BlockHeader) Verify(b []byte, identity uint32) error {
	err := h.Parse(b)
	if err != nil && !errors.Is(err, ErrFlags) {
		return err
	}
	if len(b) < h.Size() {
		return ErrShort
	}
	if binary.BigEndian.Uint32(b) != perf.UpdateFarCRC32C(identity, b[4:h.Size()]) {
		return fmt.Errorf("block of %d records: %w", h.Count, ErrChecksum)
	}
	return err // flags of a newer version, where they are not just any bytes
}

// VerifyBlock checks the whole block at the start of b.
func VerifyBlock(b []byte, identity uint32) error {
	var h BlockHeader
	return h.Verify(b, identity)
}

// putBlock completes the header of the block b, whose records are in place, with its checksum.
func putBlock(b []byte, back, count uint32, flags byte, identity uint32) {
	be := binary.BigEndian
	be.PutUint32(b[4:], uint32(len(b)-BlockHeaderSize))
	be.PutUint32(b[8:], back)
	be.PutUint32(b[12:], count)
	be.PutUint32(b[16:], uint32(flags)<<24)
	be.PutUint32(b, perf.UpdateCRC32C(identity, b[4:]))
}
