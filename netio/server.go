package netio

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Server accepts connections and spreads them over event loops.
type Server struct {
	options   Options
	metrics   Metrics
	budget    *budget
	limits    *limits
	loops     []*Loop
	addresses []string
	ids       uint64 // given out on loop 0
	rate      bucket // of all listeners; on loop 0

	running  sync.WaitGroup // goroutines of the loops
	stopOnce sync.Once
	stopErr  error
	draining atomic.Bool
	drained  chan struct{} // signalled when draining and the last connection left
}

// Start opens the listeners and returns when connections are accepted. The options are completed with
// EnsureDefaults and checked. An address that cannot be listened on is named together with the remedy.
func Start(o Options) (*Server, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{options: o, drained: make(chan struct{}, 1)}
	s.budget = newBudget(o.InflightBytesMax, o.FrameBytesMax, o.Loops, &s.metrics)
	var err error
	if s.limits, err = newLimits(&s.options); err != nil {
		return nil, err
	}
	s.metrics.ConnectionsMax.Store(int64(s.limits.most()))
	if err = s.open(); err != nil {
		s.release()
		return nil, err
	}
	for _, l := range s.loops {
		s.running.Go(l.run)
	}
	return s, nil
}

func (s *Server) open() error {
	period := min(max(min(s.options.IdleTimeout, s.options.SlowTimeout)/8, 5*time.Millisecond), time.Second)
	for i := range s.options.Loops {
		l, err := newLoop(s, i)
		if err != nil {
			return fmt.Errorf("make event loop %d: %w", i, err)
		}
		l.timer.period = period
		s.loops = append(s.loops, l)
	}
	first := s.loops[0]
	for _, n := range s.options.Listeners {
		a, err := s.listen(n)
		if err != nil {
			return err
		}
		first.acceptors = append(first.acceptors, a)
		s.addresses = append(s.addresses, a.address)
		if err = a.watch(); err != nil {
			return fmt.Errorf("listener %s: %w", a.name, err)
		}
	}
	return nil
}

// release gives back all descriptors. No loop runs.
func (s *Server) release() {
	for _, l := range s.loops {
		for _, a := range l.acceptors {
			a.close()
		}
		l.release()
	}
}

// Addresses returns the address of each listener in the order of Options.Listeners, with the real port.
func (s *Server) Addresses() []string { return s.addresses }

// Loops returns the event loops.
func (s *Server) Loops() []*Loop { return s.loops }

// Metrics returns the counters and gauges of the server.
func (s *Server) Metrics() *Metrics { return &s.metrics }

// entered counts an accepted connection in, or returns false when a limit forbids it. On loop 0.
func (s *Server) entered(c *Conn) bool {
	switch full, addressFull := s.limits.enter(c.address.Addr()); {
	case full:
		s.metrics.RefusedTotal.Add(1)
		return false
	case addressFull:
		s.metrics.RefusedPerAddress.Add(1)
		return false
	}
	s.ids++
	c.id = s.ids
	s.metrics.ConnectionsTotal.Add(1)
	s.metrics.ConnectionsOpen.Add(1)
	return true
}

// left counts a connection out.
func (s *Server) left(c *Conn, cause Cause) {
	s.metrics.closed[cause].Add(1)
	s.metrics.ConnectionsOpen.Add(-1)
	c.loop.load.Add(-1)
	if s.limits.leave(c.address.Addr()) == 0 && s.draining.Load() {
		s.signalDrained()
	}
}

func (s *Server) signalDrained() {
	select {
	case s.drained <- struct{}{}:
	default:
	}
}

func (s *Server) leastLoaded() *Loop {
	least := s.loops[0]
	for _, l := range s.loops[1:] {
		if l.load.Load() < least.load.Load() {
			least = l
		}
	}
	least.load.Add(1)
	return least
}

// Stop ends the server: it stops accepting, reads no further requests, waits until the answers that are due
// have gone out, DrainTimeout has passed or ctx is done, closes what is left and waits for the loops. It
// returns an error when connections were cut off while answers were due. Handlers run until it returns;
// later calls wait for the first and return the same. It must not be called on a loop.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

func (s *Server) stop(ctx context.Context) error {
	var closed sync.WaitGroup
	closed.Add(1)
	s.loops[0].Post(taskFunc(func(l *Loop) {
		for _, a := range l.acceptors {
			a.close()
		}
		l.acceptors = nil
		closed.Done()
	}))
	closed.Wait() // from here on no connection is added
	s.draining.Store(true)
	for _, l := range s.loops {
		l.Post(taskFunc((*Loop).drain))
	}
	var err error
	if s.limits.count() > 0 {
		timeout := time.NewTimer(s.options.DrainTimeout)
		defer timeout.Stop()
		select {
		case <-s.drained:
		case <-timeout.C:
		case <-ctx.Done():
		}
		if n := s.limits.count(); n > 0 {
			err = fmt.Errorf("stop: %d connections cut off while answers were due", n)
		}
	}
	for _, l := range s.loops {
		l.Post(taskFunc((*Loop).halt))
	}
	s.running.Wait()
	s.release()
	return err
}

// taskFunc is a task of the server's own, for rare use.
type taskFunc func(l *Loop)

// RunOnLoop implements Task.
func (f taskFunc) RunOnLoop(l *Loop) { f(l) }

func (l *Loop) drain() {
	l.draining = true
	for _, c := range l.conns {
		if c != nil {
			c.draining = true
			l.markDirty(c)
		}
	}
}

func (l *Loop) halt() {
	for _, c := range l.conns {
		if c != nil {
			l.close(c, CauseStop)
		}
	}
	l.stopping = true
}
