package kafka

import (
	"time"

	"millrace/netio"
	"millrace/perf"
)

// clientIDStart is where the bytes of the client id begin in a frame, in every version.
const clientIDStart = 10

// conn is what the handler keeps for a connection. It belongs to the connection's loop.
type conn struct {
	net      *netio.Conn
	loop     *loop
	open     int         // exchanges that were started and are not finished
	alone    bool        // the one that is open runs on a worker: those behind it wait
	queue    []*exchange // wait for their turn; netio bounds how many
	pumping  bool
	hurried  bool            // the peer sends no more: nothing waits
	fetching bool            // a worker makes a reply
	stalled  []*fetchRequest // wait until the peer has read more
	polls    *fetchRequest   // long polls of this connection, a list by fetchRequest.connNext
	client   *clientCounts   // nil before the first request
}

// exchange is a netio exchange with its parsed header. Exchanges are pooled per loop.
type exchange struct {
	*netio.Exchange
	conn        *conn
	api         *api
	version     int16
	correlation int32
	clientID    []byte // in the frame
	body        []byte // in the frame
	retained    bool
	started     time.Time     // when its turn came
	waitsSince  time.Time     // for records, or for its peer to read
	waited      time.Duration // so, before
	charged     int64         // what a worker request was estimated to take
}

// retain keeps the request's bytes until it is answered.
func (e *exchange) retain() {
	if e.retained {
		return
	}
	e.retained = true
	body, client := len(e.body), len(e.clientID)
	e.Retain()
	e.body = e.Frame[len(e.Frame)-body:]
	e.clientID = e.Frame[clientIDStart : clientIDStart+client]
}

// forget gives the request's bytes back before it is answered.
func (e *exchange) forget() {
	e.body, e.clientID = nil, nil
	e.retained = false
	e.Forget()
}

// flexible tells whether the request's version has compact types and tagged fields.
func (e *exchange) flexible() bool { return e.api.flexibleIn(e.version) }

// count notes a request of a client id.
func (c *conn) count(clientID []byte) {
	if !c.client.is(clientID) {
		c.client = c.loop.server.clients.join(c.client, clientID, c.net.RemoteAddress())
	}
	c.client.requests.Add(1)
}

// enqueue starts e or lets it wait for its turn.
func (c *conn) enqueue(e *exchange) {
	if len(c.queue) == 0 && c.free(e) {
		c.start(e)
		return
	}
	e.retain()
	c.queue = append(c.queue, e)
}

func (c *conn) free(e *exchange) bool {
	return !c.alone && (e.api.class == onLoop || c.open == 0)
}

func (c *conn) start(e *exchange) {
	e.started = c.loop.server.o.Now()
	c.open++
	if e.api.class == onLoop {
		e.api.start(c.loop, e)
		return
	}
	c.alone = true
	e.retain()
	c.loop.admit(e)
}

// finished notes that e is answered and starts what waited for it.
func (c *conn) finished(e *exchange) {
	c.open--
	if e.api != nil && e.api.class == onWorker {
		c.alone = false
	}
	c.loop.freeExchange(e)
	c.pump()
}

// pump starts what waits for its turn and has it.
func (c *conn) pump() {
	if c.pumping {
		return
	}
	c.pumping = true
	for len(c.queue) > 0 && (c.net.Closed() || c.free(c.queue[0])) {
		next := c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
		if c.net.Closed() {
			next.Drop()
			c.loop.freeExchange(next)
			continue
		}
		c.start(next)
	}
	if len(c.queue) == 0 {
		c.queue = nil
	}
	c.pumping = false
}

// hurry ends the waits of the connection's long polls. They are answered in the order of their requests,
// whatever their order here.
func (c *conn) hurry() {
	c.hurried = true
	for c.polls != nil {
		c.loop.retryPoll(c.polls)
	}
}

// closed gives up what waits for a connection that is gone.
func (c *conn) closed() {
	if c.client != nil {
		c.loop.server.clients.leave(c.client)
	}
	for _, e := range c.queue {
		e.Drop()
		c.loop.freeExchange(e)
	}
	c.queue = nil
	c.dropStalled()
	for c.polls != nil {
		c.loop.abandon(c.polls)
	}
}

// reply finishes e with a whole frame; it takes b over.
func (l *loop) reply(e *exchange, b *perf.Buffer) {
	e.Reply(b)
	e.conn.finished(e)
}

// drop finishes e without an answer.
func (l *loop) drop(e *exchange) {
	e.Drop()
	e.conn.finished(e)
}

// closeConn finishes e by closing its connection.
func (l *loop) closeConn(e *exchange, reason string) {
	h := header{version: e.version}
	if e.api != nil {
		h.key = e.api.key
	}
	l.server.logRefused(e.conn.net, &h, reason)
	l.server.metrics.Refused.Add(1)
	e.Close(reason)
	e.conn.finished(e)
}

// refuse closes the connection of a request that was not started.
func (l *loop) refuse(e *exchange, h *header, reason string) {
	l.server.logRefused(e.conn.net, h, reason)
	l.server.metrics.Refused.Add(1)
	e.Close(reason)
	l.freeExchange(e)
}
