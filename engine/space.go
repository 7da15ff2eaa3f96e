package engine

import (
	"fmt"
	"sync/atomic"
	"time"
)

// errSpaceLow is what Submit answers while the file system has less free space than the reserve.
var errSpaceLow = fmt.Errorf("%w: the disk is full", ErrStorage)

// space watches the free space. Appends are refused before nothing is left: the index store and the rest of
// the broker on the same file system need some to go on, and to make room.
type space struct {
	store *Store
	since atomic.Int64 // bytes written since the last look
	wake  chan struct{}
	stop  chan struct{}
}

// Times between looks at the free space.
const (
	spaceLookBytes = 1 << 20 // at least so much between two looks
	spaceLookIdle  = 5 * time.Second
	spaceLookFull  = 100 * time.Millisecond
)

func newSpace(s *Store) *space {
	return &space{store: s, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// wrote is told by the writers how many bytes went out; it looks when they could have used up what is left
// of the reserve's distance.
func (p *space) wrote(bytes int64) {
	if p.since.Add(bytes) >= max(p.store.opts.ReserveBytes/4, spaceLookBytes) {
		p.look()
	}
}

// look compares the free space with the reserve.
func (p *space) look() {
	p.since.Store(0)
	free, err := p.store.fs.Free(p.store.opts.Dir)
	if err != nil {
		return
	}
	low := free < p.store.opts.ReserveBytes
	metrics := p.store.metrics
	if low && metrics.SpaceLow.CompareAndSwap(0, 1) {
		p.store.log.Error("disk is full: appends are refused", "dir", p.store.opts.Dir, "free_bytes", free,
			"reserve_bytes", p.store.opts.ReserveBytes)
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	if !low && metrics.SpaceLow.CompareAndSwap(1, 0) {
		p.store.log.Info("disk has space again: appends are taken", "dir", p.store.opts.Dir, "free_bytes", free)
	}
}

func (p *space) run() {
	timer := time.NewTimer(spaceLookIdle)
	defer timer.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-p.wake:
		case <-timer.C:
		}
		p.look()
		next := spaceLookIdle
		if p.store.metrics.SpaceLow.Load() != 0 {
			next = spaceLookFull
		}
		timer.Reset(next)
	}
}
