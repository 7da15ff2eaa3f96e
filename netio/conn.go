package netio

import (
	"net/netip"
	"time"

	"millrace/perf"
)

// Conn is one connection. Its methods, and State, may only be used on its loop. It stays usable after
// OnClose, for the exchanges that are finished later.
type Conn struct {
	// State belongs to the handler.
	State any

	loop       *Loop
	id         uint64
	fd         int
	address    netip.AddrPort
	listener   string
	remote     string // address as text, made when first asked for
	closeCause Cause

	// Inbound. Bytes wait in three places: the kernel, stash (read, not looked at) and asm (part of a frame).
	asm         assembler
	stash       *perf.Buffer
	stashOffset int
	bodyCharge  int64 // bytes in flight for asm
	stashCharge int64
	readCharge  int64 // granted for the next read

	// Outbound: exchanges in the order of their requests, first those whose replies are being sent, then
	// those from the first unfinished one on.
	sending       queue
	sentBytes     int // of the first in sending
	open          queue
	exchanges     int // in both
	outboundBytes int64

	frameBegan time.Time // when the first bytes of the frame in asm were read; zero: there are none
	lagging    bool      // the last flush left something in sending

	idle, slow, receiving ageNode
	wait                  waitNode

	readable   bool // edge seen, EAGAIN not yet
	writable   bool
	finSeen    bool // the poller reported a FIN, perhaps behind bytes not read yet
	eof        bool // read up to the FIN
	halfClosed bool // and the handler was told
	broken     bool // both directions are gone
	deaf       bool // an exchange closes the connection: no more requests
	draining   bool // the server stops: no more requests
	ending     bool // closes when sending is empty
	closed     bool
	released   bool // holds nothing any more; its open exchanges stand alone
	lingering  bool // shut for sending, discards until the peer closes
	waiting    bool // in the budget's line
	granted    bool // the frame in asm was admitted over soft and must arrive within SlowTimeout
	dirty      bool // in loop.dirty
	ready      bool // in loop.ready
	pumping    bool
	paused     pause
}

// pause is why a connection is not read.
type pause uint8

const (
	pauseNone pause = iota
	pauseOutbound
	pauseExchanges
)

// Loop returns the loop that the connection lives on.
func (c *Conn) Loop() *Loop { return c.loop }

// ID is unique in the life of the server.
func (c *Conn) ID() uint64 { return c.id }

// Listener returns the name of the listener that accepted the connection.
func (c *Conn) Listener() string { return c.listener }

// RemoteAddress returns the peer's address as host:port.
func (c *Conn) RemoteAddress() string {
	if c.remote == "" {
		c.remote = c.address.String()
	}
	return c.remote
}

// Closed tells whether the connection is closed or about to be: replies given from now on are not sent.
func (c *Conn) Closed() bool { return c.closed || c.ending }

// ServerOutboundBytes returns the bytes of replies of all connections that wait for their turn or for their
// peers. Whoever makes large replies keeps them small while this is large.
func (c *Conn) ServerOutboundBytes() int64 { return c.loop.server.metrics.OutboundBytes.Load() }

// OutboundBytes returns the bytes of replies that wait for their turn or for the peer. A handler that
// answers late may look at it before it makes another large reply.
func (c *Conn) OutboundBytes() int64 { return c.outboundBytes }

// Close sends the replies finished so far that precede the first open exchange, then closes. It returns at
// once; OnClose follows after the handler has returned. The reason is logged.
func (c *Conn) Close(reason string) {
	if c.closed || c.ending {
		return
	}
	c.advance()
	c.end(CauseHandler, reason)
	c.loop.markDirty(c)
}

// end makes the connection close once its finished replies are out. Exchanges that are still open are let
// go of: the handler finishes them to no effect.
func (c *Conn) end(cause Cause, reason string) {
	if c.ending {
		return
	}
	c.ending = true
	c.closeCause = cause
	if reason != "" {
		c.loop.logClose(c, reason)
	}
}

// advance moves replies whose turn has come to sending.
func (c *Conn) advance() {
	for x := c.open.first; x != nil && x.status != exchangeOpen && !c.ending; x = c.open.first {
		if x.fresh && x.status != exchangeReplied {
			return // OnFrame is still at it: it may not be freed yet
		}
		c.open.pop()
		switch x.status {
		case exchangeReplied:
			c.sending.push(x)
			continue
		case exchangeCloses:
			c.end(CauseHandler, x.reason)
		}
		c.exchanges--
		c.loop.freeExchange(x)
	}
}

// owed tells whether the peer has something coming, so that it is not idle.
func (c *Conn) owed() bool { return c.exchanges > 0 || c.waiting || c.readCharge > 0 }

// stopped tells, and counts, why no further request may be taken; pauseNone when one may.
func (c *Conn) stopped() bool {
	o := &c.loop.server.options
	now := pauseNone
	if c.outboundBytes > o.OutboundBytesMax {
		now = pauseOutbound
	} else if c.exchanges >= exchangesMax {
		now = pauseExchanges
	}
	if now != c.paused {
		switch c.paused = now; now {
		case pauseOutbound:
			c.loop.server.metrics.PausesOutbound.Add(1)
		case pauseExchanges:
			c.loop.server.metrics.PausesExchanges.Add(1)
		}
	}
	return now != pauseNone
}
