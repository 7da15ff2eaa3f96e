package netio

import (
	"time"

	"golang.org/x/sys/unix"

	"millrace/perf"
)

const (
	// chunkBytes is the size of a loop's read buffer, and the most that is kept of what was read from a
	// connection that may not be served at the moment.
	chunkBytes = 64 << 10
	// directBytesMin: a frame that lacks at least this much is read straight into its buffer. Below, a read
	// into the loop's chunk, which brings the following frames along, is cheaper than a second call.
	directBytesMin = 16 << 10
	// exchangesMax bounds the exchanges of one connection that are open or not sent, and so its slots.
	exchangesMax = 1024

	turnBytesMax  = 1 << 20 // read of one connection before others have their turn
	turnFramesMax = 512
	turnSendMax   = 4 << 20
)

// turn is what a connection may still do before others have their turn.
type turn struct{ bytes, frames, send int }

// pump does all that can be done for c now: send, take requests, send again, close. It is the one place
// where a connection moves; every event only sets a flag and comes here.
//
// Back-pressure rests on this: sockets are registered edge-triggered, once, for reading and writing, so
// the poller only reports that bytes came and never reads by itself. A connection that may not be served
// (stopped, or waiting for the budget) is simply not read; its bytes stay in the kernel, whose window
// closes on the peer. Nothing has to be taken off or put back on the poller for it.
func (l *Loop) pump(c *Conn) {
	switch {
	case c.closed:
		return
	case c.lingering:
		l.discard(c)
		return
	}
	t := turn{bytes: turnBytesMax, frames: turnFramesMax, send: turnSendMax}
	c.pumping = true
	for more := true; more && !c.closed; {
		c.advance()
		c.flush(&t)
		more = !c.closed && c.intake(&t)
	}
	c.pumping = false
	c.settle()
}

// settle closes c when nothing can come of it any more.
func (c *Conn) settle() {
	switch {
	case c.closed, c.lingering:
	case c.ending:
		if c.sending.first == nil {
			c.loop.part(c, c.closeCause)
		}
	case c.ready: // has another turn first
	case c.draining && c.exchanges == 0:
		c.loop.part(c, CauseStop)
	case c.eof && c.exchanges == 0 && c.stash == nil:
		c.loop.close(c, CausePeer)
	case c.broken:
		c.loop.close(c, CauseIO)
	case c.eof && c.stash == nil && !c.halfClosed:
		c.halfClosed = true
		c.loop.server.options.Handler.OnHalfClose(c)
	}
}

// intake takes requests: from the stash, or by one read. It returns whether to go on.
func (c *Conn) intake(t *turn) bool {
	if c.ending || c.deaf || c.draining || c.stopped() {
		return false
	}
	canRead := c.readable && !c.eof && !c.waiting
	if c.stash == nil && !canRead {
		return false
	}
	if t.bytes <= 0 || t.frames <= 0 {
		c.loop.markReady(c)
		return false
	}
	if c.stash != nil {
		c.feedStash(t)
		return true
	}
	if c.asm.gathering() && (c.granted || c.asm.missing() >= directBytesMin) {
		return c.widen() && c.readDirect(t)
	}
	return c.admitted() && c.readChunk(t)
}

// admitted tells whether the budget lets c read a chunk; if not, c is in line.
func (c *Conn) admitted() bool {
	if c.readCharge > 0 {
		return true
	}
	if c.loop.server.budget.reserve(chunkBytes) {
		c.readCharge = chunkBytes
		return true
	}
	if c.asm.gathering() {
		c.waitFor(int64(c.asm.size)-c.bodyCharge, true)
	} else {
		c.waitFor(chunkBytes, false)
	}
	return false
}

func (c *Conn) waitFor(n int64, begun bool) {
	c.waiting = true
	c.loop.server.budget.queue(c, n, begun)
}

// widen makes room for the frame in asm; if the budget does not allow that now, c is in line.
func (c *Conn) widen() bool {
	if len(c.asm.tail()) > 0 {
		return true
	}
	room := c.asm.step()
	if more := int64(room) - c.bodyCharge; more > 0 {
		if !c.loop.server.budget.reserve(more) {
			c.waitFor(int64(c.asm.size)-c.bodyCharge, true)
			return false
		}
		c.bodyCharge += more
	}
	c.asm.widen(c.loop.server.options.Pool, room)
	return true
}

// readDirect reads into the buffer of the frame being gathered, and nothing beyond it.
func (c *Conn) readDirect(t *turn) bool {
	tail := c.asm.tail()
	n, ok := c.read(tail[:min(len(tail), max(t.bytes, chunkBytes))])
	if !ok {
		return false
	}
	t.bytes -= n
	l := c.loop
	if !c.granted {
		l.receiving.touch(&c.receiving, c, l.stamp())
	}
	if frame, owned := c.asm.filled(n); owned != nil {
		c.deliver(frame, owned, t)
	}
	return true
}

