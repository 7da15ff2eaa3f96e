package engine

import (
	"sync"
	"time"
)

// janitor is the goroutine that closes files nobody uses, removes files whose delay is over and gives back
// what sealed segments had preallocated.
type janitor struct {
	store *Store
	wake  chan struct{}
	stop  chan struct{}

	mu       sync.Mutex
	removals []removal
	seals    []*segment
}

// removal is a path to be removed at a time.
type removal struct {
	path string
	tree bool
	at   time.Time
}

func newJanitor(s *Store) *janitor {
	return &janitor{store: s, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// kick wakes the janitor. It does not block.
func (j *janitor) kick() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// sealed takes note of a segment that gets no more appends.
func (j *janitor) sealed(s *segment) {
	j.mu.Lock()
	j.seals = append(j.seals, s)
	j.mu.Unlock()
	j.kick()
}

// remove deletes a file or a tree after the delay.
func (j *janitor) remove(path string, tree bool, delay time.Duration) {
	j.mu.Lock()
	j.removals = append(j.removals, removal{path, tree, time.Now().Add(max(delay, 0))})
	j.mu.Unlock()
	j.kick()
}

func (j *janitor) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-j.wake:
		case <-timer.C:
		}
		timer.Reset(j.round(time.Now()))
	}
}

// round does what is due and returns the time to the next removal.
func (j *janitor) round(now time.Time) time.Duration {
	j.store.handles.closeRetired()
	j.mu.Lock()
	seals := j.seals
	j.seals = nil
	var due []removal
	next := time.Hour
	kept := j.removals[:0]
	for _, r := range j.removals {
		if wait := r.at.Sub(now); wait > 0 {
			kept = append(kept, r)
			next = min(next, wait)
		} else {
			due = append(due, r)
		}
	}
	j.removals = kept
	j.mu.Unlock()
	for _, s := range seals {
		j.giveBack(s)
	}
	for i := range due {
		j.carryOut(&due[i])
	}
	return next
}

func (j *janitor) carryOut(r *removal) {
	remove := j.store.fs.Remove
	if r.tree {
		remove = j.store.fs.RemoveAll
	}
	if err := remove(r.path); err != nil {
		j.store.log.Warn("removal failed", "path", r.path, "err", err)
	}
}

// removeAll removes at the end what would have gone later.
func (j *janitor) removeAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.removals {
		j.carryOut(&j.removals[i])
	}
	j.removals = nil
}

// giveBack releases the preallocated tail of a sealed segment.
func (j *janitor) giveBack(s *segment) {
	if s.allocated.Load() == 0 {
		return
	}
	h := s.acquire()
	if h == nil {
		return
	}
	defer h.release()
	if err := h.file.ReleasePreallocated(); err != nil {
		j.store.log.Debug("preallocated space stays", "segment", s.path, "err", err)
	}
}
