package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"millrace/diskio/lsm"
)

// The keys of the store: one letter, and for entries their index.
//
//	i              whose directory this is
//	h              Raft's hard state
//	s              the snapshot: length of its metadata u32, metadata, state of the machines
//	e index u64    a log entry after the snapshot
const (
	keyIdentity  = 'i'
	keyHardState = 'h'
	keySnapshot  = 's'
	keyEntry     = 'e'
)

const (
	memTableBytes = 1 << 20
	// Far more than three memtables, below which Pebble's cache gives its room to them.
	cacheBytes = 8 << 20
)

// store keeps the log, the hard state and the snapshot in Pebble. It belongs to the node's goroutine.
type store struct {
	db      *pebble.DB
	lock    *pebble.Lock
	scratch []byte
	metrics *Metrics
	held    *heldLogs
	durable *durable // nil: nothing is promised
}

// openStore opens or makes the store. failed is told of faults that Pebble meets in the background.
func openStore(o *Options, metrics *Metrics, failed func(error)) (*store, error) {
	if err := makeDir(o.FS, o.Dir); err != nil {
		return nil, fmt.Errorf("make %s: %w", o.Dir, err)
	}
	lock, err := pebble.LockDirectory(o.Dir, o.FS)
	if err != nil {
		return nil, fmt.Errorf("%w: lock %s: %w", ErrInUse, o.Dir, err)
	}
	// The store of a failed node stays locked on purpose, which Pebble's invariants take for a leak.
	runtime.SetFinalizer(lock, nil)
	held := &heldLogs{fs: o.FS}
	pebbleFS := storeFS{FS: o.FS, syncLogs: o.Sync, failed: failed, held: held}
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	options := &pebble.Options{
		FS:                 pebbleFS,
		Lock:               lock,
		Cache:              cache,
		MemTableSize:       memTableBytes,
		MaxOpenFiles:       64,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             storeLogger{logger: o.Logger, failed: failed},
		// Those of a damaged table are tried again without end.
		DisableTableStats: true,
		// Pebble tries a flush or compaction that failed again at once and without end; ending its goroutine keeps it
		// from that. Without DataCorruption it ends the process where it reads damage, in whatever goroutine that is.
		EventListener: &pebble.EventListener{BackgroundError: func(err error) {
			failed(err)
			runtime.Goexit()
		}, DataCorruption: func(info pebble.DataCorruptionInfo) {
			failed(fmt.Errorf("%w: %s: %w", ErrDamaged, info.Path, info.Details))
		}},
	}
	gate := lsm.NewGate()
	options.Experimental.CompactionScheduler = gate
	s := &store{lock: lock, metrics: metrics, held: held}
	err = guard(func() (err error) {
		if err = markFormat(pebbleFS, o.Dir); err == nil {
			s.db, err = pebble.Open(o.Dir, options)
		}
		return err
	})
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, pebble.ErrDBNotPristine) || pebble.IsCorruptionError(err) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err) // a file that others name is not there, or not whole
		}
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.Dir, err), lock.Close())
	}
	gate.Open()
	return s, nil
}

// makeDir makes the directory with those above it, and syncs the parent of each that was missing, so that it is there
// after a power cut.
func makeDir(fs vfs.FS, dir string) error {
	var parents []string
	for at := dir; fs.PathDir(at) != at; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); err == nil {
			break
		}
		parents = append(parents, fs.PathDir(at))
	}
	if len(parents) == 0 {
		return nil
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := syncDir(fs, parent); err != nil {
			return err
		}
	}
	return nil
}

// markFormat marks a new directory as one of Pebble's newest format. Pebble alone begins at its oldest
// format and climbs to the newest with a new file and two syncs for each step, most of what a first start
// took (20 of 27 ms).
func markFormat(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	if len(names) > 1 { // more than the lock
		return nil
	}
	marker, _, err := atomicfs.LocateMarker(fs, dir, "format-version")
	if err != nil {
		return err
	}
	return errors.Join(marker.Move(pebble.FormatNewest.String()), marker.Close())
}

func (s *store) close() error {
	return errors.Join(s.durable.close(), guard(s.db.Close), s.lock.Close())
}

// get returns a copy of the value, nil if there is none.
func (s *store) get(key byte) ([]byte, error) {
	value, closer, err := s.db.Get([]byte{key})
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, value...), closer.Close()
}

// identity returns nil for a new directory.
func (s *store) identity() (*identity, error) {
	b, err := s.get(keyIdentity)
	if err != nil || b == nil {
		return nil, err
	}
	id, err := parseIdentity(b)
	return &id, err
}

// bootstrap makes a new directory the log of a group at a snapshot, which stands for the membership.
func (s *store) bootstrap(id identity, metadata *raftpb.SnapshotMetadata, state []byte) error {
	b := s.db.NewBatch()
	if err := s.putSnapshot(b, metadata, state); err != nil {
		return err
	}
	if err := s.putHardState(b, &raftpb.HardState{Term: metadata.Term, Commit: metadata.Index}); err != nil {
		return err
	}
	if err := b.Set([]byte{keyIdentity}, id.append(nil), nil); err != nil {
		return err
	}
	return s.commit(b)
}

