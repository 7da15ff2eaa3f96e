package engine

import (
	"fmt"
	"sync"
	"sync/atomic"

	"millrace/diskio"
)

// handle is an open segment file with its mapping. It is counted: the cache of open segments holds one
// reference, and so does whoever writes, syncs or reads. The last one to let go hands it to the janitor,
// which unmaps and closes, so that no reader ever loses bytes from under it and no event loop unmaps.
type handle struct {
	segment *segment
	file    diskio.File
	refs    atomic.Int64
	used    atomic.Bool // since the cache last looked

	view    atomic.Pointer[view]
	mu      sync.Mutex
	retired []diskio.Mapping // too short mappings that readers may still use
}

// view is a mapping, boxed to be replaced atomically.
type view struct{ mapping diskio.Mapping }

// acquire takes a reference where the file is open.
func (s *segment) acquire() *handle {
	for {
		h := s.handle.Load()
		if h == nil {
			return nil
		}
		if h.tryRef() {
			if !h.used.Load() {
				h.used.Store(true)
			}
			return h
		}
		// Its last reference is gone: it was evicted between the two loads.
		if s.handle.Load() == h {
			return nil
		}
	}
}

func (h *handle) tryRef() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives a reference back.
func (h *handle) release() {
	if h.refs.Add(-1) == 0 {
		h.segment.shard.store.handles.retire(h)
	}
}

// mapped returns a mapping of at least end bytes, nil where there is none yet.
func (h *handle) mapped(end int64) diskio.Mapping {
	if v := h.view.Load(); v != nil && v.mapping.Len() >= end {
		return v.mapping
	}
	return nil
}

// mapTo returns a mapping of at least end bytes. A segment is mapped once at its full size: bytes that are
// appended later show up in it. It may block.
func (h *handle) mapTo(end int64) (diskio.Mapping, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.mapped(end); m != nil {
		return m, nil
	}
	size := end
	if s := h.segment; !s.sealed.Load() {
		size = max(size, s.shard.config.Load().SegmentBytes)
	}
	m, err := h.file.Map(size)
	if err != nil {
		return nil, fmt.Errorf("map segment %s: %w: %w", h.segment.path, ErrStorage, err)
	}
	h.segment.shard.store.metrics.Mappings.Add(1)
	if old := h.view.Load(); old != nil {
		h.retired = append(h.retired, old.mapping)
	}
	h.view.Store(&view{m})
	return m, nil
}

// close unmaps and closes. Nobody holds a reference any more.
func (h *handle) close() error {
	metrics := h.segment.shard.store.metrics
	mappings := h.retired
	if v := h.view.Load(); v != nil {
		mappings = append(mappings, v.mapping)
	}
	var first error
	for _, m := range mappings {
		metrics.Mappings.Add(-1)
		if err := m.Unmap(); err != nil && first == nil {
			first = err
		}
	}
	metrics.SegmentsOpen.Add(-1)
	if err := h.file.Close(); err != nil && first == nil {
		first = err
	}
	return first
}
