package engine

import (
	"fmt"
	"math"
	"sync"
	"time"

	"millrace/diskio"
)

// tailGuard is the number of zero bytes written behind an append while a failed write may have left bytes
// there, so that what was refused can never be taken for an append after a crash.
const tailGuard = 128

var zeros [tailGuard]byte

// writer is the goroutine that writes what gathered in its shards, one round after the other.
type writer struct {
	store   *Store
	deliver deliverer
	wake    chan struct{}
	stop    chan struct{}

	mu    sync.Mutex
	queue []*Shard

	spare  []*Shard
	chunks []*chunk
	ops    []diskio.WriteOp
	bufs   [][]byte
}

func newWriter(s *Store) *writer {
	return &writer{store: s, deliver: deliverer{store: s}, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// enqueue tells the writer that something gathered in a shard. It does not block.
func (w *writer) enqueue(sh *Shard) {
	w.mu.Lock()
	w.queue = append(w.queue, sh)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // a wake is pending: the round it starts takes this shard too
	}
}

func (w *writer) run() {
	for {
		select {
		case <-w.wake:
			for w.round() {
			}
		case <-w.stop:
			for w.round() {
			}
			return
		}
	}
}

// round writes what has gathered. It returns false when there was nothing.
func (w *writer) round() bool {
	w.mu.Lock()
	shards := w.queue
	w.queue = w.spare[:0]
	w.mu.Unlock()
	w.spare = shards
	if len(shards) == 0 {
		return false
	}
	now := w.store.nowMillis()
	refusal := w.store.Failed()
	if refusal == nil {
		refusal = w.store.markUnclean()
	}
	for _, sh := range shards {
		c, rolls := sh.take()
		if len(rolls) > 0 {
			w.rollAsked(sh, rolls, now, refusal == nil)
		}
		if refusal != nil {
			if c != nil {
				w.deliver.fail(c, 0, refusal)
			}
			continue
		}
		if c != nil {
			w.plan(c, now)
			w.chunks = append(w.chunks, c)
			if len(w.ops) >= w.store.handles.roundMax() {
				w.carryOut(now)
			}
		}
	}
	w.carryOut(now)
	clear(shards)
	return true
}

// carryOut writes what is planned and tells what became of it.
func (w *writer) carryOut(now int64) {
	w.write()
	for _, c := range w.chunks {
		w.settle(c, now)
	}
	w.deliver.flush()
	clear(w.chunks)
	clear(w.ops)
	clear(w.bufs)
	w.chunks, w.ops, w.bufs = w.chunks[:0], w.ops[:0], w.bufs[:0]
}

// write submits the round's writes at once.
func (w *writer) write() {
	if len(w.ops) == 0 {
		return
	}
	metrics := w.store.metrics
	bytes := int64(0)
	for _, c := range w.chunks {
		bytes += c.bytes
	}
	start := time.Now()
	w.store.fs.Write(w.ops)
	metrics.WriteDuration.observeSince(start)
	metrics.WriteBatches.Add(1)
	metrics.Writes.Add(int64(len(w.ops)))
	metrics.WriteBatchBytes.Observe(bytes)
	w.store.space.wrote(bytes)
}

// plan decides which segments a chunk goes to, making new ones where it must, and adds its writes to the
// round. Entries that cannot be placed are left out: c.good and c.err tell.
func (w *writer) plan(c *chunk, now int64) {
	sh := c.shard
	c.good, c.err = len(c.entries), nil
	for i := range c.entries {
		e := &c.entries[i]
		if e.length == 0 {
			continue
		}
		made := false
		if sh.rollDue(int64(e.length), now) {
			if err := sh.roll(e.base, now); err != nil {
				c.good, c.err = i, err
				break
			}
			made = true
		}
		s := sh.active
		n := len(c.parts)
		if made || n == 0 {
			if n > 0 {
				c.parts[n-1].to = i
			}
			c.parts = append(c.parts, part{segment: s, from: i, position: s.tail, op: -1, made: made})
			n++
		}
		s.tail += int64(e.length)
		c.parts[n-1].end = s.tail
	}
	if n := len(c.parts); n > 0 {
		c.parts[0].from = 0 // duplicates before the first append go with it
		c.parts[n-1].to = c.good
	}
	for i := range c.parts {
		w.addOp(c, &c.parts[i])
	}
}

// addOp adds the write of a part: what of its entries stands together in a buffer is one piece.
func (w *writer) addOp(c *chunk, p *part) {
	if p.handle, p.err = w.store.handles.openToWrite(p.segment); p.err != nil {
		return
	}
	first := len(w.bufs)
	buffer, start, end := int32(-1), uint32(0), uint32(0)
	for i := p.from; i < p.to; i++ {
		e := &c.entries[i]
		if e.length == 0 {
			continue
		}
		if e.buffer != buffer {
			if buffer >= 0 {
				w.bufs = append(w.bufs, c.buffers[buffer].B[start:end])
			}
			buffer, start = e.buffer, e.position
		}
		end = e.position + e.length
	}
	w.bufs = append(w.bufs, c.buffers[buffer].B[start:end])
	if guard := min(p.segment.staleEnd-p.end, tailGuard); guard > 0 {
		w.bufs = append(w.bufs, zeros[:guard])
	}
	p.op = len(w.ops)
	w.ops = append(w.ops, diskio.WriteOp{
		File: p.handle.file, Pos: p.position, Bufs: w.bufs[first:len(w.bufs):len(w.bufs)],
	})
}

// settle looks at what became of a chunk's writes and publishes it, hands it to the syncer, or fails it.
// Parts behind a failed one are undone: nothing may follow a hole.
func (w *writer) settle(c *chunk, now int64) {
	sh := c.shard
	written := len(c.parts)
	for i := range c.parts {
		p := &c.parts[i]
		if p.handle != nil {
			p.handle.release()
			if p.err = w.ops[p.op].Err; p.err != nil {
				w.store.metrics.WriteErrors.Add(1)
				p.segment.staleEnd = max(p.segment.staleEnd, p.end)
			}
		}
		if p.err != nil && written == len(c.parts) {
			written = i
			c.good = p.from
			c.err = fmt.Errorf("append to %s at %d: %w: %w", p.segment.path, p.position, ErrStorage, p.err)
		}
	}
	for i := len(c.parts) - 1; i >= written; i-- {
		w.undoPart(sh, &c.parts[i], i > written)
	}
	parts := c.parts
	c.parts = parts[:written]
	for i := range c.parts {
		p := &c.parts[i]
		sh.noteWritten(p.segment, p.end, c.nextAfter(p), now)
	}
	w.store.handles.unpin(parts)
	if c.good < len(c.entries) {
		w.store.warnAppend(sh, c.err)
		good := c.good
		w.deliver.fail(c, good, c.err)
		if good == 0 {
			return
		}
	}
	w.finish(c)
}

// undoPart takes back where a part that is not written was to go. A segment that was made for a part behind
// it has a base offset that will not come and is removed.
func (w *writer) undoPart(sh *Shard, p *part, remove bool) {
	p.segment.tail = p.position
	if !remove || !p.made {
		return
	}
	sh.unroll(p.segment)
}

// finish publishes a written chunk, or hands it to the syncer where it has to be durable first or stands
// behind one that has.
func (w *writer) finish(c *chunk) {
	sh := c.shard
	config := sh.config.Load()
	sh.unflushed += c.records
	flush := sh.unflushed >= config.FlushMessages
	sh.mu.Lock()
	wait := flush || sh.syncing > 0
	if wait {
		sh.syncing++
		c.syncing = true
	}
	sh.mu.Unlock()
	if wait {
		sh.unflushed = 0
		w.store.syncer.enqueue(c)
		return
	}
	if config.FlushInterval != math.MaxInt64 && c.records > 0 {
		w.store.flusher.note(sh, config.FlushInterval)
	}
	w.deliver.publish(c)
}
