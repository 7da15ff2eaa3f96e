package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/diskio/lsm"
	"millrace/engine/model"
)

// memTableBytes is small, since what is written is a few hundred bytes for each 64 KiB of data; the block
// cache must be a multiple of it, for memtables count against it.
const memTableBytes = 2 << 20

const (
	indexDirName = "index"
	// indexDamagedName is a file that tells the next start not to trust the index store.
	indexDamagedName = "index.damaged"
)

// indexStore is the data directory's one Pebble: sparse indexes, checkpoints, segments, log starts and
// producers of all shards.
type indexStore struct {
	db    *pebble.DB
	fence *fenceFS
	dir   string
	log   *slog.Logger
	// failure is what froze it.
	failure atomic.Pointer[error]
	damaged atomic.Bool // Pebble met damage
}

// openIndexStore opens the store. Where it is damaged it is set aside, and fresh tells that everything has
// to be found again from the segments.
func openIndexStore(o *Options, onFail func(error)) (x *indexStore, fresh bool, err error) {
	dir := filepath.Join(o.Dir, indexDirName)
	marker := filepath.Join(o.Dir, indexDamagedName)
	if _, statErr := o.IndexFS.Stat(marker); statErr == nil {
		err = fmt.Errorf("%w: found damaged while it was in use", ErrCorrupt)
	} else if x, err = tryIndexStore(o, dir, onFail); err == nil {
		return x, false, nil
	}
	aside := fmt.Sprintf("%s.damaged-%d", dir, o.Now().UnixMilli())
	o.Logger.Error("index store cannot be opened: set aside and made again from the segments", "dir", dir,
		"aside", aside, "err", err)
	if err := o.IndexFS.Rename(dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("set index store %s aside: %w", dir, err)
	}
	if x, err = tryIndexStore(o, dir, onFail); err != nil {
		return nil, true, err
	}
	if err := o.IndexFS.Remove(marker); err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.Logger.Warn("mark of a damaged index store cannot be removed", "path", marker, "err", err)
	}
	return x, true, nil
}

func tryIndexStore(o *Options, dir string, onFail func(error)) (x *indexStore, err error) {
	x = &indexStore{dir: dir, log: o.Logger}
	x.fence = newFenceFS(o.IndexFS, o.Logger, func(err error) {
		err = fmt.Errorf("index store %s: %w", dir, err)
		x.failure.CompareAndSwap(nil, &err)
		onFail(err)
	})
	cache := pebble.NewCache(o.IndexCacheBytes)
	defer cache.Unref()
	defer func() {
		// Damage shows up as a panic in places.
		if r := recover(); r != nil {
			x, err = nil, fmt.Errorf("open index store %s: %v", dir, r)
		}
	}()
	gate := lsm.NewGate()
	options := &pebble.Options{
		FS:                          x.fence,
		Cache:                       cache,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       math.MaxInt, // where a damaged table keeps them from being compacted
		MaxOpenFiles:                256,
		FormatMajorVersion:          pebble.FormatNewest,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		Logger:                      indexLogger{o.Logger},
		EventListener: &pebble.EventListener{DataCorruption: x.corrupt(o), BackgroundError: func(err error) {
			gate.Rest()
			o.Logger.Warn("index store could not be compacted", "dir", dir, "err", err)
		}},
		DisableTableStats: true,
	}
	options.Experimental.CompactionScheduler = gate
	if x.db, err = pebble.Open(dir, options); err != nil {
		return nil, fmt.Errorf("open index store %s: %w", dir, err)
	}
	gate.Open()
	if p := x.failure.Load(); p != nil {
		x.db.Close()
		return nil, *p
	}
	return x, nil
}

// corrupt returns what is done where Pebble meets damage in its files: reads of index entries fall back to
// scans of segments, and the next start makes the whole store again.
func (x *indexStore) corrupt(o *Options) func(pebble.DataCorruptionInfo) {
	return func(info pebble.DataCorruptionInfo) {
		if x.damaged.Swap(true) {
			return
		}
		o.Logger.Error("index store is damaged: the next start makes it again from the segments", "dir", x.dir,
			"path", info.Path, "err", info.Details)
		f, err := o.IndexFS.Create(filepath.Join(o.Dir, indexDamagedName), vfs.WriteCategoryUnspecified)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			o.Logger.Warn("mark of a damaged index store cannot be made", "err", err)
		}
	}
}

