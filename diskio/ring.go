package diskio

import "math"

// lanesMax bounds the rings of a backend for writes, and again for syncs: batches at once beyond it wait.
// Writes and syncs have lanes of their own, so that writes do not wait behind a slow device flush. A lane of
// 256 ops takes 36 KiB in the kernel and about as much here.
const lanesMax = 4

// ringFS batches syncs, and writes where that pays, through io_uring.
type ringFS struct {
	posixFS
	entries int
	// writeOpsMin and syncOpsMin are the smallest batches that go through the ring; below, plain calls cost
	// the same and wait for nobody.
	writeOpsMin int
	syncOpsMin  int
	// writers and syncers hold lanes, or nil where one is not made yet.
	writers chan *lane
	syncers chan *lane
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
		entries: entries,
		writers: make(chan *lane, lanesMax),
		syncers: make(chan *lane, lanesMax),
	}
	switch use {
	case ringSyncs:
		r.writeOpsMin, r.syncOpsMin = math.MaxInt, 2
	case ringBatches:
		r.writeOpsMin, r.syncOpsMin = 2, 2
	case ringAll:
		r.writeOpsMin, r.syncOpsMin = 1, 1
	}
	r.syncers <- newLane(first)
	for range lanesMax - 1 {
		r.syncers <- nil
	}
	for range lanesMax {
		r.writers <- nil
	}
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
	l := r.take(r.writers)
	if l == nil {
		r.posixFS.Write(ops)
		return
	}
	l.write(ops)
	r.giveBack(r.writers, l)
}

// Sync implements FS.
func (r *ringFS) Sync(ops []SyncOp) {
	if len(ops) < r.syncOpsMin {
		r.posixFS.Sync(ops)
		return
	}
	l := r.take(r.syncers)
	if l == nil {
		r.posixFS.Sync(ops)
		return
	}
	l.sync(ops)
	r.giveBack(r.syncers, l)
}

// take waits for a lane. It returns nil, having given the turn back, where a new ring cannot be had just now
// (descriptors or memory are short): plain calls are always right.
func (r *ringFS) take(lanes chan *lane) *lane {
	l := <-lanes
	if l != nil {
		return l
	}
	fresh, err := openRing(r.entries)
	if err != nil {
		lanes <- nil
		return nil
	}
	return newLane(fresh)
}

func (r *ringFS) giveBack(lanes chan *lane, l *lane) {
	if l.broken {
		l.ring.close()
		l = nil
	}
	lanes <- l
}

// Close implements FS. It waits for batches in flight.
func (r *ringFS) Close() error {
	for _, lanes := range []chan *lane{r.writers, r.syncers} {
		for range lanesMax {
			if l := <-lanes; l != nil {
				l.ring.close()
			}
		}
	}
	return nil
}
