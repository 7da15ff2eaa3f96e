package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"millrace/diskio"
)

// syncer is the goroutine that makes chunks durable before they are published: one group commit for all
// that wait, while the writers go on with other chunks.
type syncer struct {
	store   *Store
	deliver deliverer
	group   syncGroup
	wake    chan struct{}
	stop    chan struct{}

	mu    sync.Mutex
	queue []*chunk
	spare []*chunk
}

func newSyncer(s *Store) *syncer {
	return &syncer{store: s, deliver: deliverer{store: s}, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// enqueue hands a written chunk over. Chunks of a shard come in the order of its log.
func (y *syncer) enqueue(c *chunk) {
	y.mu.Lock()
	y.queue = append(y.queue, c)
	y.mu.Unlock()
	select {
	case y.wake <- struct{}{}:
	default:
	}
}

func (y *syncer) run() {
	for {
		select {
		case <-y.wake:
			for y.round() {
			}
		case <-y.stop:
			for y.round() {
			}
			return
		}
	}
}

// round commits what waits. It returns false when there was nothing.
func (y *syncer) round() bool {
	y.mu.Lock()
	chunks := y.queue
	y.queue = y.spare[:0]
	y.mu.Unlock()
	y.spare = chunks
	if len(chunks) == 0 {
		return false
	}
	y.group.reset()
	for _, c := range chunks {
		y.group.add(c.shard)
	}
	err := y.group.sync(y.store)
	for i, c := range chunks {
		if err != nil {
			y.deliver.fail(c, 0, err)
		} else {
			y.deliver.publish(c)
		}
		chunks[i] = nil
	}
	y.deliver.flush()
	return true
}

// syncGroup makes all written bytes of some shards durable as one batch. It is used again and again by one
// goroutine at a time.
type syncGroup struct {
	shards   []*Shard
	segments []*segment
	upTo     []int64
	handles  []*handle
	ops      []diskio.SyncOp
}

func (g *syncGroup) reset() {
	clear(g.shards)
	clear(g.segments)
	clear(g.handles)
	clear(g.ops)
	g.shards, g.segments, g.upTo = g.shards[:0], g.segments[:0], g.upTo[:0]
	g.handles, g.ops = g.handles[:0], g.ops[:0]
}

// add puts a shard into the group. The same one twice in a row counts once; elsewhere it costs little.
func (g *syncGroup) add(sh *Shard) {
	if n := len(g.shards); n == 0 || g.shards[n-1] != sh {
		g.shards = append(g.shards, sh)
	}
}

// sync makes durable what the shards have written, new directories and files included. A failure is final:
// what a failed fsync did to the page cache is unknown, so that no later success vouches for these bytes,
// and the store takes no more writes.
func (g *syncGroup) sync(s *Store) error {
	if err := s.Failed(); err != nil {
		return err
	}
	for _, sh := range g.shards {
		g.collect(sh)
	}
	if len(g.segments) == 0 {
		return nil
	}
	for from, most := 0, s.handles.syncMax(); from < len(g.segments); from += most {
		if err := g.syncSome(s, from, min(from+most, len(g.segments))); err != nil {
			return err
		}
	}
	return nil
}

// syncSome syncs the collected segments [from, to), whose files are open together.
func (g *syncGroup) syncSome(s *Store, from, to int) error {
	g.handles, g.ops = g.handles[:0], g.ops[:0]
	start := time.Now()
	err := g.syncFiles(s, g.segments[from:to])
	for _, h := range g.handles {
		if h != nil {
			h.release()
		}
	}
	s.metrics.SyncDuration.observeSince(start)
	if err != nil {
		s.metrics.SyncErrors.Add(1)
		return s.fail(err)
	}
	s.metrics.Syncs.Add(int64(len(g.ops)))
	for i := from; i < to; i++ {
		seg := g.segments[i]
		seg.shard.noteSynced(seg, g.upTo[i])
	}
	return nil
}

// collect takes the shard's segments that may have bytes to sync, and how far they are written now.
func (g *syncGroup) collect(sh *Shard) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, seg := range sh.unsynced {
		if !seg.removed.Load() {
			g.segments = append(g.segments, seg)
			g.upTo = append(g.upTo, seg.written.Load())
		}
	}
}

func (g *syncGroup) syncFiles(s *Store, segments []*segment) error {
	for _, seg := range segments {
		h, err := s.handles.openSegment(seg)
		g.handles = append(g.handles, h)
		if err != nil {
			if seg.removed.Load() {
				continue
			}
			return err
		}
		g.ops = append(g.ops, diskio.SyncOp{File: h.file})
	}
	if err := syncDirs(s, segments); err != nil {
		return err
	}
	s.fs.Sync(g.ops)
	for i := range g.ops {
		if err := g.ops[i].Err; err != nil {
			return fmt.Errorf("sync %s: %w", g.ops[i].File.Name(), err)
		}
	}
	return nil
}

// dirSyncsMax is how many directories are made durable at once. There is no batch of these in a ring; side by
// side they share flushes of the device.
const dirSyncsMax = 16

// syncDirs makes the entries of new files and directories durable.
func syncDirs(s *Store, segments []*segment) error {
	var fresh []*segment
	parent := false
	for _, seg := range segments {
		if !seg.anchored.Load() && !seg.removed.Load() {
			fresh = append(fresh, seg)
			parent = parent || !seg.shard.anchored.Load()
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := syncShardDirs(s, fresh); err != nil {
		return err
	}
	if parent {
		if err := s.fs.SyncDir(s.opts.Dir); err != nil {
			return fmt.Errorf("sync directory %s: %w", s.opts.Dir, err)
		}
	}
	for _, seg := range fresh {
		seg.anchored.Store(true)
		seg.shard.anchored.Store(true)
	}
	return nil
}

// syncShardDirs makes the directories of some segments durable, side by side.
func syncShardDirs(s *Store, fresh []*segment) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range min(len(fresh), dirSyncsMax, s.handles.syncMax()) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(fresh)); i = next.Add(1) - 1 {
				sh := fresh[i].shard
				dir := sh.dir
				if err := s.fs.SyncDir(dir); err != nil {
					if sh.deleted.Load() && errors.Is(err, fs.ErrNotExist) {
						continue // the drop has renamed it meanwhile
					}
					err = fmt.Errorf("sync directory %s: %w", dir, err)
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// noteSynced tells that a segment is durable up to a position.
func (sh *Shard) noteSynced(s *segment, upTo int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.synced.Store(max(s.synced.Load(), upTo))
	if !s.unsynced {
		return
	}
	if s.dirty() {
		// What is left came after the sync began.
		s.unsyncedOrder.Store(sh.store.handles.order.Add(1))
		return
	}
	for i, u := range sh.unsynced {
		if u == s {
			copy(sh.unsynced[i:], sh.unsynced[i+1:])
			sh.unsynced[len(sh.unsynced)-1] = nil
			sh.unsynced = sh.unsynced[:len(sh.unsynced)-1]
			break
		}
	}
	s.unsynced = false
}

// flusher is the goroutine that keeps flush.ms: it syncs a shard so long after its first unsynced append.
type flusher struct {
	store *Store
	group syncGroup
	wake  chan struct{}
	stop  chan struct{}

	mu  sync.Mutex
	due []flushDue
}

type flushDue struct {
	shard *Shard
	at    time.Time
}

func newFlusher(s *Store) *flusher {
	return &flusher{store: s, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// note starts the shard's time, if it does not run.
func (f *flusher) note(sh *Shard, interval time.Duration) {
	if interval == math.MaxInt64 || sh.flushWaits.Swap(true) {
		return
	}
	f.mu.Lock()
	f.due = append(f.due, flushDue{sh, time.Now().Add(interval)})
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *flusher) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-f.wake:
		case <-timer.C:
		}
		timer.Reset(f.round(time.Now()))
	}
}

// round syncs the shards whose time has come and returns the time to the next.
func (f *flusher) round(now time.Time) time.Duration {
	f.group.reset()
	next := time.Hour
	f.mu.Lock()
	kept := f.due[:0]
	for _, d := range f.due {
		if wait := d.at.Sub(now); wait > 0 {
			kept = append(kept, d)
			next = min(next, wait)
			continue
		}
		d.shard.flushWaits.Store(false)
		f.group.add(d.shard)
	}
	clear(f.due[len(kept):])
	f.due = kept
	f.mu.Unlock()
	if len(f.group.shards) > 0 {
		if err := f.group.sync(f.store); err != nil {
			f.store.log.Error("timed flush failed", "err", err)
		}
	}
	return next
}
