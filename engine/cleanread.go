package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"millrace/engine/model"
)

// cleanReadBytes is how much compaction reads at once.
const cleanReadBytes = 128 << 10

// appendReader reads a segment's appends one after the other and verifies them. It reads into a buffer of its
// own: a mapping would stall on cold pages, which stops more than the goroutine.
type appendReader struct {
	cleaner  *cleaner
	segment  *segment
	handle   *handle
	buffer   []byte
	window   []byte // of buffer, begins at position
	position int64  // of the next append
	limit    int64
	next     int64 // offset that it has at least
}

// open begins with a segment. It is closed by the next open and by close.
func (r *appendReader) open(s *segment) error {
	r.close()
	h, err := r.cleaner.store.handles.openSegment(s)
	if errors.Is(err, ErrOffsetOutOfRange) {
		return errCleanStopped // it left the log
	}
	if err != nil {
		return err
	}
	if r.buffer == nil {
		r.buffer = make([]byte, cleanReadBytes)
	}
	r.segment, r.handle = s, h
	r.window, r.position, r.limit, r.next = r.buffer[:0], segmentHeaderSize, s.published.Load(), s.base
	return nil
}

func (r *appendReader) close() {
	if r.handle != nil {
		r.handle.release()
	}
	r.segment, r.handle, r.window = nil, nil, nil
}

// more tells whether another append follows.
func (r *appendReader) more() bool { return r.position < r.limit }

// read returns the next append with its checksums verified; its bytes are valid until the next call.
func (r *appendReader) read(h *model.AppendHeader) ([]byte, error) {
	if err := r.fill(model.HeaderSize); err != nil {
		return nil, err
	}
	identity := r.segment.shard.identity
	if err := h.Parse(r.window, identity); err != nil {
		return nil, r.damage(err)
	}
	if h.BaseOffset < r.next {
		return nil, r.damage(fmt.Errorf("%w: base offset %d after %d", model.ErrOrder, h.BaseOffset, r.next-1))
	}
	if err := r.fill(int(h.Length)); err != nil {
		return nil, err
	}
	b := r.window[:h.Length]
	rest := b[model.HeaderSize:]
	for range h.BlockCount {
		var block model.BlockHeader
		if err := block.Verify(rest, identity); err != nil {
			return nil, r.damage(err)
		}
		rest = rest[block.Size():]
	}
	if len(rest) != 0 {
		return nil, r.damage(model.ErrMalformed)
	}
	r.window = r.window[h.Length:]
	r.position += int64(h.Length)
	r.next = h.LastOffset + 1
	return b, nil
}

// fill makes the window n bytes long at least.
func (r *appendReader) fill(n int) error {
	have := len(r.window)
	if have >= n {
		return nil
	}
	if r.position+int64(n) > r.limit {
		return r.damage(model.ErrShort)
	}
	if n > len(r.buffer) {
		grown := make([]byte, n)
		copy(grown, r.window)
		r.buffer = grown
	} else {
		copy(r.buffer, r.window)
	}
	end := int(min(int64(len(r.buffer)), r.limit-r.position))
	if err := r.cleaner.pause(r.segment.shard, end-have); err != nil {
		return err
	}
	got, err := r.handle.file.ReadAt(r.buffer[have:end], r.position+int64(have))
	if err != nil && !(errors.Is(err, io.EOF) && got == end-have) {
		return fmt.Errorf("read segment %s at %d: %w: %w", r.segment.path, r.position, ErrStorage, err)
	}
	r.cleaner.store.metrics.CleanReadBytes.Add(int64(end - have))
	r.window = r.buffer[:end]
	return nil
}

func (r *appendReader) damage(err error) error {
	return fmt.Errorf("%w: segment %s at %d: %w", ErrCorrupt, r.segment.path, r.position, err)
}

// recordSize returns the bytes of the record at the start of b, which was parsed before.
func recordSize(b []byte) int { return 12 + int(binary.BigEndian.Uint32(b[8:])) }

// fill looks at what is new in a plan and notes the last offset of each key. It returns where it stopped: at the
// end of the plan's segments, or at the first record whose key finds no room.
func (c *cleaner) fill(keys *keyMap, p *cleanPlan) (end int64, err error) {
	end = p.from
	for _, s := range p.segments {
		if s.next.Load() <= p.from {
			continue
		}
		if err := c.reader.open(s); err != nil {
			return 0, err
		}
		for c.reader.more() {
			var h model.AppendHeader
			b, err := c.reader.read(&h)
			if err != nil {
				return 0, err
			}
			if h.Kind != model.KindData || h.LastOffset < p.from {
				continue
			}
			full, err := c.noteKeys(keys, &h, b, p.from)
			if err != nil {
				return 0, err
			}
			if full >= 0 {
				c.store.metrics.CleanMapFull.Add(1)
				return full, nil
			}
		}
		end = max(end, c.reader.next)
	}
	return end, nil
}

// judgedRecord is what compaction looks at of a record.
type judgedRecord struct {
	hash           keyHash
	offset         int64
	timestampDelta int64
	keyed          bool
	tombstone      bool
	replaced       bool // by a later record of its key; nothing else is known then
}

// judgeBatch is how many records are looked up in the map of keys at once: their slots are brought into the cache
// together before. One after the other each of a million keys is a miss of 300 ns.
const judgeBatch = 128

// parse reads an append's records into c.records, with the hashes of the keys of those from from to to. Of a record
// that is known to be replaced it reads nothing.
func (c *cleaner) parse(keys *keyMap, h *model.AppendHeader, b []byte, from, to int64) error {
	c.records = c.records[:0]
	rest := b[model.HeaderSize:]
	for range h.BlockCount {
		var block model.BlockHeader
		if err := block.Parse(rest); err != nil {
			return c.reader.damage(err)
		}
		records := rest[model.BlockHeaderSize:block.Size()]
		for len(records) > 0 {
			if len(records) >= model.RecordOverhead {
				offset, n := recordOffset(records), recordSize(records)
				if n <= len(records) && keys.replaced(offset) {
					c.records = append(c.records, judgedRecord{offset: offset, replaced: true})
					records = records[n:]
					continue
				}
			}
			var r model.Record
			n, err := model.ParseRecord(records, &r)
			if err != nil {
				return c.reader.damage(err)
			}
			j := judgedRecord{offset: r.Offset, timestampDelta: r.TimestampDelta, keyed: r.Key != nil, tombstone: r.Value == nil}
			if j.keyed && r.Offset >= from && r.Offset < to {
				j.hash = keys.hash(r.Key)
			}
			c.records = append(c.records, j)
			records = records[n:]
		}
		rest = rest[block.Size():]
	}
	if len(c.records) != int(h.RecordCount) {
		return c.reader.damage(model.ErrMalformed)
	}
	return nil
}

// noteKeys notes the keys of an append's records from an offset on. It returns the offset of the record whose
// key has no room, or -1.
func (c *cleaner) noteKeys(keys *keyMap, h *model.AppendHeader, b []byte, from int64) (full int64, err error) {
	if err := c.parse(keys, h, b, from, math.MaxInt64); err != nil {
		return -1, err
	}
	for left := c.records; len(left) > 0; {
		batch := left[:min(judgeBatch, len(left))]
		left = left[len(batch):]
		c.touched += keys.touch(batch)
		for i := range batch {
			if r := &batch[i]; r.keyed && r.offset >= from && !keys.put(r.hash, r.offset) {
				return r.offset, nil
			}
		}
	}
	return -1, nil
}

// recordOffset returns the offset of the record at the start of b.
func recordOffset(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
