package netio

import (
	"time"

	"millrace/perf"
)

// Exchange is one request and the place of its answer among those of its connection. It is pooled: once it
// is finished, and OnFrame has returned, neither it nor its Frame may be touched. Who was handed x by its loop,
// after OnFrame, may call Charge and Uncharge until x is handed back.
type Exchange struct {
	Conn     *Conn
	Frame    []byte    // the bytes after the length prefix; see Handler.OnFrame for how long they live
	Began    time.Time // when the first bytes of the frame were read
	Received time.Time // when the frame was whole

	// These belong to the handler, and are for its OnSent.
	Answered time.Time
	Notes    [3]int64
	Tell     bool // call OnSent, also where the peer takes the answer at once

	next   *Exchange
	owned  *perf.Buffer // holds Frame; nil when Frame lies in the loop's chunk
	reply  *perf.Buffer
	reason string // of Close
	charge int64  // bytes in flight
	status exchangeStatus
	fresh  bool // OnFrame has not returned
	kept   bool // Retain was called
}

type exchangeStatus uint8

const (
	exchangeFree exchangeStatus = iota
	exchangeOpen
	exchangeReplied
	exchangeDropped
	exchangeCloses
)

// Retain keeps Frame after OnFrame returns, until the exchange is finished. It may only be called within
// OnFrame. A frame that was gathered in a buffer of its own is kept as it is, a small one is copied.
func (x *Exchange) Retain() {
	if !x.fresh {
		panic("netio: Retain after OnFrame returned")
	}
	x.kept = true
	if x.owned != nil {
		return
	}
	x.owned = x.Conn.loop.server.options.Pool.Get(len(x.Frame))
	x.owned.B = append(x.owned.B, x.Frame...)
	x.Frame = x.owned.B
}

// Charge counts n more bytes against InflightBytesMax until x is finished. It returns false, and counts
// nothing, when they do not fit; the handler then does without or answers with an error.
func (x *Exchange) Charge(n int64) bool {
	x.mustBeOpen()
	if n < 0 || !x.Conn.loop.server.budget.take(n, x.Conn.loop.server.budget.hard) {
		return false
	}
	x.charge += n
	return true
}

// First tells whether the connection has nothing to send before x is finished: its other exchanges wait for x.
func (x *Exchange) First() bool { return x.Conn.open.first == x && x.Conn.sending.first == nil }

// Uncharge gives back n bytes that Charge counted.
func (x *Exchange) Uncharge(n int64) {
	x.mustBeOpen()
	if n < 0 || n > x.charge {
		panic("netio: more bytes uncharged than charged")
	}
	x.charge -= n
	x.Conn.loop.server.budget.release(n)
}

// Forget gives Frame back before x is finished, and all bytes in flight that x counts: for exchanges that wait
// long and whose frame was read, so that a few of them do not keep everybody else from being read.
func (x *Exchange) Forget() {
	x.mustBeOpen()
	x.Conn.loop.server.budget.release(x.charge)
	x.charge = 0
	x.kept = false
	if !x.fresh {
		x.dropFrame()
	}
}

// Reply finishes x with a whole frame, its length prefix included, and takes b over. It is sent after the
// answers of all earlier exchanges of the connection. The bytes of the request are no longer in flight.
func (x *Exchange) Reply(b *perf.Buffer) {
	x.mustBeOpen()
	if x.Conn.Closed() {
		b.Release()
		x.finish(exchangeDropped)
		return
	}
	x.reply = b
	x.Conn.outboundBytes += int64(len(b.B))
	x.Conn.loop.server.metrics.OutboundBytes.Add(int64(len(b.B)))
	x.finish(exchangeReplied)
}

// Drop finishes x without an answer.
func (x *Exchange) Drop() {
	x.mustBeOpen()
	x.finish(exchangeDropped)
}

// Close finishes x by closing the connection in the place of its answer: the answers of earlier exchanges
// are awaited and sent, those of later ones are not. No more is read.
func (x *Exchange) Close(reason string) {
	x.mustBeOpen()
	x.reason = reason
	x.Conn.deaf = true
	x.finish(exchangeCloses)
}

func (x *Exchange) mustBeOpen() {
	if x.status != exchangeOpen {
		panic("netio: exchange used after it was finished")
	}
}

func (x *Exchange) finish(s exchangeStatus) {
	c := x.Conn
	x.status = s
	c.loop.server.budget.release(x.charge)
	x.charge = 0
	if !x.fresh {
		x.dropFrame()
	}
	if c.released {
		// The connection let go of its exchanges, so this is the last hold on x. Within
		// OnFrame the loop still looks at it.
		if !x.fresh {
			c.loop.freeExchange(x)
		}
		return
	}
	c.loop.markDirty(c)
}

func (x *Exchange) dropFrame() {
	x.Frame = nil
	x.owned.Release()
	x.owned = nil
}

// queue is a list of exchanges linked through next.
type queue struct{ first, last *Exchange }

func (q *queue) push(x *Exchange) {
	x.next = nil
	if q.last == nil {
		q.first = x
	} else {
		q.last.next = x
	}
	q.last = x
}

func (q *queue) pop() *Exchange {
	x := q.first
	q.first = x.next
	if q.first == nil {
		q.last = nil
	}
	x.next = nil
	return x
}
