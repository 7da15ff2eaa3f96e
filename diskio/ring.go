package diskio

import (
	"math"
	"sync"
)

// lanesMax bounds the rings of a backend for writes, and again for syncs: batches at once beyond it wait.
// Writes and syncs have lanes of their own, so that writes do not wait behind a slow device flush. A lane of
// 256 ops takes 36 KiB in the kernel and about as much here.
const lanesMax = 4

// ringFS batches syncs, and writes where that pays, through io_uring.
type ringFS struct {
	posixFS
	// writeOpsMin and syncOpsMin are the smallest batches that go through the ring; below, plain calls cost
	// the same and wait for nobody.
	writeOpsMin int
	syncOpsMin  int
	writers     *lanePool
	syncers     *lanePool
}

// ringUse says for what the ring is used.
type ringUse int

const (
	// ringSyncs: batches of syncs, since the file system hands each buffered write to a worker.
	ringSyncs ringUse = iota
	// ringBatches: batches of syncs and of writes.
	ringBatches
	// ringAll: every write and sync.
	ringAll
)

// newRingFS takes a ring that proved that the host allows them.
func newRingFS(first *ring, entries int, use ringUse, reason string) *ringFS {
	r := &ringFS{
		posixFS: *newPosixFS(reason),
		writers: newLanePool(entries),
		syncers: newLanePool(entries),
	}
	switch use {
	case ringSyncs:
		r.writeOpsMin, r.syncOpsMin = math.MaxInt, 2
	case ringBatches:
		r.writeOpsMin, r.syncOpsMin = 2, 2
	case ringAll:
		r.writeOpsMin, r.syncOpsMin = 1, 1
	}
	r.syncers.idle = append(r.syncers.idle, newLane(first))
	return r
}

// Backend implements FS.
func (r *ringFS) Backend() (name, reason string) { return BackendRing, r.reason }

// Write implements FS.
func (r *ringFS) Write(ops []WriteOp) {
	if len(ops) < r.writeOpsMin {
		r.posixFS.Write(ops)
		return
	}
	l := r.writers.take()
	if l == nil {
		r.posixFS.Write(ops)
		return
	}
	l.write(ops)
	r.writers.giveBack(l)
}

// Sync implements FS.
func (r *ringFS) Sync(ops []SyncOp) {
	if len(ops) < r.syncOpsMin {
		r.posixFS.Sync(ops)
		return
	}
	l := r.syncers.take()
	if l == nil {
		r.posixFS.Sync(ops)
		return
	}
	l.sync(ops)
	r.syncers.giveBack(l)
}

// Close implements FS. It waits for batches in flight.
func (r *ringFS) Close() error {
	r.writers.close()
	r.syncers.close()
	return nil
}

// lanePool lends lanes, at most lanesMax at once, and makes them when they are first needed.
type lanePool struct {
	entries int
	turns   chan struct{} // one token for each lane that is out
	mu      sync.Mutex
	closed  bool
	idle    []*lane // the last one used is the first to be used again: its memory is warm
}

func newLanePool(entries int) *lanePool {
	return &lanePool{entries: entries, turns: make(chan struct{}, lanesMax)}
}

// take waits for a lane. It returns nil, and nothing to give back, where a new ring cannot be had just now
// (descriptors or memory are short, or the backend is closed): plain calls are always right.
func (p *lanePool) take() *lane {
	p.turns <- struct{}{}
	l, closed := p.takeIdle()
	if l != nil {
		return l
	}
	if !closed {
		if fresh, err := openRing(p.entries); err == nil {
			return newLane(fresh)
		}
	}
	<-p.turns
	return nil
}

func (p *lanePool) takeIdle() (l *lane, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil, p.closed
	}
	l = p.idle[last]
	p.idle = p.idle[:last]
	return l, p.closed
}

func (p *lanePool) giveBack(l *lane) {
	if l.broken {
		l.ring.close()
	} else {
		p.mu.Lock()
		p.idle = append(p.idle, l)
		p.mu.Unlock()
	}
	<-p.turns
}

// close waits for the lanes that are out and closes all. From then on take has none.
func (p *lanePool) close() {
	for range lanesMax {
		p.turns <- struct{}{}
	}
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, l := range idle {
		l.ring.close()
	}
	for range lanesMax {
		<-p.turns
	}
}
