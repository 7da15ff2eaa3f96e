package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// makeRoomSyncs is how many files a writer syncs at most while its appends wait for room.
const makeRoomSyncs = 64

// handleCache bounds the open segment files and mappings. A segment that is written or has bytes to be synced
// stays open: an error of writeback is reported for certain only to a descriptor that was open when it
// happened. Where such segments fill the cache, those that have waited longest are synced early, by the keeper
// once they are most of it and by the writer once they are all. The bound is passed by what one round of a
// writer pins, and by files that are synced or read at the moment.
type handleCache struct {
	store       *Store
	max         int // open files
	mappingsMax int64

	mu      sync.Mutex
	open    []*handle
	hand    int
	retired []*handle // to be closed by the janitor

	order   atomic.Int64 // counts segments that came to have unsynced bytes
	crowded atomic.Bool  // most files wait for a sync: the keeper should not wait for the checkpoints
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
	if err != nil && s.removed.Load() { // between the look before and the call
		return nil, fmt.Errorf("open segment %s: %w", s.path, ErrOffsetOutOfRange)
	}
	if err != nil {
		return nil, fmt.Errorf("open segment %s: %w: %w", s.path, ErrStorage, err)
	}
	h := &handle{segment: s, file: file}
	h.refs.Store(1) // the caller's
	c.add(h)
	return h, nil
}

// openToWrite is openSegment for a writer, which makes room first. Until unpin the file stays open, so that it
// is not closed between the write and the note that there is something to sync.
func (c *handleCache) openToWrite(s *segment) (*handle, error) {
	c.mu.Lock()
	s.pins++
	c.mu.Unlock()
	if h := s.acquire(); h != nil {
		return h, nil
	}
	err := c.makeRoom()
	if err == nil {
		var h *handle
		if h, err = c.openSegment(s); err == nil {
			return h, nil
		}
	}
	c.mu.Lock()
	s.pins--
	c.mu.Unlock()
	return nil, err
}

// unpin takes openToWrite back for the parts whose files it opened.
func (c *handleCache) unpin(parts []part) {
	c.mu.Lock()
	for i := range parts {
		if parts[i].handle != nil {
			parts[i].segment.pins--
		}
	}
	c.mu.Unlock()
}

// roundMax is how many files one round of a writer may pin before it is carried out.
func (c *handleCache) roundMax() int { return max(1, c.max/(2*len(c.store.writers))) }

// syncMax is how many files are open for one batch of syncs: after a crash those with something to sync are
// not open yet.
func (c *handleCache) syncMax() int { return max(1, c.max/4) }

// makeRoom closes files until one more may be opened, and syncs those that have waited longest where nothing
// else can be closed. Files in use may leave no room all the same. It blocks; an error is a failed sync.
func (c *handleCache) makeRoom() error {
	if c.trim() {
		return nil
	}
	if err := c.syncOldest(min(c.syncMax(), makeRoomSyncs)); err != nil {
		return err
	}
	c.trim()
	c.closeRetired()
	return nil
}

// trim closes files to leave room for one more and tells whether there is.
func (c *handleCache) trim() bool {
	c.mu.Lock()
	out := c.evictLocked(c.max-1, nil)
	room := len(c.open) < c.max
	c.mu.Unlock()
	c.letGo(out)
	return room
}

// syncOldest syncs the n open files whose bytes have waited longest.
func (c *handleCache) syncOldest(n int) error {
	type waiting struct {
		shard *Shard
		order int64
	}
	var all []waiting
	c.mu.Lock()
	for _, h := range c.open {
		if s := h.segment; s.pins == 0 && s.held() {
			all = append(all, waiting{s.shard, s.unsyncedOrder.Load()})
		}
	}
	c.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b waiting) int { return cmp.Compare(a.order, b.order) })
	var group syncGroup
	for _, w := range all[:min(n, len(all))] {
		group.add(w.shard)
	}
	c.store.metrics.EarlySyncs.Add(1)
	return group.sync(c.store)
}

// add takes an open file into the cache, which gets a reference of its own.
func (c *handleCache) add(h *handle) {
	h.refs.Add(1)
	h.used.Store(true)
	c.store.metrics.SegmentsOpen.Add(1)
	h.segment.handle.Store(h)
	c.mu.Lock()
	c.open = append(c.open, h)
	out := c.evictLocked(c.max, h)
	c.mu.Unlock()
	c.letGo(out)
}

// evictLocked takes handles out of the cache until at most so many are left, or no more can be.
func (c *handleCache) evictLocked(most int, keep *handle) (out []*handle) {
	for len(c.open) > most || c.store.metrics.Mappings.Load() > c.mappingsMax {
		victim := c.victimLocked(keep)
		if victim == nil {
			break
		}
		// A writer that pins the segment from here on opens the file anew.
		victim.segment.handle.CompareAndSwap(victim, nil)
		out = append(out, victim)
		if len(out) > 64 {
			break
		}
	}
	return out
}

// letGo drops the cache's reference to what was taken out of it. Where the janitor falls behind, or does not
// run yet as in recovery, it does its work.
func (c *handleCache) letGo(out []*handle) {
	for _, victim := range out {
		c.store.metrics.SegmentEvictions.Add(1)
		victim.segment.index.unload()
		victim.release()
	}
	if len(out) == 0 {
		return
	}
	c.mu.Lock()
	behind := len(c.retired) > c.max/8
	c.mu.Unlock()
	if behind {
		c.closeRetired()
	}
}

// victimLocked takes the next handle out of the cache that was not used since the last look (clock). It calls
// the keeper where most of what it met waits for a sync.
func (c *handleCache) victimLocked(keep *handle) *handle {
	held := 0
	defer func() {
		if held > len(c.open)/2 && !c.crowded.Swap(true) {
			c.store.keeper.kick()
		}
	}()
	for range 2 * len(c.open) {
		if c.hand >= len(c.open) {
			c.hand = 0
		}
		h := c.open[c.hand]
		switch {
		case h.segment.pins > 0 || h.segment.held():
			held++
		case h == keep || h.used.Swap(false):
		default:
			c.removeLocked(c.hand)
			return h
		}
		c.hand++
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
