package engine

import (
	"fmt"
	"sync"
)

// handleCache bounds the open segment files and mappings. A segment that has bytes to be synced stays open:
// an error of writeback is reported to a descriptor that was open when it happened. The bound may therefore
// be passed until the next checkpoint.
type handleCache struct {
	store       *Store
	max         int // open files
	mappingsMax int64

	mu      sync.Mutex
	open    []*handle
	hand    int
	retired []*handle // to be closed by the janitor
}

// openSegment returns a reference to the segment's open file, opening it where needed. It may block.
func (c *handleCache) openSegment(s *segment) (*handle, error) {
	if h := s.acquire(); h != nil {
		return h, nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if h := s.acquire(); h != nil {
		return h, nil
	}
	if s.removed.Load() {
		return nil, fmt.Errorf("open segment %s: %w", s.path, ErrOffsetOutOfRange)
	}
	file, err := c.store.fs.Open(s.path)
	if err != nil {
		return nil, fmt.Errorf("open segment %s: %w: %w", s.path, ErrStorage, err)
	}
	h := &handle{segment: s, file: file}
	h.refs.Store(1) // the caller's
	c.add(h)
	return h, nil
}

// add takes an open file into the cache, which gets a reference of its own.
func (c *handleCache) add(h *handle) {
	h.refs.Add(1)
	h.used.Store(true)
	c.store.metrics.SegmentsOpen.Add(1)
	h.segment.handle.Store(h)
	c.mu.Lock()
	c.open = append(c.open, h)
	var out []*handle
	for len(c.open) > c.max || c.store.metrics.Mappings.Load() > c.mappingsMax {
		victim := c.victimLocked(h)
		if victim == nil {
			break
		}
		out = append(out, victim)
		if len(out) > 64 {
			break
		}
	}
	c.mu.Unlock()
	for _, victim := range out {
		c.store.metrics.SegmentEvictions.Add(1)
		victim.segment.handle.CompareAndSwap(victim, nil)
		victim.segment.index.unload()
		victim.release()
	}
}

// victimLocked takes the next handle out of the cache that was not used since the last look (clock).
func (c *handleCache) victimLocked(keep *handle) *handle {
	for range 2 * len(c.open) {
		if c.hand >= len(c.open) {
			c.hand = 0
		}
		h := c.open[c.hand]
		if h == keep || h.used.Swap(false) || h.segment.dirty() {
			c.hand++
			continue
		}
		c.removeLocked(c.hand)
		return h
	}
	return nil
}

func (c *handleCache) removeLocked(i int) {
	last := len(c.open) - 1
	c.open[i] = c.open[last]
	c.open[last] = nil
	c.open = c.open[:last]
}

// forget drops the cache's reference to a segment that left the log.
func (c *handleCache) forget(s *segment) {
	h := s.handle.Swap(nil)
	if h == nil {
		return
	}
	c.mu.Lock()
	for i := range c.open {
		if c.open[i] == h {
			c.removeLocked(i)
			c.mu.Unlock()
			h.release()
			return
		}
	}
	c.mu.Unlock()
}

// retire queues a handle that nobody uses for closing.
func (c *handleCache) retire(h *handle) {
	c.mu.Lock()
	c.retired = append(c.retired, h)
	c.mu.Unlock()
	c.store.janitor.kick()
}

// closeRetired closes what nobody uses any more.
func (c *handleCache) closeRetired() {
	c.mu.Lock()
	retired := c.retired
	c.retired = nil
	c.mu.Unlock()
	for _, h := range retired {
		if err := h.close(); err != nil {
			c.store.log.Warn("segment close failed", "segment", h.segment.path, "err", err)
		}
	}
}

// closeAll drops the cache's references at the end.
func (c *handleCache) closeAll() {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for _, h := range open {
		h.segment.handle.CompareAndSwap(h, nil)
		h.release()
	}
	c.closeRetired()
}
