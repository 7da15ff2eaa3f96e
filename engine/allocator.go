package engine

import "sync"

// Preallocation grows with what a segment got: nothing for a small one, then as much again as it holds, in
// steps of at most allocateMax.
const (
	allocateMin = 256 << 10
	allocateMax = 32 << 20
)

// allocator is the goroutine that reserves blocks ahead of busy segments, off the way of appends. Its
// failure is never an append's failure.
type allocator struct {
	store *Store
	wake  chan struct{}
	stop  chan struct{}

	mu    sync.Mutex
	queue []*segment
}

func newAllocator(s *Store) *allocator {
	return &allocator{store: s, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// grown is told by the writer how far a segment is written.
func (a *allocator) grown(s *segment, end int64) {
	if end < allocateMin {
		return
	}
	allocated := s.allocated.Load()
	step := min(end, allocateMax)
	if allocated-end > step/2 || s.allocating.Swap(true) {
		return
	}
	a.mu.Lock()
	a.queue = append(a.queue, s)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *allocator) run() {
	for {
		select {
		case <-a.stop:
			return
		case <-a.wake:
		}
		a.mu.Lock()
		queue := a.queue
		a.queue = nil
		a.mu.Unlock()
		for _, s := range queue {
			a.allocate(s)
			s.allocating.Store(false)
		}
	}
}

// allocate reserves the next step, not beyond the size at which the segment is sealed.
func (a *allocator) allocate(s *segment) {
	end := s.written.Load()
	from := max(s.allocated.Load(), end)
	to := min(end+min(end, allocateMax), s.shard.config.Load().SegmentBytes)
	if s.sealed.Load() || to-from < allocateMin/4 {
		return
	}
	h := s.acquire()
	if h == nil {
		return
	}
	defer h.release()
	if h.file.Preallocate(from, to-from) == nil {
		s.allocated.Store(to)
		// The janitor may have looked before.
		if s.sealed.Load() {
			h.file.ReleasePreallocated()
		}
	}
}
