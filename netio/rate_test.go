package netio

import (
	"net"
	"testing"
	"time"
)

// TestConnectionRate: what comes faster than its listener may waits and is served, other listeners are not held up, and
// the rate can be changed while the server runs.
func TestConnectionRate(t *testing.T) {
	s := start(t, Options{Listeners: []Listener{{"FREE", "127.0.0.1:0"}, {"SLOW", "127.0.0.1:0"}}})
	served := func(listener, connections int) {
		t.Helper()
		var all []net.Conn
		for range connections {
			c, err := net.Dial("tcp", s.Addresses()[listener])
			must(t, err)
			defer c.Close()
			send(t, c, appendFrame(nil, []byte("hello")))
			all = append(all, c)
		}
		for _, c := range all {
			receive(t, c)
		}
	}
	settled := func() {
		done := make(chan struct{})
		s.loops[0].Post(taskFunc(func(*Loop) { close(done) }))
		<-done
	}
	limit := func(all int, listeners map[string]int) time.Time {
		must(t, s.Limit(Limits{Max: 1000, PerAddress: 1000, Rate: all, ListenerRate: listeners}))
		settled()
		return time.Now()
	}
	holds := func(grow bool) {
		t.Helper()
		settled()
		if n := s.metrics.AcceptHolds.Swap(0); n > 0 != grow {
			t.Errorf("accepting waited %d times", n)
		}
	}
	began := limit(1000, map[string]int{"SLOW": 10})
	served(1, 16)
	if took := time.Since(began); took < 590*time.Millisecond {
		t.Errorf("16 connections in %v at 10 a second", took)
	}
	holds(true)
	served(0, 16)
	holds(false)
	began = limit(20, nil)
	served(0, 20)
	served(1, 12)
	if took := time.Since(began); took < 590*time.Millisecond {
		t.Errorf("32 connections in %v at 20 a second", took)
	}
	holds(true)
	limit(0, nil)
	served(1, 1) // what was held goes on first
	holds(false)
	served(0, 50)
	served(1, 50)
	holds(false)
}

func TestBucket(t *testing.T) {
	var b bucket
	now := time.Now()
	f := func(after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		wait := b.wait(now)
		if wait.Round(time.Millisecond) != want {
			t.Errorf("wait of %v, want %v", wait, want)
		}
		if wait == 0 {
			b.take()
		}
	}
	f(0, 0)
	f(0, 0)
	b.set(2)
	f(0, 0)
	f(0, 0)
	f(0, 500*time.Millisecond)
	f(250*time.Millisecond, 250*time.Millisecond)
	f(250*time.Millisecond, 0)
	f(time.Hour, 0) // no more than two gather
	f(0, 0)
	f(0, 500*time.Millisecond)
	b.set(10) // does not let through at once
	f(0, 100*time.Millisecond)
	b.set(0)
	f(0, 0)
}
