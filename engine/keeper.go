package engine

import (
	"sync"
	"time"
)

// keeper is the goroutine that takes checkpoints, keeps retention and forgets silent producers.
type keeper struct {
	store *Store
	wake  chan struct{}
	stop  chan struct{}
	// upkept: the settings of Upkeep changed.
	upkept chan struct{}

	mu    sync.Mutex
	dirty []dirtyShard // changed since their last checkpoint

	clock clockWatch

	// one checkpoint of a shard at a time: an older one must not be committed behind a newer
	checkpoints sync.Mutex
}

type dirtyShard struct {
	shard *Shard
	since time.Time
}

func newKeeper(s *Store) *keeper {
	return &keeper{store: s, wake: make(chan struct{}, 1), stop: make(chan struct{}), upkept: make(chan struct{}, 1)}
}

func (k *keeper) kick() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// changed takes note of a shard that needs a checkpoint.
func (k *keeper) changed(sh *Shard) {
	k.mu.Lock()
	k.dirty = append(k.dirty, dirtyShard{sh, time.Now()})
	k.mu.Unlock()
}

func (k *keeper) run() {
	o := &k.store.opts
	tick := min(max(o.CheckpointInterval/8, 10*time.Millisecond), time.Second)
	checkpoints := time.NewTicker(tick)
	retention := time.NewTicker(max(o.RetentionCheckInterval, time.Millisecond))
	expiry := time.NewTicker(k.expiryInterval())
	defer checkpoints.Stop()
	defer retention.Stop()
	defer expiry.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-k.wake:
			k.syncEarly()
			k.checkpointDue(time.Now())
		case <-checkpoints.C:
			k.checkpointDue(time.Now())
		case <-retention.C:
			k.retain()
		case <-k.upkept:
			expiry.Reset(k.expiryInterval())
		case <-expiry.C:
			k.expireProducers()
		}
	}
}

// expiryInterval is the time between two looks for silent producers.
func (k *keeper) expiryInterval() time.Duration {
	return min(max(k.store.upkeep.Load().ProducerExpiration/16, 100*time.Millisecond), 10*time.Minute)
}

// checkpointDue takes the checkpoints whose time, or number of bytes, has come.
func (k *keeper) checkpointDue(now time.Time) {
	var due []*Shard
	k.mu.Lock()
	kept := k.dirty[:0]
	for _, d := range k.dirty {
		if d.shard.checkpoint.bytes.Load() >= k.store.opts.CheckpointBytes || now.Sub(d.since) >= k.store.opts.CheckpointInterval {
			d.shard.checkpoint.queued.Store(false)
			due = append(due, d.shard)
		} else {
			kept = append(kept, d)
		}
	}
	clear(k.dirty[len(kept):])
	k.dirty = kept
	k.mu.Unlock()
	if len(due) == 0 {
		return
	}
	if err := k.checkpointAll(due); err != nil {
		k.store.log.Error("checkpoint failed", "shards", len(due), "err", err)
	}
}

// syncEarly makes room in the cache of open files, where most wait for a sync, before writers have to.
func (k *keeper) syncEarly() {
	handles := &k.store.handles
	if !handles.crowded.Swap(false) {
		return
	}
	if err := handles.syncOldest(handles.syncMax()); err != nil {
		k.store.log.Error("early sync failed", "err", err)
	}
}

// expireProducers forgets producers that have been silent too long.
func (k *keeper) expireProducers() {
	before := k.store.opts.Now().Add(-k.store.upkeep.Load().ProducerExpiration).UnixMilli()
	for _, sh := range k.store.all() {
		sh.mu.Lock()
		n := len(sh.producers.dropped)
		sh.producers.expire(before)
		changed := len(sh.producers.dropped) != n
		sh.mu.Unlock()
		if changed {
			sh.noteChanged(0)
		}
	}
}
