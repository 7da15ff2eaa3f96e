package model

import "encoding/binary"

// Builder writes one append. It is reused: Begin, Add for each record in order of offsets, Finish. An
// append that is given up halfway costs nothing: forget it and Begin again.
type Builder struct {
	// Header is the append's header. Between Begin and Finish what fills the records may set kind, flags,
	// codec, timestamps, producer and sequences; Finish sets counts, length and identity.
	Header AppendHeader

	buf   []byte // at its full capacity
	start int    // of the append
	pos   int    // next free byte
	block int    // position of the open block's header, 0 when none is open
	room  int    // bytes that the open block and the buffer can still take
	count uint32 // records in the open block
	last  int64  // offset of the last record
}

// SizeBound returns the bytes that an append takes at most that holds so many records, whose values, keys
// with their lengths, timestamps, headers and other fields of the metadata take payloadBytes together. The
// fixed bytes of records, their metadata's first byte, blocks and header are added.
func SizeBound(records, payloadBytes int) int {
	stored := payloadBytes + records*(RecordOverhead+1)
	// Two neighbouring blocks hold more than the target together.
	blocks := min(records, 2*(stored/BlockPayloadTarget)+2)
	return HeaderSize + blocks*BlockHeaderSize + stored
}

// Begin starts an append after dst, whose capacity should have SizeBound bytes to spare: where it has not,
// the bytes move to a larger buffer. The header's range of offsets is moved so that it begins at
// baseOffset: set LastOffset-BaseOffset before. The header's leader epoch is taken as it is.
func (b *Builder) Begin(dst []byte, identity uint32, h *AppendHeader, baseOffset int64) {
	b.Header = *h
	b.Header.Identity = identity
	b.Header.LastOffset = baseOffset + (h.LastOffset - h.BaseOffset)
	b.Header.BaseOffset = baseOffset
	b.Header.RecordCount, b.Header.BlockCount = 0, 0
	b.buf = dst[:cap(dst)]
	b.start = len(dst)
	b.pos = b.start
	b.block, b.room, b.count, b.last = 0, 0, 0, -1
	b.reserve(HeaderSize)
	b.pos += HeaderSize
}

// Add writes a record; its bytes are copied.
func (b *Builder) Add(r *Record) {
	flags, metadata := r.layout()
	size := RecordOverhead + metadata + len(r.ProtocolData) + len(r.Value)
	if size > b.room {
		b.turn(size)
	}
	end := b.pos + size
	r.put(b.buf[b.pos:end:end], flags, metadata)
	b.pos = end
	b.room -= size
	b.count++
	b.last = r.Offset
}

// AddValue writes a record that has nothing but an offset, a time and a value that is not null. It is Add
// for the most frequent kind of record, with everything in registers.
func (b *Builder) AddValue(offset, timestampDelta int64, value []byte) {
	be := binary.BigEndian
	u, metadata := zigzag(timestampDelta), 0
	switch {
	case u == 0:
	case u < 0x80:
		metadata = 2
	default:
		metadata = 1 + uvarintLen(u)
	}
	size := RecordOverhead + metadata + len(value)
	if size > b.room {
		b.turn(size)
	}
	pos := b.pos
	d := b.buf[pos : pos+size : pos+size]
	be.PutUint64(d, uint64(offset))
	be.PutUint64(d[8:], uint64(size-12)<<32|uint64(metadata))
	if metadata != 0 {
		d[16] = metaTimestamp
		d[17] = byte(u)
		if metadata > 2 {
			putUvarint(d[17:], u)
		}
	}
	be.PutUint64(d[16+metadata:], uint64(len(value))) // no protocol data
	copy(d[RecordOverhead+metadata:], value)
	b.pos = pos + size
	b.room -= size
	b.count++
	b.last = offset
}

// AddStored writes a record as it is stored in another append with the same base timestamp: raw are all its
// bytes and offset is its offset. The bytes are copied.
func (b *Builder) AddStored(offset int64, raw []byte) {
	if len(raw) > b.room {
		b.turn(len(raw))
	}
	copy(b.buf[b.pos:], raw)
	b.pos += len(raw)
	b.room -= len(raw)
	b.count++
	b.last = offset
}

// Finish closes the last block, completes the header, copies it to h where that is not nil, and returns dst
// of Begin with the append behind it. The buffer is the caller's again.
func (b *Builder) Finish(h *AppendHeader) []byte {
	if b.block != 0 {
		b.closeBlock(blockLast)
	}
	b.Header.LastOffset = max(b.Header.LastOffset, b.last)
	b.Header.Length = uint32(b.pos - b.start)
	b.Header.Put(b.buf[b.start:])
	if h != nil {
		*h = b.Header
	}
	out := b.buf[:b.pos]
	b.buf = nil
	return out
}

// turn makes room for a record of size bytes: in the open block, or in a new one.
func (b *Builder) turn(size int) {
	if b.block != 0 && b.pos-b.block-BlockHeaderSize+size > BlockPayloadTarget {
		b.closeBlock(0)
	}
	if b.block == 0 {
		b.reserve(BlockHeaderSize + size)
		b.block = b.pos
		b.pos += BlockHeaderSize
	} else {
		b.reserve(size)
	}
	used := b.pos - b.block - BlockHeaderSize
	b.room = min(max(size, BlockPayloadTarget-used), len(b.buf)-b.pos)
}

func (b *Builder) closeBlock(flags byte) {
	if b.Header.BlockCount == 0 {
		flags |= blockFirst
	}
	putBlock(b.buf[b.block:b.pos], uint32(b.block-b.start), b.count, flags, b.Header.Identity)
	b.Header.BlockCount++
	b.Header.RecordCount += b.count
	b.block, b.count, b.room = 0, 0, 0
}

// reserve makes sure that n bytes fit behind pos.
func (b *Builder) reserve(n int) {
	if len(b.buf)-b.pos >= n {
		return
	}
	grown := make([]byte, max(2*len(b.buf), b.pos+n))
	copy(grown, b.buf[:b.pos])
	b.buf = grown
}
