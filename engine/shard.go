package engine

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"millrace/engine/model"
)

// State is what a shard says of its log at one moment: LogStart <= LastStable <= HighWatermark <= LogEnd.
type State struct {
	LogStart      int64
	HighWatermark int64
	LastStable    int64
	LogEnd        int64
	LeaderEpoch   int32
	Deleted       bool
	// Quarantined: the shard's files are damaged or missing. It serves nothing, and the offsets say nothing.
	Quarantined bool
}

// Shard is one partition's log. Submit, State, Read, Watch and Unwatch may be called on event loops; the
// other methods may block.
type Shard struct {
	id       model.ShardID
	identity uint32
	store    *Store
	writer   *writer
	dir      string
	config   atomic.Pointer[ShardConfig]

	logStart      atomic.Int64
	highWatermark atomic.Int64
	logEnd        atomic.Int64
	leaderEpoch   atomic.Int32
	deleted       atomic.Bool
	quarantine    atomic.Pointer[quarantine]
	watchers      atomic.Uint64 // a bit for each loop
	list          atomic.Pointer[segmentList]
	cursors       cursorCache
	flushWaits    atomic.Bool // its flush.ms runs
	fileStale     atomic.Bool // shard.json is to be written again
	cleaned       cleanState

	// mu guards what follows. It is held for work in memory only.
	mu        sync.Mutex
	idle      *sync.Cond // inflight came to 0
	builder   model.Builder
	gather    *chunk // not yet taken by the writer
	next      int64  // offset of the next append
	epochs    epochList
	producers producerTable
	pending   []*chunk        // taken by the writer and not finished, oldest first
	syncing   int             // of them, waiting for the syncer
	queued    bool            // in the writer's queue
	exclusive bool            // a truncation or a drop keeps appends out
	rolling   bool            // the writer seals it
	rollAsked []chan struct{} // the writer should seal the active segment and close these
	unsynced  []*segment      // have bytes that may not be durable, oldest first
	topicName string

	// maintain serialises retention, DeleteRecords, truncation, the drop and the replacement of segments by
	// compaction. It is held over I/O, never on an event loop and never together with mu over I/O.
	maintain   sync.Mutex
	checkpoint checkpointState

	// The writer's, or of a holder of the exclusive section.
	active     *segment
	nextNumber uint64
	dirMade    atomic.Bool // the directory exists
	anchored   atomic.Bool // and its entry is durable
	unflushed  int64       // records written since the last sync
}

// quarantine says why a shard serves nothing.
type quarantine struct{ err error }

// ID names the shard.
func (sh *Shard) ID() model.ShardID { return sh.id }

// Identity seeds the checksums of the shard's bytes.
func (sh *Shard) Identity() uint32 { return sh.identity }

// State reads the watermarks. It does not block or allocate.
func (sh *Shard) State() State {
	// In this order each is at most what is read after it, since all only rise.
	st := State{LogStart: sh.logStart.Load()}
	st.HighWatermark = sh.highWatermark.Load()
	st.LastStable = st.HighWatermark
	st.LogEnd = max(sh.logEnd.Load(), st.HighWatermark)
	st.LeaderEpoch = sh.leaderEpoch.Load()
	st.Deleted = sh.deleted.Load()
	st.Quarantined = sh.quarantine.Load() != nil
	return st
}

// Gone tells whether the shard was dropped or moved. It does not block or allocate.
func (sh *Shard) Gone() bool { return sh.deleted.Load() }

// SetConfig changes the settings, from the next append or look on.
func (sh *Shard) SetConfig(c ShardConfig) {
	c.EnsureDefaults()
	sh.config.Store(&c)
}

// Config returns the settings.
func (sh *Shard) Config() ShardConfig { return *sh.config.Load() }

// SetLeaderEpoch begins a leader epoch at the log end. An older one than the shard has is ignored.
func (sh *Shard) SetLeaderEpoch(epoch int32) {
	sh.mu.Lock()
	changed := epoch > sh.leaderEpoch.Load()
	if changed {
		sh.leaderEpoch.Store(epoch)
		sh.epochs = sh.epochs.assign(epoch, sh.next)
	}
	sh.mu.Unlock()
	if changed {
		sh.notify()
	}
}

