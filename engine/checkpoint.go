package engine

import (
	"slices"
	"sync/atomic"
)

// checkpointBatch is how many shards share one commit to the index store.
const checkpointBatch = 256

// checkpointState is what a shard's checkpoints need to know.
type checkpointState struct {
	bytes   atomic.Int64 // published since the last
	queued  atomic.Bool  // in the keeper's list
	version atomic.Int64 // of the list of segments; changed under the store's catalogue lock
}

// noteCheckpoint counts published bytes.
func (sh *Shard) noteCheckpoint(bytes int64) { sh.noteChanged(bytes) }

// noteChanged makes sure that a checkpoint of the shard will come.
func (sh *Shard) noteChanged(bytes int64) {
	total := sh.checkpoint.bytes.Add(bytes)
	if !sh.checkpoint.queued.Load() && !sh.checkpoint.queued.Swap(true) {
		sh.store.keeper.changed(sh)
	}
	if most := sh.store.opts.CheckpointBytes; total >= most && total-bytes < most {
		sh.store.keeper.kick()
	}
}

// captured is what a checkpoint of one shard will say, taken at one moment.
type captured struct {
	shard    *Shard
	version  int64
	bytes    int64
	value    checkpointValue
	segments []segmentMeta
	of       []*segment
	dropped  []int64
	dirty    []int64
	states   []producerState // of dirty; those with epoch -1 and no batches are gone
}

// capture takes the published state and the producers that belong to it. ok is false where the shard has no
// segment.
func (sh *Shard) capture() (c captured, ok bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	list := sh.list.Load()
	active := list.active()
	if active == nil || sh.deleted.Load() {
		return c, false
	}
	c.shard, c.version, c.bytes = sh, sh.checkpoint.version.Load(), sh.checkpoint.bytes.Load()
	c.value = checkpointValue{
		// Not the log end: where a power cut took what was below the log start, the segment ends below both.
		segment: active.number, position: active.published.Load(), next: active.next.Load(),
		highWatermark: sh.highWatermark.Load(), epochs: slices.Clone(sh.epochs),
	}
	for _, s := range list.segments {
		if !s.recorded.Load() || s == active {
			c.segments = append(c.segments, s.meta())
			c.of = append(c.of, s)
		}
	}
	c.dropped = sh.producers.dropped
	sh.producers.dropped = nil
	c.captureProducers(sh)
	return c, true
}

// captureProducers copies the changed producers as they were at the published end: appends that are under
// way are left out by their undo copies.
func (c *captured) captureProducers(sh *Shard) {
	t := &sh.producers
	c.dirty, t.dirty = t.dirty, nil
	if len(c.dirty) == 0 {
		return
	}
	before := map[int64]*producerUndo{}
	older := func(p *chunk) {
		if p == nil {
			return
		}
		for i := len(p.entries) - 1; i >= 0; i-- {
			if u := p.entries[i].undo; u >= 0 {
				before[p.undos[u].id] = &p.undos[u]
			}
		}
	}
	older(sh.gather)
	for i := len(sh.pending) - 1; i >= 0; i-- {
		older(sh.pending[i])
	}
	for _, id := range c.dirty {
		state := producerState{id: id, epoch: -1}
		p := t.byID[id]
		if p != nil {
			p.dirty = false
		}
		if u := before[id]; u != nil {
			if u.existed {
				state.epoch, state.seen = u.epoch, u.seen
				state.batches = slices.Clone(u.batches[:u.count])
			}
			// What is under way is in no checkpoint yet.
			if p != nil {
				t.mark(p)
			}
		} else if p != nil {
			state.epoch, state.seen, state.batches = p.epoch, p.seen, slices.Clone(p.batches)
		}
		c.states = append(c.states, state)
	}
}

