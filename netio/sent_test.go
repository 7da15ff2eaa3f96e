package netio

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// TestBegan: an exchange knows when the first bytes of its frame came.
func TestBegan(t *testing.T) {
	type times struct{ began, received time.Time }
	seen := make(chan times, 1)
	s := start(t, Options{Loops: 1, Handler: &handler{onFrame: func(x *Exchange) {
		seen <- times{x.Began, x.Received}
		x.Drop()
	}}})
	c, err := net.Dial("tcp", s.Addresses()[0])
	must(t, err)
	defer c.Close()
	var sent int64
	part := func(b []byte) time.Time { // returns a time after the loop has read it
		t.Helper()
		send(t, c, b)
		sent += int64(len(b))
		eventually(t, "bytes to be read", func() bool { return s.metrics.BytesIn.Load() == sent })
		done := make(chan struct{})
		s.loops[0].Post(taskFunc(func(*Loop) { close(done) }))
		<-done
		return time.Now()
	}
	f := func(size, first int) {
		t.Helper()
		frame := appendFrame(nil, make([]byte, size))
		before := time.Now()
		middle := part(frame[:first])
		part(frame[first:])
		if got := <-seen; got.began.Before(before) || got.began.After(middle) || got.received.Before(middle) {
			t.Errorf("%d of %d bytes: began %v, received %v after the first part", first, size, got.began.Sub(middle), got.received.Sub(middle))
		}
	}
	f(100, 2) // not even a length
	f(100, 50)
	f(1<<20, 1000) // read straight into its buffer
	send(t, c, appendFrame(nil, []byte("whole")))
	if got := <-seen; !got.began.Equal(got.received) {
		t.Errorf("whole at once: %v between", got.received.Sub(got.began))
	}
}

// TestOnSent: the handler is told of answers that a peer took slowly or never, and of those that it asked for.
func TestOnSent(t *testing.T) {
	const large = 64 << 20
	var told, closed atomic.Int64
	s := start(t, Options{Loops: 1, Handler: &handler{
		onFrame: func(x *Exchange) {
			x.Notes[0] = 7
			switch string(x.Frame) {
			case "large":
				x.Reply(reply(x, make([]byte, large)))
			case "tell":
				x.Tell = true
				fallthrough
			default:
				echo(x)
			}
		},
		onSent: func(x *Exchange) {
			if x.Notes[0] != 7 {
				t.Error("notes are lost")
			}
			told.Add(1)
			if x.Conn.Closed() {
				closed.Add(1)
			}
		},
	}})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", s.Addresses()[0])
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	f := func(wantTold, wantClosed int64) {
		t.Helper()
		eventually(t, "handler to be told", func() bool { return told.Load() >= wantTold })
		if told.Load() != wantTold || closed.Load() != wantClosed {
			t.Errorf("told %d times, %d closed, want %d and %d", told.Load(), closed.Load(), wantTold, wantClosed)
		}
	}
	c := dial()
	send(t, c, appendFrame(nil, []byte("quick")))
	receive(t, c)
	send(t, c, appendFrame(nil, []byte("tell")))
	receive(t, c)
	f(1, 0)

	send(t, c, appendFrame(nil, []byte("large")))
	stuck := func() bool { n := s.metrics.OutboundBytes.Load(); return n > 0 && n < large }
	eventually(t, "answer to be stuck", stuck)
	f(1, 0)
	_, err := io.CopyN(io.Discard, c, headBytes+large)
	must(t, err)
	f(2, 0)

	c = dial()
	send(t, c, appendFrame(nil, []byte("large")))
	eventually(t, "answer to be stuck", stuck)
	c.Close()
	f(3, 1)
}
