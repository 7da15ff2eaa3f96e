package netio

import (
	"bytes"
	"testing"
)

// OnHalfClose leaves waiting exchanges to the test.
func (h *handler) OnHalfClose(c *Conn) {
	if h.onHalfClose != nil {
		h.onHalfClose(c)
	}
}

func TestHandlerLearnsOfAHalfClose(t *testing.T) {
	var waiting []*Exchange
	told := 0
	s := start(t, Options{Handler: &handler{
		onFrame: func(x *Exchange) { x.Retain(); waiting = append(waiting, x) },
		onHalfClose: func(*Conn) {
			told++
			for _, x := range waiting {
				echo(x)
			}
			waiting = nil
		},
	}, Loops: 1})
	c := dial(t, s)
	send(t, c, appendFrame(appendFrame(nil, []byte("one")), []byte("two")))
	must(t, c.CloseWrite())
	for _, want := range []string{"one", "two"} {
		if got := receive(t, c); !bytes.Equal(got, []byte(want)) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	closedByPeer(t, c)
	eventually(t, "connection closed", func() bool { return s.metrics.ConnectionsOpen.Load() == 0 })
	if told != 1 {
		t.Fatalf("told %d times", told)
	}
}
