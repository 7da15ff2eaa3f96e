package broker

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"millrace/engine"
	"millrace/engine/model"
)

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// powerSink collects finished appends.
type powerSink struct {
	mu     sync.Mutex
	done   []*engine.Append
	signal chan struct{}
}

func newPowerSink() *powerSink { return &powerSink{signal: make(chan struct{}, 1)} }

// Complete implements engine.Sink.
func (s *powerSink) Complete(done *engine.Append, _ []*engine.Shard) {
	s.mu.Lock()
	for a := done; a != nil; {
		next := a.Next
		a.Next = nil
		s.done = append(s.done, a)
		a = next
	}
	s.mu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// wait returns n finished appends, nil where they do not come.
func (s *powerSink) wait(n int) []*engine.Append {
	deadline := time.After(time.Minute)
	for {
		s.mu.Lock()
		if len(s.done) >= n {
			out := s.done
			s.done = nil
			s.mu.Unlock()
			return out
		}
		s.mu.Unlock()
		select {
		case <-s.signal:
		case <-deadline:
			return nil
		}
	}
}

// powerBatch is an append of values.
type powerBatch struct{ values [][]byte }

// SizeBound implements engine.Encoder.
func (b *powerBatch) SizeBound() int {
	n := 0
	for _, v := range b.values {
		n += len(v)
	}
	return model.SizeBound(len(b.values), n)
}

// EncodeAppend implements engine.Encoder.
func (b *powerBatch) EncodeAppend(builder *model.Builder, base int64) error {
	builder.Header.BaseTimestamp, builder.Header.MaxTimestamp = 1000, 1000
	for i, v := range b.values {
		builder.Add(&model.Record{Offset: base + int64(i), Value: v})
	}
	return nil
}

// append submits a few appends at once and looks at what became of them.
func (h *powerHistory) append() {
	name, topic, p := h.pick()
	if topic == nil {
		return
	}
	l, sh := topic.logs[p], h.shard(topic, p)
	if sh == nil {
		if !h.disk.IsCut() {
			h.fault("%s-%d has no shard", name, p)
		}
		return
	}
	sent := 0
	for range 1 + h.random.IntN(3) {
		b := &powerBatch{}
		for range 1 + h.random.IntN(6) {
			h.tag++
			v := make([]byte, 16+h.random.IntN(600))
			if h.random.IntN(60) == 0 {
				v = make([]byte, 150_000) // more than a block
			}
			binary.BigEndian.PutUint64(v, h.tag)
			copy(v[8:], topic.id[:8])
			b.values = append(b.values, v)
		}
		a := &engine.Append{ExpectedEpoch: -1, User: b}
		a.Header = model.AppendHeader{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1, LastOffset: int64(len(b.values) - 1)}
		if err := sh.Submit(a, b); err != nil {
			if !h.disk.IsCut() {
				h.fault("%s-%d submit: %v", name, p, err)
			}
			continue
		}
		sent++
	}
	if sent == 0 {
		return
	}
	done := h.sink.wait(sent)
	if done == nil {
		h.t.Fatalf("%s-%d: appends do not finish", name, p)
	}
	for _, a := range done {
		h.settle(topic, l, name, p, a)
	}
}

// settle notes what became of an append.
func (h *powerHistory) settle(topic *powerTopic, l *powerLog, name string, p int, a *engine.Append) {
	b := a.User.(*powerBatch)
	if a.Err != nil {
		if !h.disk.IsCut() {
			h.fault("%s-%d append: %v", name, p, a.Err)
		}
		for i, v := range b.values {
			at := a.Header.BaseOffset + int64(i)
			l.maybe[at] = append(l.maybe[at], v)
		}
		return
	}
	if a.BaseOffset != l.end {
		h.fault("%s-%d: append at %d, want %d", name, p, a.BaseOffset, l.end)
	}
	for i, v := range b.values {
		at := a.BaseOffset + int64(i)
		l.values[at] = v
		h.publish(l, name, p, a.Header.LeaderEpoch, at, v)
	}
	l.end = a.LastOffset + 1
	if topic.durable {
		l.durable = l.end
	}
}

func (h *powerHistory) deleteRecords() {
	name, topic, p := h.pick()
	if topic == nil {
		return
	}
	l, sh := topic.logs[p], h.shard(topic, p)
	before := l.start + h.random.Int64N(l.end-l.start+1)
	l.startHigh = max(l.startHigh, before)
	start, err := sh.DeleteRecords(before)
	h.note("delete records of %s-%d below %d: %v", name, p, before, err)
	if err != nil {
		if !h.disk.IsCut() {
			h.fault("%s-%d delete records: %v", name, p, err)
		}
		return
	}
	if start != before {
		h.fault("%s-%d: log start %d, want %d", name, p, start, before)
	}
	l.start, l.startLow = before, before
	for o := range l.values {
		if o < before {
			delete(l.values, o)
		}
	}
}

// read compares a whole partition.
func (h *powerHistory) read() {
	name, topic, p := h.pick()
	if topic == nil || h.disk.IsCut() {
		return
	}
	l, sh := topic.logs[p], h.shard(topic, p)
	values := h.readAll(sh, name, p, l.start)
	for o := l.start; o < l.end && !h.disk.IsCut(); o++ {
		if !bytes.Equal(values[o], l.values[o]) {
			h.fault("%s-%d offset %d reads %x, want %x", name, p, o, head(values[o]), head(l.values[o]))
			return
		}
	}
}

// readAll reads a log from an offset to its end, every checksum verified.
func (h *powerHistory) readAll(sh *engine.Shard, name string, p int, from int64) map[int64][]byte {
	values := map[int64][]byte{}
	var sp engine.Span
	defer sp.Release()
	for next := from; next < sh.State().LogEnd; {
		err := sh.ReadBlocking(&sp, next, 1<<62, 1<<20)
		if err == nil && !sp.Resident() {
			err = sp.Load()
		}
		if err != nil || sp.Len() == 0 {
			if !h.disk.IsCut() {
				h.fault("%s-%d read at %d: %v, %d bytes", name, p, next, err, sp.Len())
			}
			return values
		}
		after, err := spanValues(sh, &sp, values)
		if err != nil || after <= next {
			h.fault("%s-%d read at %d (%s): %v, next %d", name, p, next, sp.Place(), err, after)
			return values
		}
		next = after
	}
	return values
}

// spanValues verifies a span, adds its values and returns the offset after it.
func spanValues(sh *engine.Shard, sp *engine.Span, values map[int64][]byte) (next int64, err error) {
	b, h, inside := sp.Bytes(), sp.Header, sp.AtBlock
	for len(b) > 0 {
		if !inside {
			if err := h.Parse(b, sh.Identity()); err != nil {
				return next, err
			}
			b, inside = b[model.HeaderSize:], h.BlockCount > 0
			next = h.LastOffset + 1
			continue
		}
		var block model.BlockHeader
		if err := block.Verify(b, sh.Identity()); err != nil {
			return next, err
		}
		for rest := b[model.BlockHeaderSize:block.Size()]; len(rest) > 0; {
			var r model.Record
			n, err := model.ParseRecord(rest, &r)
			if err != nil {
				return next, err
			}
			if r.Offset >= sp.Offset {
				values[r.Offset] = bytes.Clone(r.Value)
			}
			next, rest = r.Offset+1, rest[n:]
		}
		b = b[block.Size():]
		if block.Last {
			inside, next = false, h.LastOffset+1
		}
	}
	return next, nil
}
