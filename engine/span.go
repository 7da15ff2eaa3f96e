package engine

import (
	"fmt"

	"millrace/diskio"
	"millrace/engine/model"
)

// Span is a lease on stored bytes of one segment, given by Shard.Read: whole appends and blocks, of which
// the first may stand inside its append. Its owner uses it again and again; Release ends the lease. A Span
// belongs to one goroutine at a time.
type Span struct {
	// Header is the header of the append that the first byte belongs to.
	Header model.AppendHeader
	// AtBlock: the bytes begin with a block header (a continuation), not with an append header.
	AtBlock bool
	// Offset is the offset that was asked for, or, where that was removed, the next one there is. Records
	// below it at the beginning of the bytes are not wanted.
	Offset int64
	// LogEnd is the shard's log end when the bytes were chosen.
	LogEnd int64

	handle     *handle
	mapping    diskio.Mapping
	start, end int64 // positions
	resident   bool  // known to be
	walk       walk  // of the read
}

// Bytes returns the leased bytes, none where the log ends at the offset. They may be touched only while
// Resident, or after Load, and under diskio.Guard; they are not verified.
func (sp *Span) Bytes() []byte {
	if sp.handle == nil {
		return nil
	}
	return sp.mapping.Slice(sp.start, sp.end)
}

// Len returns the number of leased bytes.
func (sp *Span) Len() int { return int(sp.end - sp.start) }

// Resident tells whether all bytes are in memory. It does not block.
func (sp *Span) Resident() bool {
	if sp.handle != nil && !sp.resident {
		sp.resident = sp.mapping.Resident(sp.start, sp.end)
	}
	return sp.handle == nil || sp.resident
}

// Load brings the bytes into memory and blocks until they are there.
func (sp *Span) Load() error {
	if sp.handle == nil {
		return nil
	}
	if err := sp.mapping.Load(sp.start, sp.end); err != nil {
		return fmt.Errorf("load segment %s at %d: %w: %w", sp.handle.segment.path, sp.start, ErrStorage, err)
	}
	return nil
}

// Place names segment and position of the first byte, for errors and logs.
func (sp *Span) Place() string {
	segment, position := sp.PlaceOf(0)
	if segment == "" {
		return "no bytes"
	}
	return fmt.Sprintf("%s at %d", segment, position)
}

// PlaceOf returns the segment's file and the position in it of the i-th of the bytes; "" and -1 of a span
// without bytes.
func (sp *Span) PlaceOf(i int) (segment string, position int64) {
	if sp.handle == nil {
		return "", -1
	}
	return sp.handle.segment.path, sp.start + int64(i)
}

// Release ends the lease. A Span without one may be released.
func (sp *Span) Release() {
	if h := sp.handle; h != nil {
		sp.handle, sp.mapping, sp.start, sp.end, sp.resident = nil, nil, 0, 0, false
		h.release()
	}
}
