package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"

	"millrace/diskio"
	"millrace/engine/model"
)

var errStub = errors.New("not there yet")

type Store struct {
	handles handleCache
	janitor janitor
	metrics *Metrics
	fs      diskio.FS
	log     *slog.Logger
	sinks   atomic.Pointer[[]Sink]
	lock    io.Closer
}

type janitor struct{}

func (janitor) kick() {}

type (
	chunk           struct{}
	writer          struct{}
	cursorCache     struct{}
	checkpointState struct{}
	walk            struct{}
)

func (s *Store) sinkList() []Sink {
	if p := s.sinks.Load(); p != nil {
		return *p
	}
	return nil
}

// Open opens the data directory.
func Open(ctx context.Context, o Options) (*Store, error) { return nil, errStub }

// Clean tells whether the last stop was clean.
func (s *Store) Clean() bool { return false }

// SetSinks sets the sinks.
func (s *Store) SetSinks(sinks []Sink) { s.sinks.Store(&sinks) }

// EnsureShard returns the shard.
func (s *Store) EnsureShard(id model.ShardID, spec ShardSpec) (*Shard, error) { return nil, errStub }

// Shard returns the shard, nil if unknown.
func (s *Store) Shard(id model.ShardID) *Shard { return nil }

// DropShard drops it.
func (s *Store) DropShard(id model.ShardID) error { return errStub }

// Orphans lists shards on disk that were not ensured.
func (s *Store) Orphans() []model.ShardID { return nil }

// RemoveOrphan deletes one.
func (s *Store) RemoveOrphan(id model.ShardID) error { return errStub }

// Close stops.
func (s *Store) Close() error { return errStub }

// Failed returns why the directory takes no more writes.
func (s *Store) Failed() error { return nil }

// Metrics returns the counters.
func (s *Store) Metrics() *Metrics { return s.metrics }

// Submit appends.
func (sh *Shard) Submit(a *Append, e Encoder) error { return errStub }

// Read plans a read.
func (sh *Shard) Read(sp *Span, offset, upTo int64, maxBytes int) error { return errStub }

// ReadBlocking may touch the disk.
func (sh *Shard) ReadBlocking(sp *Span, offset, upTo int64, maxBytes int) error { return errStub }

// OffsetForTimestamp finds the first record at or after ts.
func (sh *Shard) OffsetForTimestamp(ts int64) (offset, timestamp int64, epoch int32, found bool, err error) {
	return -1, -1, -1, false, errStub
}

// MaxTimestamp finds the record with the largest timestamp.
func (sh *Shard) MaxTimestamp() (offset, timestamp int64, epoch int32, found bool, err error) {
	return -1, -1, -1, false, errStub
}

// DeleteRecords moves the log start.
func (sh *Shard) DeleteRecords(before int64) (logStart int64, err error) { return -1, errStub }

// Truncate cuts the log's end.
func (sh *Shard) Truncate(offset int64) error { return errStub }
