package netio

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lingerTimeout is how long a connection whose last answers are on their way may take to go.
	lingerTimeout = 2 * time.Second
	lingerPoll    = 10 * time.Millisecond // how often it is asked whether they have arrived
)

// part closes c without hurting answers that are still on their way. Closing a socket while bytes of the
// peer are unread, or come later, makes the kernel send a reset and forget what it has not delivered. So
// while the peer has not acknowledged everything, only our direction is shut, and what the peer sends is
// thrown away until it closes too.
func (l *Loop) part(c *Conn, cause Cause) {
	if c.broken || c.eof || c.delivered() {
		l.close(c, cause)
		return
	}
	_ = unix.Shutdown(c.fd, unix.SHUT_WR)
	c.ending, c.lingering, c.closeCause = true, true, cause
	c.letGo()
	l.lingering.touch(&c.slow, c, l.now())
	l.timer.sweepBy(lingerPoll)
	l.discard(c)
}

// delivered tells whether the peer has acknowledged all that was sent.
func (c *Conn) delivered() bool {
	n, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
	return err != nil || n == 0
}

func (l *Loop) sweepLingering(now time.Time) {
	for n := l.lingering.first; n != nil; {
		c := n.conn
		n = n.next
		if now.Sub(c.slow.at) >= lingerTimeout || c.delivered() {
			l.close(c, c.closeCause)
		}
	}
}

// discard reads what the peer of a lingering connection sends, up to its end.
func (l *Loop) discard(c *Conn) {
	for left := turnBytesMax; c.readable && !c.closed; {
		if left <= 0 {
			l.markReady(c)
			return
		}
		n, _ := c.read(l.chunk)
		left -= n
	}
	if !c.closed && (c.eof || c.broken) {
		l.close(c, c.closeCause)
	}
}

// close ends c now: what was not sent is lost, and the exchanges still open are let go of.
func (l *Loop) close(c *Conn, cause Cause) {
	if c.closed {
		return
	}
	c.closed = true
	l.conns[c.fd] = nil
	l.count--
	if c.lingering {
		l.lingering.remove(&c.slow)
	}
	c.letGo()
	l.server.left(c, cause)
	// Closing also takes the descriptor off the poller: no copy of it exists.
	_ = unix.Close(c.fd)
	l.server.options.Handler.OnClose(c)
}

// reset closes c so that the peer gets a reset and the kernel keeps none of the unsent bytes.
func (l *Loop) reset(c *Conn, cause Cause) {
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	l.close(c, cause)
}

// letGo gives back all that c holds. Exchanges still open belong to the handler alone from here on.
func (c *Conn) letGo() {
	if c.released {
		return
	}
	c.released = true
	l := c.loop
	l.idle.remove(&c.idle)
	l.slow.remove(&c.slow)
	l.receiving.remove(&c.receiving)
	l.server.budget.leave(c)
	l.server.budget.release(c.bodyCharge + c.readCharge)
	c.bodyCharge, c.readCharge, c.waiting = 0, 0, false
	c.asm.reset()
	if c.stash != nil {
		c.dropStash()
	}
	for c.sending.first != nil {
		x := c.sending.pop()
		x.Tell = true
		l.freeExchange(x)
	}
	for c.open.first != nil {
		if x := c.open.pop(); x.status != exchangeOpen {
			x.Tell = x.Tell || x.status == exchangeReplied
			l.freeExchange(x)
		}
	}
	c.loop.server.metrics.OutboundBytes.Add(-c.outboundBytes)
	c.exchanges, c.outboundBytes = 0, 0
}
