package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"millrace/diskio"
	"millrace/engine/model"
	"millrace/perf"
)

const lockName = "LOCK"

// Store is a data directory: its shards, the index store and the goroutines that write, sync and tidy.
type Store struct {
	opts    Options
	fs      diskio.FS
	pool    *perf.Pool
	log     *slog.Logger
	metrics *Metrics
	upkeep  atomic.Pointer[Upkeep]

	lock    io.Closer
	index   *indexStore
	handles handleCache
	chunks  chunkPool
	sinks   atomic.Pointer[[]Sink]
	clean   bool
	offline bool // see OpenOffline
	// indexLost: there are shards, and the index store has been made anew.
	indexLost bool

	writers   []*writer
	syncer    *syncer
	flusher   *flusher
	janitor   *janitor
	indexer   *indexer
	allocator *allocator
	keeper    *keeper
	cleaner   *cleaner
	space     *space
	progress  progress
	tasks     sync.WaitGroup // the writers'
	helpers   sync.WaitGroup // all others

	appendWarnings logLimit

	failed  atomic.Pointer[error] // a fsync failed: no more writes
	closing atomic.Bool
	// cleanMark: the clean-stop mark is on the disk and must go before anything is written.
	cleanMark atomic.Bool
	markMu    sync.Mutex
	lost      atomic.Bool // a shard ends earlier than its last checkpoint says

	// catalogue is held over a commit of what a shard's log consists of, so that no checkpoint brings back
	// what a truncation or deletion removed.
	catalogue sync.Mutex

	mu      sync.RWMutex
	shards  map[model.ShardID]*Shard
	orphans map[model.ShardID]*Shard // found on disk, not ensured
}

// Open opens the data directory, which no other process may have open, and recovers every shard found in
// it. It logs progress of long work.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("options of the shard store: %w", err)
	}
	start := time.Now()
	if err := makeDataDir(o.FS, o.Dir); err != nil {
		return nil, fmt.Errorf("make data directory %s: %w", o.Dir, err)
	}
	lock, err := o.FS.Lock(filepath.Join(o.Dir, lockName))
	if err != nil {
		if errors.Is(err, diskio.ErrLocked) {
			return nil, fmt.Errorf("data directory %s is in use: %w", o.Dir, err)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", o.Dir, err)
	}
	s := newStore(o, lock)
	if err := s.recover(ctx); err != nil {
		s.handles.closeAll()
		if s.index != nil {
			s.index.close()
		}
		lock.Close()
		return nil, err
	}
	s.space.look()
	s.metrics.RecoveryNanos.Store(int64(time.Since(start)))
	s.start()
	return s, nil
}

