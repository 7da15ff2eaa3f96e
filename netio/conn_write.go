package netio

import "golang.org/x/sys/unix"

const (
	// gatherBytesMax: replies shorter than this are copied together into one write; copying them costs less
	// than the vector of a writev does. Longer ones go out of their own buffer.
	gatherBytesMax = 16 << 10
	writeBytesMax  = 1 << 20
)

// flush sends what the socket takes of the replies whose turn has come. The rest stays in its own buffers,
// bounded by OutboundBytesMax, until the poller reports room.
func (c *Conn) flush(t *turn) {
	if c.sending.first == nil {
		return
	}
	l := c.loop
	progress := false
	for c.writable && c.sending.first != nil {
		if t.send <= 0 {
			l.markReady(c)
			break
		}
		n, err := unix.Write(c.fd, c.gather())
		if err != nil {
			if err == unix.EINTR {
				continue
			}
			if err == unix.EAGAIN {
				c.writable = false
				break
			}
			l.close(c, CauseIO)
			return
		}
		progress = true
		t.send -= n
		l.server.metrics.BytesOut.Add(int64(n))
		c.sent(n)
	}
	c.lagging = c.sending.first != nil
	switch {
	case c.sending.first == nil:
		l.slow.remove(&c.slow)
		if c.exchanges == 0 {
			l.idle.touch(&c.idle, c, l.stamp())
		}
	case progress || c.slow.conn == nil:
		l.slow.touch(&c.slow, c, l.now())
	}
}

// gather returns the next bytes to send: of a long reply itself, or several short ones copied together.
func (c *Conn) gather() []byte {
	x := c.sending.first
	head := x.reply.B[c.sentBytes:]
	if x.next == nil || len(head) >= gatherBytesMax {
		return head[:min(len(head), writeBytesMax)]
	}
	out := append(c.loop.outChunk[:0], head...)
	for x = x.next; x != nil && len(x.reply.B) < gatherBytesMax && len(out)+len(x.reply.B) <= cap(out); x = x.next {
		out = append(out, x.reply.B...)
	}
	return out
}

// sent takes n bytes off the front of sending.
func (c *Conn) sent(n int) {
	c.outboundBytes -= int64(n)
	c.loop.server.metrics.OutboundBytes.Add(-int64(n))
	c.sentBytes += n
	for x := c.sending.first; x != nil && c.sentBytes >= len(x.reply.B); x = c.sending.first {
		c.sentBytes -= len(x.reply.B)
		c.sending.pop()
		c.exchanges--
		x.Tell = x.Tell || c.lagging
		c.loop.freeExchange(x)
	}
}
