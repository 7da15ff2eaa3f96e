package netio

import (
	"testing"
)

// TestForgottenFramesAreNotInFlight: what waits long holds neither its frame nor a place among the bytes in flight.
func TestForgottenFramesAreNotInFlight(t *testing.T) {
	waiting := make(chan *Exchange, 1)
	s := start(t, Options{Handler: &handler{onFrame: func(x *Exchange) {
		if len(x.Frame) < 100 {
			echo(x)
			return
		}
		if !x.First() || !x.Charge(1000) {
			t.Error("neither first nor charged")
		}
		x.Uncharge(400)
		x.Retain()
		x.Forget()
		waiting <- x
	}}})
	c := dial(t, s)
	send(t, c, appendFrame(nil, make([]byte, 200_000)))
	x := <-waiting
	other := dial(t, s)
	send(t, other, appendFrame(nil, []byte("other")))
	receive(t, other)
	if n := s.metrics.InflightBytes.Load(); n != 0 {
		t.Errorf("%d bytes in flight", n)
	}
	x.Conn.Loop().Post(taskFunc(func(*Loop) { x.Reply(reply(x, []byte("late"))) }))
	if got := receive(t, c); string(got) != "late" {
		t.Errorf("got %q", got)
	}
	c.Close()
	other.Close()
	balanced(t, s)
}