// makeDataDir makes the directory, durably, where it is missing.
func makeDataDir(fsys diskio.FS, dir string) error {
	var made []string // parents of what is missing
	for at := filepath.Clean(dir); ; {
		if _, err := fsys.List(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		parent := filepath.Dir(at)
		made = append(made, parent)
		if parent == at {
			break
		}
		at = parent
	}
	if len(made) == 0 {
		return nil
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for _, parent := range made {
		if err := fsys.SyncDir(parent); err != nil {
			return err
		}
	}
	return nil
}

func newStore(o Options, lock io.Closer) *Store {
	s := &Store{
		opts: o, fs: o.FS, pool: o.Pool, log: o.Logger, metrics: new(Metrics), lock: lock,
		shards: make(map[model.ShardID]*Shard), orphans: make(map[model.ShardID]*Shard),
	}
	s.upkeep.Store(&o.Upkeep)
	s.SetSinks(o.Sinks)
	s.handles.store, s.handles.max, s.handles.mappingsMax = s, o.OpenSegmentsMax, int64(o.MappingsMax)
	for range o.Writers {
		s.writers = append(s.writers, newWriter(s))
	}
	s.syncer, s.flusher = newSyncer(s), newFlusher(s)
	s.janitor, s.indexer, s.allocator = newJanitor(s), newIndexer(s), newAllocator(s)
	s.keeper, s.cleaner, s.space = newKeeper(s), newCleaner(s), newSpace(s)
	return s
}

// start runs the goroutines.
func (s *Store) start() {
	for _, w := range s.writers {
		s.tasks.Go(w.run)
	}
	for _, run := range []func(){s.janitor.run, s.indexer.run, s.allocator.run, s.keeper.run, s.cleaner.run, s.flusher.run, s.space.run} {
		s.helpers.Go(run)
	}
	s.helpers.Go(s.syncer.run)
}

// Clean tells whether the last stop was clean. After one that was not, the caller raises the leader epochs
// before it makes shards leaders: records that a power cut took may have been read. A log that lost its end in another
// way since the stop is as bad: its offsets are given out again.
func (s *Store) Clean() bool { return s.clean && !s.lost.Load() }

// Metrics returns the counters.
func (s *Store) Metrics() *Metrics { return s.metrics }

// SetSinks sets where finished appends go, one sink for each event loop. Appends of loops without one are
// dropped when they finish.
func (s *Store) SetSinks(sinks []Sink) {
	sinks = append([]Sink(nil), sinks...)
	s.sinks.Store(&sinks)
}

// SetUpkeep changes the settings of what goes on in the background. A compaction under way follows the rate at once.
func (s *Store) SetUpkeep(u Upkeep) {
	u.EnsureDefaults()
	s.upkeep.Store(&u)
	for _, changed := range []chan struct{}{s.cleaner.upkept, s.keeper.upkept} {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

func (s *Store) sinkList() []Sink { return *s.sinks.Load() }

func (s *Store) nowMillis() int64 { return s.opts.Now().UnixMilli() }

// Failed returns why the directory takes no more writes: a fsync failed, and what of the written bytes is on
// the disk is unknown. Reads go on. It is nil otherwise.
func (s *Store) Failed() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail stops all writes for good and returns what later appends are answered.
func (s *Store) fail(err error) error {
	wrapped := fmt.Errorf("%w: writes to %s have stopped: %w", ErrStorage, s.opts.Dir, err)
	if s.failed.CompareAndSwap(nil, &wrapped) {
		s.log.Error("data directory takes no more writes", "dir", s.opts.Dir, "err", err)
	}
	return s.Failed()
}

// refusal returns why no append is taken now.
func (s *Store) refusal() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	if s.closing.Load() {
		return ErrClosed
	}
	if s.metrics.SpaceLow.Load() != 0 {
		return errSpaceLow
	}
	if s.metrics.GatheredBytes.Load() > s.opts.GatherBytesMax {
		s.metrics.Backpressured.Add(1)
		return ErrBackpressure
	}
	return nil
}

// markUnclean removes the clean-stop mark before the first change.
func (s *Store) markUnclean() error {
	if !s.cleanMark.Load() {
		return nil
	}
	s.markMu.Lock()
	defer s.markMu.Unlock()
	if !s.cleanMark.Load() {
		return nil
	}
	if err := s.index.setClean(false); err != nil {
		return s.fail(err)
	}
	s.cleanMark.Store(false)
	return nil
}

// Shard returns a shard that was ensured, nil where there is none. It does not block or allocate.
func (s *Store) Shard(id model.ShardID) *Shard {
	s.mu.RLock()
	sh := s.shards[id]
	s.mu.RUnlock()
	return sh
}

// EnsureShard returns the shard, making it where it is not found on disk. That is cheap: the directory is
// made with the first append. The spec's leader epoch begins at the log end.
func (s *Store) EnsureShard(id model.ShardID, spec ShardSpec) (*Shard, error) {
	if s.closing.Load() {
		return nil, ErrClosed
	}
	s.mu.Lock()
	sh, made := s.shards[id], false
	if sh == nil {
		if sh = s.orphans[id]; sh != nil {
			delete(s.orphans, id)
		} else {
			made = true
			sh = newShard(s, id)
			if s.offline {
				sh.quarantine.Store(&quarantine{fmt.Errorf("shard %s: %w", id, s.Failed())})
			}
		}
		s.shards[id] = sh
	}
	s.mu.Unlock()
	sh.SetConfig(spec.Config)
	sh.mu.Lock()
	named := sh.topicName != ""
	sh.topicName = spec.TopicName
	sh.mu.Unlock()
	if q := sh.quarantine.Load(); q != nil && !named && !s.offline { // thousands of lines would tell nothing new
		s.log.Error("quarantined shard is one of this topic", "shard", id.String(), "topic", spec.TopicName, "partition", id.Partition,
			"err", q.err)
	}
	sh.SetLeaderEpoch(spec.LeaderEpoch)
	if made && spec.Record && !s.offline {
		b := s.index.db.NewBatch()
		setLogStart(b, id, 0)
		return sh, s.index.commit(b, false)
	}
	return sh, nil
}

// Orphans lists the shards found on disk that were not ensured.
func (s *Store) Orphans() []model.ShardID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]model.ShardID, 0, len(s.orphans))
	for id := range s.orphans {
		out = append(out, id)
	}
	return out
}

// all lists every shard, ensured or not.
func (s *Store) all() []*Shard {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*Shard, 0, len(s.shards)+len(s.orphans))
	for _, sh := range s.shards {
		out = append(out, sh)
	}
	for _, sh := range s.orphans {
		out = append(out, sh)
	}
	return out
}

// Close writes what has gathered, makes everything durable, takes a checkpoint of every shard and leaves
// the clean-stop mark. Submit answers ErrClosed from then on. It blocks.
func (s *Store) Close() error {
	if s.closing.Swap(true) {
		return ErrClosed
	}
	if s.offline {
		return nil
	}
	for _, w := range s.writers {
		close(w.stop)
	}
	s.tasks.Wait()
	s.refuseLeft()
	for _, stop := range []chan struct{}{
		s.syncer.stop, s.flusher.stop, s.janitor.stop, s.indexer.stop, s.allocator.stop, s.keeper.stop, s.cleaner.stop, s.space.stop,
	} {
		close(stop)
	}
	s.helpers.Wait()
	err := s.closeClean()
	s.handles.closeAll()
	s.janitor.removeAll()
	return errors.Join(err, s.index.close(), s.lock.Close())
}

// refuseLeft answers the appends that came in while the writers ended.
func (s *Store) refuseLeft() {
	d := deliverer{store: s}
	for _, sh := range s.all() {
		c, rolls := sh.take()
		for _, done := range rolls {
			close(done)
		}
		sh.mu.Lock()
		sh.rolling = false
		sh.signalLocked()
		sh.mu.Unlock()
		if c != nil {
			d.fail(c, 0, ErrClosed)
		}
	}
	d.flush()
}

// closeClean leaves the mark by which the next start trusts everything.
func (s *Store) closeClean() error {
	if err := s.Failed(); err != nil {
		return err
	}
	if s.index.fence.full.Load() {
		return fmt.Errorf("%w: the disk is full; the next start scans what is new", ErrStorage)
	}
	s.indexer.flush()
	if s.cleanMark.Load() {
		return nil // nothing was written
	}
	if err := s.keeper.checkpointAll(s.all()); err != nil {
		return err
	}
	return s.index.setClean(true)
}
