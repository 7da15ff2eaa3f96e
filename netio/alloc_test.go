package netio

import (
	"io"
	"testing"
)

// A request costs no allocation in the steady state: alone, pipelined, retained, answered later, or large.
func TestNoAllocationPerRequest(t *testing.T) {
	later := &laterTask{}
	handlers := map[string]func(x *Exchange){
		"echo":   echo,
		"retain": func(x *Exchange) { x.Retain(); echo(x) },
		"later": func(x *Exchange) {
			x.Retain()
			later.held = append(later.held, x)
			x.Conn.Loop().Post(later)
		},
	}
	for name, h := range handlers {
		for _, load := range []struct{ count, bytes int }{{1, 100}, {50, 100}, {1, 200_000}, {1, 1_000_000}} {
			s := start(t, Options{Loops: 1, Handler: &handler{onFrame: h}})
			c := dial(t, s)
			var request []byte
			for range load.count {
				request = appendFrame(request, make([]byte, load.bytes))
			}
			answer := make([]byte, len(request))
			work := make(chan struct{})
			go func() {
				for range work {
					_, _ = c.Write(request)
				}
			}()
			round := func() {
				work <- struct{}{}
				_, err := io.ReadFull(c, answer)
				must(t, err)
			}
			for range 5 {
				round()
			}
			if n := testing.AllocsPerRun(30, round); n > 0 {
				t.Errorf("%s, %d requests of %d bytes: %v allocations", name, load.count, load.bytes, n)
			}
			close(work)
		}
	}
}

// laterTask answers everything held, on the loop.
type laterTask struct{ held []*Exchange }

func (l *laterTask) RunOnLoop(*Loop) {
	for _, x := range l.held {
		echo(x)
	}
	l.held = l.held[:0]
}