// append stores entries and, if it is not nil, the hard state, in one write.
func (s *store) append(hard *raftpb.HardState, entries []*raftpb.Entry) error {
	b := s.db.NewBatch()
	for _, e := range entries {
		var err error
		if s.scratch, err = (proto.MarshalOptions{}).MarshalAppend(s.scratch[:0], e); err != nil {
			return fmt.Errorf("encode entry %d: %w", e.GetIndex(), err)
		}
		if err := b.Set(entryKey(e.GetIndex()), s.scratch, nil); err != nil {
			return err
		}
	}
	if hard != nil {
		if err := s.putHardState(b, hard); err != nil {
			return err
		}
	}
	err := s.commit(b)
	if n := len(entries); err == nil && n > 0 {
		s.durable.set(entries[n-1].GetIndex())
	}
	return err
}

// snapshot replaces the snapshot and the entries that it covers. The hard state goes with it, since its
// commit index must not lie before the snapshot.
func (s *store) snapshot(hard *raftpb.HardState, metadata *raftpb.SnapshotMetadata, state []byte) error {
	b := s.db.NewBatch()
	if err := s.putSnapshot(b, metadata, state); err != nil {
		return err
	}
	if err := s.putHardState(b, hard); err != nil {
		return err
	}
	if err := b.DeleteRange(entryKey(0), entryKey(metadata.GetIndex()+1), nil); err != nil {
		return err
	}
	return s.commit(b)
}

func (s *store) putSnapshot(b *pebble.Batch, metadata *raftpb.SnapshotMetadata, state []byte) error {
	m, err := proto.Marshal(metadata)
	if err != nil {
		return fmt.Errorf("encode snapshot metadata: %w", err)
	}
	value := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(m)+len(state)), uint32(len(m)))
	value = append(append(value, m...), state...)
	return b.Set([]byte{keySnapshot}, value, nil)
}

func (s *store) putHardState(b *pebble.Batch, hard *raftpb.HardState) error {
	value, err := proto.Marshal(hard)
	if err != nil {
		return fmt.Errorf("encode hard state: %w", err)
	}
	return b.Set([]byte{keyHardState}, value, nil)
}

// commit writes the batch.
func (s *store) commit(b *pebble.Batch) error {
	s.metrics.Writes.Add(1)
	return guard(func() error {
		if err := s.db.Apply(b, pebble.Sync); err != nil {
			return err
		}
		return b.Close()
	})
}

// guard calls f and returns as an error what Pebble panics with where it cannot make a file. That is a
// fault of the disk, not of this program; panics of the runtime go on.
func guard(f func() error) (err error) {
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case runtime.Error:
			panic(fault)
		case error:
			err = fault
		default:
			panic(fault)
		}
	}()
	return f()
}

// loaded is what a store held when it was opened.
type loaded struct {
	hard     *raftpb.HardState
	metadata *raftpb.SnapshotMetadata
	state    []byte // of the machines
	entries  []*raftpb.Entry
	bytes    int64 // of entries
}

func (s *store) load() (*loaded, error) {
	l := &loaded{hard: &raftpb.HardState{}, metadata: &raftpb.SnapshotMetadata{}}
	b, err := s.get(keyHardState)
	if err != nil {
		return nil, fmt.Errorf("read hard state: %w", err)
	}
	if err := proto.Unmarshal(b, l.hard); err != nil {
		return nil, fmt.Errorf("decode hard state: %w: %w", ErrDamaged, err)
	}
	if b, err = s.get(keySnapshot); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if len(b) < 4 || int64(binary.BigEndian.Uint32(b)) > int64(len(b)-4) {
		return nil, fmt.Errorf("%w: snapshot of %d bytes", ErrDamaged, len(b))
	}
	end := 4 + int(binary.BigEndian.Uint32(b))
	if err := proto.Unmarshal(b[4:end], l.metadata); err != nil {
		return nil, fmt.Errorf("decode snapshot metadata: %w: %w", ErrDamaged, err)
	}
	l.state = b[end:]
	return l, s.loadEntries(l)
}

func (s *store) loadEntries(l *loaded) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyEntry}, UpperBound: []byte{keyEntry + 1}})
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	next := l.metadata.GetIndex() + 1
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read entry %d: %w", next, err)
		}
		e := &raftpb.Entry{}
		if err := proto.Unmarshal(value, e); err != nil {
			return fmt.Errorf("decode entry %d: %w: %w", next, ErrDamaged, err)
		}
		if e.GetIndex() != next {
			return fmt.Errorf("%w: log has entry %d where %d is due", ErrDamaged, e.GetIndex(), next)
		}
		next++
		l.entries = append(l.entries, e)
		l.bytes += int64(len(value))
	}
	return it.Error()
}

func entryKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), keyEntry), index)
}
