package engine

import (
	"sync"

	"millrace/perf"
)

// Sizes of the buffers that a shard gathers into. The first fits the append, so that 10,000 shards with a
// small append each cost little; each further one doubles, so that a busy shard is written in large pieces.
const (
	gatherBufferMax = 1 << 20
	chunksKept      = 256
)

// entry is one append in a chunk. A duplicate has no bytes.
type entry struct {
	append       *Append
	at           int64 // the shard's next offset before it
	base, last   int64
	maxTimestamp int64
	records      int32
	length       uint32
	buffer       int32 // which of the chunk's buffers
	position     uint32
	epoch        int32
	undo         int32 // of the producer's state, -1: none
}

// part is what of a chunk goes into one segment.
type part struct {
	segment  *segment
	from, to int   // entries
	position int64 // where it begins
	end      int64 // and ends
	op       int   // index of its write in the round
	handle   *handle
	err      error // why it could not be written
	made     bool  // the segment was made for it
}

// chunk is what gathered in one shard and is written, published and acknowledged together.
type chunk struct {
	shard   *Shard
	buffers []*perf.Buffer
	entries []entry
	undos   []producerUndo
	parts   []part
	bytes   int64
	records int64

	good    int   // entries[:good] are written; the writer's
	err     error // why the others are not
	syncing bool  // counted in the shard's syncing
}

// room returns a buffer with n bytes to spare and its index.
func (c *chunk) room(pool *perf.Pool, n int) (*perf.Buffer, int32) {
	last := len(c.buffers) - 1
	size := n
	if last >= 0 {
		b := c.buffers[last]
		if cap(b.B)-len(b.B) >= n {
			return b, int32(last)
		}
		size = max(n, min(2*cap(b.B), gatherBufferMax))
	}
	b := pool.Get(size)
	c.buffers = append(c.buffers, b)
	return b, int32(last + 1)
}

// bytesOf returns the stored bytes of an entry.
func (c *chunk) bytesOf(e *entry) []byte {
	return c.buffers[e.buffer].B[e.position : e.position+e.length]
}

// nextAfter returns the offset after the last record of a part.
func (c *chunk) nextAfter(p *part) int64 {
	for i := p.to - 1; i >= p.from; i-- {
		if e := &c.entries[i]; e.length != 0 {
			return e.last + 1
		}
	}
	panic("engine: part without an append")
}

// undoSlot returns the next free undo without clearing it.
func (c *chunk) undoSlot() (*producerUndo, int32) {
	n := len(c.undos)
	if n < cap(c.undos) {
		c.undos = c.undos[:n+1]
	} else {
		c.undos = append(c.undos, producerUndo{})
	}
	return &c.undos[n], int32(n)
}

// releaseBuffers gives the bytes back to the pool.
func (c *chunk) releaseBuffers() {
	for i, b := range c.buffers {
		b.Release()
		c.buffers[i] = nil
	}
	c.buffers = c.buffers[:0]
}

// chunkPool keeps chunks for reuse.
type chunkPool struct {
	mu   sync.Mutex
	free []*chunk
}

func (p *chunkPool) get(sh *Shard) *chunk {
	p.mu.Lock()
	var c *chunk
	if n := len(p.free); n > 0 {
		c = p.free[n-1]
		p.free = p.free[:n-1]
	}
	p.mu.Unlock()
	if c == nil {
		c = new(chunk)
	}
	c.shard = sh
	return c
}

// put takes a chunk back whose entries are delivered.
func (p *chunkPool) put(c *chunk) {
	c.releaseBuffers()
	clear(c.entries)
	clear(c.parts)
	// One burst must not hold its memory for ever.
	if cap(c.entries) > 1<<14 || cap(c.undos) > 1<<12 {
		return
	}
	*c = chunk{buffers: c.buffers, entries: c.entries[:0], undos: c.undos[:0], parts: c.parts[:0]}
	p.mu.Lock()
	if len(p.free) < chunksKept {
		p.free = append(p.free, c)
	}
	p.mu.Unlock()
}
