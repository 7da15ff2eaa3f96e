package engine

import (
	"fmt"
	"math"

	"millrace/engine/model"
)

// producerBatchesMax is how many of a producer's last batches are known again when they are sent again; it
// is the number of requests that an idempotent client may have in flight.
const producerBatchesMax = 5

// producerBatch is one append of a producer.
type producerBatch struct {
	baseSequence, lastSequence int32
	baseOffset, lastOffset     int64
	maxTimestamp               int64
}

// producerState is what a shard knows of a producer. States form a list from the longest silent to the
// latest.
type producerState struct {
	id         int64
	epoch      int16
	dirty      bool  // changed since the last checkpoint
	seen       int64 // when it last wrote, milliseconds
	batches    []producerBatch
	prev, next *producerState
}

// producerUndo restores a producer to what it was before an append.
type producerUndo struct {
	id      int64
	existed bool
	epoch   int16
	count   int8
	seen    int64
	batches [producerBatchesMax]producerBatch
}

// producerTable holds a shard's producers. It is pure and is guarded by its owner.
type producerTable struct {
	byID       map[int64]*producerState
	head, tail *producerState
	dirty      []int64 // changed since the last checkpoint
	dropped    []int64 // forgotten since then
	max        int
	evicted    int64
}

// check decides about an append before it is written (rules of Kafka's ProducerAppendInfo). It returns the
// batch that the append repeats, or an error: ErrInvalidProducerEpoch, ErrOutOfOrderSequence.
func (t *producerTable) check(h *model.AppendHeader) (*producerBatch, error) {
	p := t.byID[h.ProducerID]
	if p == nil {
		return nil, nil // also one that has expired may go on, with any sequence
	}
	if h.ProducerEpoch < p.epoch {
		return nil, fmt.Errorf("%w: producer %d epoch %d, newest %d", ErrInvalidProducerEpoch,
			h.ProducerID, h.ProducerEpoch, p.epoch)
	}
	if h.ProducerEpoch > p.epoch {
		if h.BaseSequence != 0 {
			return nil, fmt.Errorf("%w: producer %d begins epoch %d with sequence %d", ErrOutOfOrderSequence,
				h.ProducerID, h.ProducerEpoch, h.BaseSequence)
		}
		return nil, nil
	}
	if len(p.batches) == 0 {
		return nil, nil
	}
	for i := range p.batches {
		if b := &p.batches[i]; b.baseSequence == h.BaseSequence && b.lastSequence == h.LastSequence {
			return b, nil
		}
	}
	last := p.batches[len(p.batches)-1].lastSequence
	if h.BaseSequence != nextSequence(last, 1) {
		return nil, fmt.Errorf("%w: producer %d epoch %d sends sequence %d after %d", ErrOutOfOrderSequence,
			h.ProducerID, h.ProducerEpoch, h.BaseSequence, last)
	}
	return nil, nil
}

// nextSequence adds n to a sequence; 0 follows 2^31-1.
func nextSequence(sequence, n int32) int32 { return int32(uint32(sequence+n) & math.MaxInt32) }

// apply notes an append that is being written, and says in undo how to take it back.
func (t *producerTable) apply(h *model.AppendHeader, now int64, undo *producerUndo) {
	p := t.byID[h.ProducerID]
	if undo != nil {
		undo.id, undo.existed = h.ProducerID, p != nil
		if p != nil {
			undo.epoch, undo.seen = p.epoch, p.seen
			undo.count = int8(copy(undo.batches[:], p.batches))
		}
	}
	if p == nil {
		p = t.add(h.ProducerID)
	} else {
		t.unlink(p)
		t.link(p)
	}
	if p.epoch != h.ProducerEpoch {
		p.epoch = h.ProducerEpoch
		p.batches = p.batches[:0]
	}
	p.seen = now
	t.mark(p)
	if h.Kind == model.KindControl || h.BaseSequence < 0 {
		return
	}
	p.push(producerBatch{h.BaseSequence, h.LastSequence, h.BaseOffset, h.LastOffset, h.MaxTimestamp})
}

// push adds the latest batch. Most producers of a crowd write one batch only, so that room for five is made
// with the second.
func (p *producerState) push(b producerBatch) {
	switch n := len(p.batches); {
	case n == producerBatchesMax:
		copy(p.batches, p.batches[1:])
		p.batches[n-1] = b
		return
	case n == cap(p.batches) && n > 0:
		grown := make([]producerBatch, n, producerBatchesMax)
		copy(grown, p.batches)
		p.batches = grown
	case n == cap(p.batches):
		p.batches = make([]producerBatch, 0, 1)
	}
	p.batches = append(p.batches, b)
}

// revert takes an append back. Appends are reverted in the reverse order of apply.
func (t *producerTable) revert(u *producerUndo) {
	p := t.byID[u.id]
	if !u.existed {
		if p != nil {
			t.drop(p)
		}
		return
	}
	if p == nil {
		p = t.add(u.id)
	}
	p.epoch, p.seen = u.epoch, u.seen
	p.batches = append(p.batches[:0], u.batches[:u.count]...)
	t.mark(p)
}

// truncate forgets the batches at and above an offset, and producers of which nothing is left.
func (t *producerTable) truncate(offset int64) {
	for p := t.head; p != nil; {
		next := p.next
		n := len(p.batches)
		for len(p.batches) > 0 && p.batches[len(p.batches)-1].lastOffset >= offset {
			p.batches = p.batches[:len(p.batches)-1]
		}
		if len(p.batches) == 0 && n > 0 {
			t.drop(p)
		} else if len(p.batches) != n {
			t.mark(p)
		}
		p = next
	}
}

// expire forgets producers that have been silent since before the given time.
func (t *producerTable) expire(before int64) {
	for t.head != nil && t.head.seen < before {
		t.drop(t.head)
	}
}

// restore puts a producer from a checkpoint into the table. It returns nil where the table knows it.
func (t *producerTable) restore(id int64) *producerState {
	if t.byID[id] != nil {
		return nil
	}
	return t.add(id)
}

func (t *producerTable) add(id int64) *producerState {
	if t.byID == nil {
		t.byID = make(map[int64]*producerState)
	}
	if t.max > 0 && len(t.byID) >= t.max {
		t.drop(t.head)
		t.evicted++
	}
	p := &producerState{id: id, epoch: -1}
	t.byID[id] = p
	t.link(p)
	return p
}

func (t *producerTable) drop(p *producerState) {
	t.unlink(p)
	delete(t.byID, p.id)
	t.dropped = append(t.dropped, p.id)
}

func (t *producerTable) mark(p *producerState) {
	if !p.dirty {
		p.dirty = true
		t.dirty = append(t.dirty, p.id)
	}
}

func (t *producerTable) link(p *producerState) {
	p.prev, p.next = t.tail, nil
	if t.tail != nil {
		t.tail.next = p
	} else {
		t.head = p
	}
	t.tail = p
}

func (t *producerTable) unlink(p *producerState) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		t.head = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		t.tail = p.prev
	}
	p.prev, p.next = nil, nil
}