// readChunk reads into the loop's chunk and takes the frames out of it.
func (c *Conn) readChunk(t *turn) bool {
	l := c.loop
	n, ok := c.read(l.chunk)
	if ok {
		t.bytes -= n
		l.stamp()
		rest := c.feed(l.chunk[:n], t)
		if len(rest) > 0 && !c.ending && !c.deaf {
			c.stash = l.server.options.Pool.Get(len(rest))
			c.stash.B = append(c.stash.B, rest...)
			c.stashOffset = 0
			c.stashCharge = int64(len(rest))
			c.charge(c.stashCharge)
		}
	}
	l.server.budget.release(c.readCharge)
	c.readCharge = 0
	return ok
}

// charge counts n bytes that were read, first against what was reserved for the read.
func (c *Conn) charge(n int64) {
	reserved := min(n, c.readCharge)
	c.readCharge -= reserved
	if n > reserved {
		c.loop.server.budget.add(n - reserved)
	}
}

// read fills p from the socket. When there is nothing to be had it notes why and returns false.
func (c *Conn) read(p []byte) (int, bool) {
	for {
		n, err := unix.Read(c.fd, p)
		switch {
		case n > 0:
			c.loop.server.metrics.BytesIn.Add(int64(n))
			// A short read has drained the socket: what comes later brings another edge. A FIN that
			// came with it was reported with the edge and is left to be read.
			if n < len(p) && !c.finSeen {
				c.readable = false
			}
			return n, true
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			c.readable = false
		case err == nil:
			c.readable, c.eof = false, true
		default:
			c.loop.close(c, CauseIO)
		}
		return 0, false
	}
}

func (c *Conn) feedStash(t *turn) {
	chunk := c.stash.B[c.stashOffset:]
	rest := c.feed(chunk, t)
	if c.stash == nil {
		return // closed meanwhile
	}
	c.stashOffset += len(chunk) - len(rest)
	if len(rest) == 0 || c.ending || c.deaf {
		c.dropStash()
	}
}

func (c *Conn) dropStash() {
	c.stash.Release()
	c.stash = nil
	c.loop.server.budget.release(c.stashCharge)
	c.stashCharge = 0
}

// feed takes frames out of chunk until it is used up, the connection has to stop, or its turn is over. It
// returns what is left.
func (c *Conn) feed(chunk []byte, t *turn) []byte {
	l := c.loop
	for len(chunk) > 0 && t.frames > 0 {
		frame, owned, rest, fault := c.asm.next(l.server.options.Pool, chunk, l.checkSize)
		if fault != 0 {
			c.fault(fault)
			return nil
		}
		chunk = rest
		if frame == nil {
			break
		}
		c.deliver(frame, owned, t)
		if c.ending || c.deaf || c.stopped() {
			return chunk
		}
	}
	if c.asm.headLength > 0 && c.frameBegan.IsZero() {
		c.frameBegan = l.time
	}
	if c.asm.gathering() {
		if more := int64(c.asm.room) - c.bodyCharge; more > 0 {
			c.charge(more)
			c.bodyCharge += more
		}
		if !c.granted {
			l.receiving.touch(&c.receiving, c, l.time)
		}
	}
	return chunk
}

// fault closes c for what its peer sent. Answers to earlier requests that are finished go out first.
func (c *Conn) fault(cause Cause) {
	c.advance()
	c.end(cause, cause.String())
}

// deliver hands one frame to the handler.
func (c *Conn) deliver(frame []byte, owned *perf.Buffer, t *turn) {
	l, began := c.loop, c.frameBegan
	t.frames--
	x := l.newExchange(c)
	x.Frame, x.owned, x.Received = frame, owned, l.stamped()
	x.Began, c.frameBegan = x.Received, time.Time{}
	if !began.IsZero() {
		x.Began = began
	}
	x.charge = int64(len(frame))
	if owned != nil {
		c.charge(x.charge - c.bodyCharge)
		c.bodyCharge, c.granted = 0, false
		l.receiving.remove(&c.receiving)
	} else {
		c.charge(x.charge)
	}
	l.server.metrics.FramesIn.Add(1)
	c.open.push(x)
	c.exchanges++
	l.idle.touch(&c.idle, c, x.Received)
	x.fresh = true
	l.server.options.Handler.OnFrame(x)
	x.fresh = false
	if x.status != exchangeOpen || !x.kept {
		x.dropFrame()
	}
}

// checkSize judges an announced length.
func (s *Server) checkSize(size int32) Cause {
	switch {
	case size <= 0:
		return CauseFrameInvalid
	case int(size) > s.options.FrameBytesMax:
		return CauseFrameTooLarge
	case !s.budget.canFit(int64(size)):
		return CauseFrameNeverFit
	}
	return 0
}

// now is the current time, for rare events; stamp reads it for the chunk at hand, stamped returns that.
func (l *Loop) now() time.Time { return time.Now() }

func (l *Loop) stamp() time.Time {
	l.time = time.Now()
	return l.time
}

func (l *Loop) stamped() time.Time { return l.time }
