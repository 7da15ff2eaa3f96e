package kafka

import "slices"

// A connection may ask for much before it has read anything. Its fetches are answered one by one: the next is
// begun when no worker makes a reply for the connection and its peer has taken enough of those before.

// stalls tells whether f has to wait for the peer, and lets it wait.
func (l *loop) stalls(f *fetchRequest) bool {
	c := f.e.conn
	if c.mayAnswer(f) {
		return false
	}
	if f.e.charged == 0 {
		f.e.forget() // a peer may take long; a wide request stays counted, for its slots
	}
	if len(c.stalled) == 0 {
		l.stalled = append(l.stalled, c)
	}
	c.stalled = append(c.stalled, f)
	f.e.waitsSince = c.loop.server.o.Now()
	l.armTimer()
	return true
}

// mayAnswer tells whether a reply to f may be made now. The oldest request always goes on: the replies to those
// behind it wait for its own.
func (c *conn) mayAnswer(f *fetchRequest) bool {
	return !c.fetching && (c.net.OutboundBytes() <= c.loop.server.o.Config.OutboundBytesMax || f.e.First())
}

// retryStalled begins those fetches that waited for their peers and may go on.
func (l *loop) retryStalled() {
	conns := l.stalled
	l.stalled = nil
	for _, c := range conns {
		l.retryStalledOf(c)
	}
}

func (l *loop) retryStalledOf(c *conn) {
	waiting := c.stalled
	c.stalled = nil
	for i, f := range waiting {
		if c.net.Closed() {
			l.abandonStalled(waiting[i:])
			break
		}
		f.e.waited += l.server.o.Now().Sub(f.e.waitsSince)
		l.attempt(f) // which stalls again where it must
	}
}

func (l *loop) abandonStalled(list []*fetchRequest) {
	for _, f := range list {
		e := f.e
		l.freeFetch(f)
		l.drop(e)
	}
}

// dropStalled gives up the fetches of a connection that is gone.
func (c *conn) dropStalled() {
	list := c.stalled
	c.stalled = nil
	if len(list) > 0 {
		c.loop.stalled = slices.DeleteFunc(c.loop.stalled, func(other *conn) bool { return other == c })
	}
	c.loop.abandonStalled(list)
}