// Watch asks that the loop's Sink be told when the shard's high watermark, log start, epoch or existence
// changes. Of more than 64 loops several share a mark and may be told in vain.
func (sh *Shard) Watch(loop int) { sh.watchers.Or(1 << (uint(loop) & 63)) }

// Unwatch takes Watch back.
func (sh *Shard) Unwatch(loop int) { sh.watchers.And(^uint64(1 << (uint(loop) & 63))) }

// notify tells the watchers outside of an append.
func (sh *Shard) notify() {
	mask := sh.watchers.Load()
	if mask == 0 {
		return
	}
	advanced := []*Shard{sh}
	for i, sink := range sh.store.sinkList() {
		if mask&(1<<(uint(i)&63)) != 0 && sink != nil {
			sink.Complete(nil, advanced)
		}
	}
}

// EndOffsetForEpoch answers where a leader epoch ended: the largest known epoch at or below the asked one
// and the offset after its last record; (-1, -1) where the asked one is negative or newer than all. Below
// the first known epoch the asked one comes back with the start of the first (KIP-101, KIP-279).
func (sh *Shard) EndOffsetForEpoch(epoch int32) (int32, int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.epochs.endOffset(epoch, sh.logEnd.Load())
}

// EpochAt returns the leader epoch of the record at offset, -1 where it is not known.
func (sh *Shard) EpochAt(offset int64) int32 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.epochs.at(offset)
}

// Size returns the bytes of the log's segments, as far as they are published.
func (sh *Shard) Size() int64 {
	var n int64
	for _, s := range sh.list.Load().segments {
		n += s.published.Load()
	}
	return n
}

// ProducerState is what DescribeProducers tells of a producer.
type ProducerState struct {
	ID            int64
	Epoch         int16
	LastSequence  int32 // -1: none
	LastTimestamp int64 // of its last batch, milliseconds; -1: none
	LastOffset    int64 // -1: none
}

// Producers lists the producers that the shard remembers, the longest silent first.
func (sh *Shard) Producers() []ProducerState {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	out := make([]ProducerState, 0, len(sh.producers.byID))
	for p := sh.producers.head; p != nil; p = p.next {
		st := ProducerState{ID: p.id, Epoch: p.epoch, LastSequence: -1, LastTimestamp: -1, LastOffset: -1}
		if n := len(p.batches); n > 0 {
			b := p.batches[n-1]
			st.LastSequence, st.LastTimestamp, st.LastOffset = b.lastSequence, b.maxTimestamp, b.lastOffset
		}
		out = append(out, st)
	}
	return out
}

// unusable returns why the shard serves nothing, nil where it does.
func (sh *Shard) unusable() error {
	if sh.deleted.Load() {
		return ErrShardDeleted
	}
	if q := sh.quarantine.Load(); q != nil {
		return q.err
	}
	return nil
}

// setQuarantine takes the shard out of service. What it answers from then on is ErrStorage, whatever the
// cause was.
func (sh *Shard) setQuarantine(err error) {
	if sh.quarantine.Swap(&quarantine{fmt.Errorf("shard %s is quarantined: %w: %v", sh.id, ErrStorage, err)}) == nil {
		sh.store.metrics.QuarantinedShards.Add(1)
	}
	if sh.topicName == "" {
		// EnsureShard says which topic it is.
		sh.store.log.Error("shard quarantined", "shard", sh.id.String(), "partition", sh.id.Partition, "err", err)
		return
	}
	sh.store.log.Error("shard quarantined", "shard", sh.id.String(), "topic", sh.topicName, "partition", sh.id.Partition, "err", err)
}

// newShard makes an empty shard in memory.
func newShard(s *Store, id model.ShardID) *Shard {
	sh := &Shard{id: id, identity: id.Identity(), store: s, dir: filepath.Join(s.opts.Dir, id.String())}
	sh.writer = s.writers[sh.identity%uint32(len(s.writers))]
	sh.idle = sync.NewCond(&sh.mu)
	sh.producers.max = s.opts.ProducersMax
	sh.leaderEpoch.Store(-1)
	sh.list.Store(&segmentList{})
	sh.nextNumber = 1
	sh.SetConfig(ShardConfig{})
	return sh
}
