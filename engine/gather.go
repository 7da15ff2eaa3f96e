package engine

import (
	"fmt"

	"millrace/engine/model"
)

// Submit gathers an append. It runs on event loops: it encodes under the shard's lock and never waits for
// the disk. When it returns nil the append belongs to the shard until its Sink gets it; a repetition of one
// of the producer's last five batches completes that way too, with the offsets that it was given first. An
// error means that nothing was gathered: ErrFencedEpoch, ErrUnknownEpoch, ErrStorage, ErrShardDeleted,
// ErrClosed, ErrBackpressure, ErrOutOfOrderSequence, ErrInvalidProducerEpoch, or the encoder's own.
func (sh *Shard) Submit(a *Append, e Encoder) error {
	if err := sh.store.refusal(); err != nil {
		return err
	}
	sh.mu.Lock()
	err := sh.gatherLocked(a, e)
	wake := err == nil && !sh.queued
	if wake {
		sh.queued = true
	}
	sh.mu.Unlock()
	if wake {
		sh.writer.enqueue(sh)
	}
	return err
}

func (sh *Shard) gatherLocked(a *Append, e Encoder) error {
	if err := sh.unusable(); err != nil {
		return err
	}
	if sh.exclusive {
		return ErrBackpressure
	}
	if sh.store.closing.Load() {
		return ErrClosed // after this look under the lock Close finds what was gathered
	}
	epoch := sh.leaderEpoch.Load()
	if a.ExpectedEpoch >= 0 && a.ExpectedEpoch != epoch {
		if a.ExpectedEpoch < epoch {
			return ErrFencedEpoch
		}
		return ErrUnknownEpoch
	}
	a.Next, a.Err, a.Duplicate = nil, nil, false
	h := &a.Header
	if h.ProducerID >= 0 && h.BaseSequence >= 0 {
		repeated, err := sh.producers.check(h)
		if err != nil {
			return err
		}
		if repeated != nil {
			sh.gatherDuplicateLocked(a, repeated)
			return nil
		}
	}
	return sh.encodeLocked(a, e, epoch)
}

// encodeLocked encodes the append straight into the gathered chunk.
func (sh *Shard) encodeLocked(a *Append, e Encoder, epoch int32) error {
	c := sh.chunkLocked()
	buffer, index := c.room(sh.store.pool, e.SizeBound())
	start := len(buffer.B)
	h := &a.Header
	h.LeaderEpoch = epoch
	if h.Kind == 0 {
		h.Kind = model.KindData
	}
	sh.builder.Begin(buffer.B, sh.identity, h, sh.next)
	if err := e.EncodeAppend(&sh.builder, sh.next); err != nil {
		sh.dropEmptyLocked(c)
		return err
	}
	buffer.B = sh.builder.Finish(h)
	if h.BaseOffset != sh.next || h.LastOffset < h.BaseOffset {
		panic(fmt.Sprintf("engine: append encoded for offsets %d to %d at %d", h.BaseOffset, h.LastOffset, sh.next))
	}
	n := entry{
		append: a, at: sh.next, base: h.BaseOffset, last: h.LastOffset, maxTimestamp: h.MaxTimestamp,
		records: int32(h.RecordCount), length: h.Length, buffer: index, position: uint32(start), epoch: epoch, undo: -1,
	}
	if h.ProducerID >= 0 {
		var undo *producerUndo
		undo, n.undo = c.undoSlot()
		sh.producers.apply(h, sh.store.nowMillis(), undo)
	}
	a.BaseOffset, a.LastOffset, a.MaxTimestamp = h.BaseOffset, h.LastOffset, h.MaxTimestamp
	sh.next = h.LastOffset + 1
	c.entries = append(c.entries, n)
	c.bytes += int64(n.length)
	c.records += int64(n.records)
	sh.store.metrics.GatheredBytes.Add(int64(n.length))
	return nil
}

// gatherDuplicateLocked puts a repeated batch behind what it repeats: it completes only when that is
// published too, and fails with it.
func (sh *Shard) gatherDuplicateLocked(a *Append, b *producerBatch) {
	a.Duplicate = true
	a.BaseOffset, a.LastOffset, a.MaxTimestamp = b.baseOffset, b.lastOffset, b.maxTimestamp
	c := sh.chunkLocked()
	c.entries = append(c.entries, entry{append: a, at: sh.next, base: b.baseOffset, last: b.lastOffset, undo: -1})
	sh.store.metrics.DuplicateAppends.Add(1)
}

func (sh *Shard) chunkLocked() *chunk {
	if sh.gather == nil {
		sh.gather = sh.store.chunks.get(sh)
	}
	return sh.gather
}

func (sh *Shard) dropEmptyLocked(c *chunk) {
	if len(c.entries) == 0 {
		sh.gather = nil
		sh.store.chunks.put(c)
	}
}

// take moves the gathered chunk to the pending ones; nil where nothing gathered. The writer calls it.
func (sh *Shard) take() (c *chunk, rolls []chan struct{}) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.queued = false
	c, rolls = sh.gather, sh.rollAsked
	sh.gather, sh.rollAsked = nil, nil
	if c != nil {
		sh.pending = append(sh.pending, c)
	}
	sh.rolling = len(rolls) > 0
	sh.signalLocked()
	return c, rolls
}

// revertLocked takes back what the entries from index from on changed.
func (sh *Shard) revertLocked(c *chunk, from int) {
	for i := len(c.entries) - 1; i >= from; i-- {
		e := &c.entries[i]
		if e.undo >= 0 {
			sh.producers.revert(&c.undos[e.undo])
		}
		sh.next = e.at
	}
}

// finishLocked removes a chunk from the pending ones.
func (sh *Shard) finishLocked(c *chunk) {
	for i, p := range sh.pending {
		if p == c {
			copy(sh.pending[i:], sh.pending[i+1:])
			sh.pending[len(sh.pending)-1] = nil
			sh.pending = sh.pending[:len(sh.pending)-1]
			break
		}
	}
	if c.syncing {
		sh.syncing--
	}
	sh.signalLocked()
}

// signalLocked wakes who waits for the shard to have nothing under way.
func (sh *Shard) signalLocked() {
	if !sh.busyLocked() {
		sh.idle.Broadcast()
	}
}

// busyLocked tells whether the writer has, or will have, something to do with the shard.
func (sh *Shard) busyLocked() bool {
	return len(sh.pending) > 0 || sh.gather != nil || sh.queued || sh.rolling
}