// giveBack undoes a capture that was not committed.
func (c *captured) giveBack() {
	sh := c.shard
	if sh == nil {
		return
	}
	c.shard = nil
	sh.mu.Lock()
	for _, id := range c.dirty {
		if p := sh.producers.byID[id]; p != nil {
			sh.producers.mark(p)
		} else {
			sh.producers.dropped = append(sh.producers.dropped, id)
		}
	}
	sh.producers.dropped = append(sh.producers.dropped, c.dropped...)
	sh.mu.Unlock()
	sh.noteChanged(0)
}

// checkpointAll makes the shards' published bytes durable and then says so in the index store.
func (k *keeper) checkpointAll(shards []*Shard) error {
	for len(shards) > 0 {
		n := min(len(shards), checkpointBatch)
		if err := k.checkpointSome(shards[:n]); err != nil {
			return err
		}
		shards = shards[n:]
	}
	return nil
}

func (k *keeper) checkpointSome(shards []*Shard) error {
	k.checkpoints.Lock()
	defer k.checkpoints.Unlock()
	var taken []captured
	var group syncGroup
	for _, sh := range shards {
		if c, ok := sh.capture(); ok {
			taken = append(taken, c)
			group.add(sh)
		}
	}
	if len(taken) == 0 {
		return nil
	}
	err := group.sync(k.store)
	if err == nil {
		err = k.commit(taken)
	}
	if err != nil {
		for i := range taken {
			taken[i].giveBack()
		}
	}
	return err
}

// commit writes the checkpoints whose shards have not been truncated or cut since they were taken.
func (k *keeper) commit(taken []captured) error {
	s := k.store
	s.catalogue.Lock()
	defer s.catalogue.Unlock()
	b := s.index.db.NewBatch()
	var key, value []byte
	for i := range taken {
		c := &taken[i]
		sh := c.shard
		if sh.deleted.Load() {
			c.shard = nil
			continue
		}
		if sh.checkpoint.version.Load() != c.version {
			c.giveBack()
			continue
		}
		value = c.value.append(value[:0])
		b.Set(appendShardKey(key[:0], keyCheckpoint, sh.id), value, nil)
		for j := range c.segments {
			value = c.segments[j].append(value[:0])
			b.Set(appendSegmentKey(key[:0], sh.id, c.segments[j].number), value, nil)
		}
		for _, id := range c.dropped {
			b.Delete(appendProducerKey(key[:0], sh.id, id), nil)
		}
		for j := range c.states {
			p := &c.states[j]
			if p.epoch < 0 && len(p.batches) == 0 {
				b.Delete(appendProducerKey(key[:0], sh.id, p.id), nil)
				continue
			}
			value = appendProducerValue(value[:0], p.epoch, p.seen, p.batches)
			b.Set(appendProducerKey(key[:0], sh.id, p.id), value, nil)
		}
	}
	if err := s.index.commit(b, true); err != nil {
		return err
	}
	for i := range taken {
		c := &taken[i]
		if c.shard == nil {
			continue
		}
		c.shard.checkpoint.bytes.Add(-c.bytes)
		if c.shard.fileStale.Swap(false) {
			if err := c.shard.writeShardFile(c.shard.logStart.Load(), false); err != nil {
				s.log.Warn("shard file cannot be written", "shard", c.shard.id.String(), "err", err)
			}
		}
		for j, seg := range c.of {
			if c.segments[j].sealed {
				seg.recorded.Store(true)
			}
		}
		s.metrics.Checkpoints.Add(1)
	}
	return nil
}

// meta describes the segment as it is published.
func (s *segment) meta() segmentMeta {
	return segmentMeta{
		number: s.number, generation: s.generation, sealed: s.sealed.Load(), base: s.base, end: s.next.Load(),
		bytes: s.published.Load(), epoch: s.epoch, created: s.created, maxTimestamp: s.maxTimestamp.Load(),
		maxTimestampBase: s.maxTimestampBase.Load(), lastWritten: s.lastWritten.Load(),
	}
}