// indexLogger passes on what Pebble says. What it calls fatal does not end the process: the fence has seen
// the failed write and the store has stopped taking writes.
type indexLogger struct{ log *slog.Logger }

func (l indexLogger) Infof(format string, args ...any) {}
func (l indexLogger) Errorf(format string, args ...any) {
	l.log.Warn("index store", "message", fmt.Sprintf(format, args...))
}
func (l indexLogger) Fatalf(format string, args ...any) {
	panic("index store: " + fmt.Sprintf(format, args...))
}

// commit applies a batch and closes it. With sync it returns when the batch is durable.
func (x *indexStore) commit(b *pebble.Batch, sync bool) error {
	defer b.Close()
	if p := x.failure.Load(); p != nil {
		return *p
	}
	options := pebble.NoSync
	if sync {
		options = pebble.Sync
	}
	if err := x.db.Apply(b, options); err != nil {
		return fmt.Errorf("index store %s: %w", x.dir, err)
	}
	// A frozen fence lets the commit pass.
	if p := x.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// scan calls visit for every key in [lower, upper).
func (x *indexStore) scan(lower, upper []byte, visit func(key, value []byte) error) error {
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("index store %s: %w", x.dir, err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = visit(it.Key(), value)
		}
		if err != nil {
			it.Close()
			return err
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("index store %s: %w", x.dir, err)
	}
	return nil
}

// clean tells whether the clean-stop mark is there.
func (x *indexStore) clean() bool {
	_, closer, err := x.db.Get([]byte{keyClean})
	if err != nil {
		return false
	}
	closer.Close()
	return true
}

// setClean sets or removes the clean-stop mark, durably.
func (x *indexStore) setClean(clean bool) error {
	b := x.db.NewBatch()
	if clean {
		b.Set([]byte{keyClean}, []byte{valueVersion}, nil)
	} else {
		b.Delete([]byte{keyClean}, nil)
	}
	return x.commit(b, true)
}

// setLogStart adds the shard's log start to a batch.
func setLogStart(b *pebble.Batch, id model.ShardID, offset int64) {
	value := binary.BigEndian.AppendUint64([]byte{valueVersion}, uint64(offset))
	b.Set(appendShardKey(nil, keyStart, id), value, nil)
}

// dropShards removes everything of shards, durably.
func (x *indexStore) dropShards(ids ...model.ShardID) error {
	b := x.db.NewBatch()
	for _, id := range ids {
		for _, kind := range []byte(shardKinds) {
			b.DeleteRange(appendShardKey(nil, kind, id), shardKeyEnd(kind, id), nil)
		}
	}
	return x.commit(b, true)
}

// dropIndex adds to a batch the removal of the index entries of a segment's generation at and above an offset.
func dropIndex(b *pebble.Batch, s *segment, from int64) {
	id := s.shard.id
	b.DeleteRange(appendIndexKey(nil, id, s.number, s.generation, from), appendIndexKey(nil, id, s.number, s.generation+1, 0), nil)
}

// segmentIndex reads the index entries of a segment, as far as they lie within what is published.
func (x *indexStore) segmentIndex(s *segment) (entries []indexEntry, err error) {
	id := s.shard.id
	limit := s.published.Load()
	lower := appendIndexKey(nil, id, s.number, s.generation, 0)
	upper := appendIndexKey(nil, id, s.number, s.generation+1, 0)
	err = x.scan(lower, upper, func(key, value []byte) error {
		e, ok := parseIndexEntry(key, value)
		if n := len(entries); !ok || e.position >= limit || n > 0 && e.position <= entries[n-1].position {
			return nil // not usable; a seek begins at the one before
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// close ends the store. Where it waits for disk space the wait is given up, and what was not written is
// lost as in a crash.
func (x *indexStore) close() error {
	if x.fence.full.Load() {
		x.fence.endWaits()
	}
	if err := x.db.Close(); err != nil {
		return fmt.Errorf("close index store %s: %w", x.dir, err)
	}
	if p := x.failure.Load(); p != nil {
		return *p
	}
	return nil
}
