package netio

import "sync"

// budget admits bytes in flight over all connections. It never refuses for good: who does not fit waits in
// line and is resumed on its loop.
//
// Two lines and two limits keep it free of deadlock. Bytes are taken up to soft by whoever reads. What lies
// between soft and hard is kept for frames that have begun to arrive: they are admitted first in, first
// out, each with all that it lacks at once, so that it can finish without asking again; and finishing gives
// its bytes back. Connections with nothing half received wait until soft has room and no begun frame waits.
// A frame longer than the part between soft and hard could wait for ever and is refused when announced.
type budget struct {
	hard, soft   int64
	frameFitsMax int64    // the longest frame that is certain to be admitted some time
	metrics      *Metrics // InflightBytes is the amount in use, ConnectionsWaiting the length of both lines

	mu    sync.Mutex
	begun line // connections that hold a part of a frame
	fresh line // all others
}

// line is a queue of connections, linked through Conn.wait. The budget's mutex guards it.
type line struct{ first, last *Conn }

// waitNode is a connection's place in a line, guarded by the budget's mutex.
type waitNode struct {
	next, previous *Conn
	line           *line
	need           int64 // bytes asked for
	granted        int64 // bytes given and not yet taken over by the loop
}

// unaskedBytesMax bounds what one loop can add beyond the chunk it reserved: the room of a body that lacks
// too little to be read directly.
const unaskedBytesMax = 2 * directBytesMin

func newBudget(bytesMax int64, frameBytesMax, loops int, metrics *Metrics) *budget {
	slack := int64(loops) * unaskedBytesMax
	kept := min(int64(frameBytesMax)+slack, bytesMax-bytesMax/8)
	return &budget{hard: bytesMax, soft: bytesMax - kept, frameFitsMax: kept - slack, metrics: metrics}
}

// canFit tells whether a frame of size bytes can be admitted at all.
func (b *budget) canFit(size int64) bool { return size <= b.frameFitsMax }

// add takes n bytes that are already here, so that there is no choice.
func (b *budget) add(n int64) { b.metrics.InflightBytes.Add(n) }

// reserve takes n bytes below soft, unless somebody waits in line.
func (b *budget) reserve(n int64) bool {
	return b.metrics.ConnectionsWaiting.Load() == 0 && b.take(n, b.soft)
}

// take takes n bytes if the sum stays within limit.
func (b *budget) take(n, limit int64) bool {
	for {
		used := b.metrics.InflightBytes.Load()
		if used+n > limit {
			return false
		}
		if b.metrics.InflightBytes.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// release gives n bytes back and resumes whom that lets in.
func (b *budget) release(n int64) {
	if n == 0 {
		return
	}
	if b.metrics.InflightBytes.Add(-n) < 0 {
		panic("netio: more bytes in flight released than taken")
	}
	if b.metrics.ConnectionsWaiting.Load() > 0 {
		b.mu.Lock()
		b.admit()
		b.mu.Unlock()
	}
}

// queue puts c in line for need bytes. Its loop gets a task when they are granted.
func (b *budget) queue(c *Conn, need int64, begun bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &c.wait
	w.need, w.line = need, &b.fresh
	if begun {
		w.line = &b.begun
	}
	w.line.push(c)
	b.metrics.ConnectionsWaiting.Add(1)
	b.metrics.PausesInflight.Add(1)
	b.admit() // bytes may have been released since the caller looked
}

// admit grants in order what fits.
func (b *budget) admit() {
	for c := b.begun.first; c != nil && b.take(c.wait.need, b.hard); c = b.begun.first {
		b.grant(c)
	}
	if b.begun.first != nil {
		return
	}
	for c := b.fresh.first; c != nil && b.take(c.wait.need, b.soft); c = b.fresh.first {
		b.grant(c)
	}
}

func (b *budget) grant(c *Conn) {
	b.remove(c)
	c.wait.granted = c.wait.need
	c.loop.Post((*grantTask)(c))
}

func (b *budget) remove(c *Conn) {
	c.wait.line.remove(c)
	c.wait.line = nil
	b.metrics.ConnectionsWaiting.Add(-1)
}

// collect hands over what was granted to c; zero when it still waits.
func (b *budget) collect(c *Conn) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := c.wait.granted
	c.wait.granted = 0
	return n
}

// leave takes c out of line and gives back what was granted to it.
func (b *budget) leave(c *Conn) {
	b.mu.Lock()
	if c.wait.line != nil {
		b.remove(c)
		b.admit() // c may have been what held the others up
	}
	n := c.wait.granted
	c.wait.granted = 0
	b.mu.Unlock()
	b.release(n)
}

func (q *line) push(c *Conn) {
	c.wait.previous, c.wait.next = q.last, nil
	if q.last == nil {
		q.first = c
	} else {
		q.last.wait.next = c
	}
	q.last = c
}

func (q *line) remove(c *Conn) {
	w := &c.wait
	if w.previous == nil {
		q.first = w.next
	} else {
		w.previous.wait.next = w.next
	}
	if w.next == nil {
		q.last = w.previous
	} else {
		w.next.wait.previous = w.previous
	}
	w.next, w.previous = nil, nil
}

// grantTask resumes a connection on its loop once the budget has let it in.
type grantTask Conn

// RunOnLoop implements Task.
func (g *grantTask) RunOnLoop(l *Loop) {
	c := (*Conn)(g)
	if c.released {
		return // closing gave the grant back
	}
	n := l.server.budget.collect(c)
	c.waiting = false
	switch {
	case c.asm.gathering():
		c.bodyCharge += n
		c.granted = true
		l.receiving.touch(&c.receiving, c, l.now())
	case c.ending || c.deaf || c.draining || c.stopped():
		l.server.budget.release(n) // it will not read now: let the next one
	default:
		c.readCharge += n
	}
	l.markDirty(c)
}
