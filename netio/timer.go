package netio

import (
	"time"

	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"golang.org/x/sys/unix"
)

// timer is the one clock of a loop: a timerfd on its poller, set to whichever comes first of the handler's
// time and the next sweep for idle, slow and stalled connections. Edge-triggered: it is never read.
type timer struct {
	fd      int
	handler time.Time // zero: not set
	sweep   time.Time
	accept  time.Time // when accepting is tried again
	armed   time.Time // when the descriptor fires; zero: not armed
	period  time.Duration
}

func (t *timer) open(p *netpoll.Poller) (err error) {
	if t.fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return err
	}
	return p.AddRead(&netpoll.PollAttachment{FD: t.fd}, true)
}

func (t *timer) close() {
	if t.fd >= 0 {
		_ = unix.Close(t.fd)
	}
}

func (t *timer) setHandler(at time.Time) {
	t.handler = at
	t.arm()
}

// sweepBy makes sure that a sweep is due within the given time.
func (t *timer) sweepBy(in time.Duration) {
	if at := time.Now().Add(in); t.sweep.IsZero() || at.Before(t.sweep) {
		t.sweep = at
		t.arm()
	}
}

// arm sets the descriptor unless it fires early enough anyway: firing early is harmless, and a handler that
// puts its timer off again and again costs no call.
func (t *timer) arm() {
	at := earlier(earlier(t.handler, t.sweep), t.accept)
	if at.IsZero() || !t.armed.IsZero() && !at.Before(t.armed) {
		return
	}
	t.armed = at
	in := max(time.Until(at), 1) // zero would disarm
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(in))}
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err != nil {
		panic("netio: timerfd_settime: " + err.Error()) // only a bad descriptor or value: our bug
	}
}

func (l *Loop) onTimer() {
	now := time.Now()
	t := &l.timer
	t.armed = time.Time{}
	if !t.sweep.IsZero() && !now.Before(t.sweep) {
		t.sweep = time.Time{}
		l.sweep(now)
		if l.lingering.first != nil {
			t.sweep = now.Add(min(t.period, lingerPoll))
		} else if l.count > 0 {
			t.sweep = now.Add(t.period)
		}
	}
	if !t.handler.IsZero() && !now.Before(t.handler) {
		t.handler = time.Time{}
		l.server.options.Handler.OnTimer(l)
	}
	t.accept = time.Time{}
	for _, a := range l.acceptors {
		a.retry(now)
	}
	t.arm()
}

// armAccept makes acceptors try again after a pause.
func (t *timer) armAccept(at time.Time) {
	t.accept = earlier(t.accept, at)
	t.arm()
}

// earlier returns the earlier of two times, where zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// sweep closes the connections that overstayed.
func (l *Loop) sweep(now time.Time) {
	o, m := &l.server.options, &l.server.metrics
	for c := l.idle.expired(now, o.IdleTimeout); c != nil; c = l.idle.expired(now, o.IdleTimeout) {
		if c.owed() {
			l.idle.touch(&c.idle, c, now)
			continue
		}
		l.logClose(c, "idle")
		l.close(c, CauseIdle)
	}
	for c := l.slow.expired(now, o.SlowTimeout); c != nil; c = l.slow.expired(now, o.SlowTimeout) {
		l.logClose(c, "slow reader")
		l.reset(c, CauseSlow)
	}
	l.sweepLingering(now)
	for c := l.receiving.expired(now, o.SlowTimeout); c != nil; c = l.receiving.expired(now, o.SlowTimeout) {
		// Only a peer that could send and does not, while memory is short, is at fault.
		if c.waiting || c.readable || c.paused != pauseNone || !c.granted && m.ConnectionsWaiting.Load() == 0 {
			l.receiving.touch(&c.receiving, c, now)
			continue
		}
		l.logClose(c, "stalled frame while memory is short")
		l.reset(c, CauseStalled)
	}
}
