package netio

import (
	"maps"
	"time"
)

// rateDelayMin is the least time that accepting waits for its rate: then some connections come at once.
const rateDelayMin = 10 * time.Millisecond

// bucket lets so many things happen in a second, and after a quiet second as many at once. The zero value lets any
// number.
type bucket struct {
	rate   float64 // a second; 0: any
	tokens float64
	filled time.Time
}

// set changes the rate. Whoever made use of the one before is not let through at once.
func (b *bucket) set(rate int) {
	if b.rate == 0 {
		b.tokens = float64(rate)
	}
	b.rate = float64(rate)
	b.tokens = min(b.tokens, b.rate)
}

// wait returns how long it takes until one more may happen, 0 where it may now.
func (b *bucket) wait(now time.Time) time.Duration {
	if b.rate == 0 {
		return 0
	}
	b.tokens = min(b.tokens+b.rate*now.Sub(b.filled).Seconds(), b.rate)
	b.filled = now
	if b.tokens >= 1 {
		return 0
	}
	return time.Duration((1 - b.tokens) / b.rate * float64(time.Second))
}

func (b *bucket) take() { b.tokens-- }

// Limits bound connections. The first three are those of Options.
type Limits struct {
	Max          int
	PerAddress   int
	Overrides    map[string]int
	Rate         int            // new ones in a second, of all listeners; 0: any number
	ListenerRate map[string]int // of single listeners by name
}

// Limit changes the limits. What comes too fast waits in the kernel, what is too much is closed at once; connections that
// are open stay. It may be called at any time, and takes effect soon.
func (s *Server) Limit(to Limits) error {
	if err := s.limits.set(to.Max, to.PerAddress, to.Overrides); err != nil {
		return err
	}
	s.metrics.ConnectionsMax.Store(int64(s.limits.most()))
	s.metrics.ConnectionRateMax.Store(int64(to.Rate))
	listeners := maps.Clone(to.ListenerRate)
	s.loops[0].Post(taskFunc(func(l *Loop) {
		s.rate.set(to.Rate)
		for _, a := range l.acceptors {
			a.rate.set(listeners[a.name])
		}
	}))
	return nil
}

// held pauses accepting until the rates allow one more connection, and tells whether it did.
func (a *acceptor) held() bool {
	if a.rate.rate == 0 && a.server.rate.rate == 0 {
		return false
	}
	now := time.Now()
	wait := max(a.rate.wait(now), a.server.rate.wait(now))
	if wait == 0 {
		return false
	}
	a.server.metrics.AcceptHolds.Add(1)
	a.pause(max(wait, rateDelayMin))
	return true
}
