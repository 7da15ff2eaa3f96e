package bench

import (
	"context"
	"runtime"
	"syscall"
	"time"
)

// schedule says when each request of an open loop is due, whatever the broker does. Connections take turns.
type schedule struct {
	start       int64 // on the run's clock
	rate        float64
	connections int
}

// at returns when the n-th request of a connection is due, in nanoseconds on the run's clock.
func (s schedule) at(connection int, n int64) int64 {
	turn := n*int64(s.connections) + int64(connection)
	return s.start + int64(float64(turn)*1e9/s.rate)
}

// napMax bounds a sleep, so that the end of a run is seen.
const napMax = 20 * time.Millisecond

// prSetTimerslack is PR_SET_TIMERSLACK of prctl.
const prSetTimerslack = 29

// pacer sleeps on a thread of its own. The runtime's timers are late by up to a millisecond when all else is
// idle, which would be the larger part of a good broker's latency.
type pacer struct{ clock clock }

// newPacer binds the goroutine to its thread until release.
func newPacer(c clock) pacer {
	runtime.LockOSThread()
	// The default lets the kernel be 50 us late; refused, it stays so.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1, 0)
	return pacer{c}
}

// release gives the thread back as it was. It must not end with the goroutine: a process that it once
// started may be set to die with it.
func (pacer) release() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 0, 0) // back to the default
	runtime.UnlockOSThread()
}

// until waits for the time to come. It returns false when the gate stopped or ctx ended before.
func (p pacer) until(ctx context.Context, g *gate, at int64) bool {
	for {
		left := time.Duration(at - p.clock.now())
		if left <= 0 {
			return ctx.Err() == nil && !g.stopped.Load()
		}
		if ctx.Err() != nil || g.stopped.Load() {
			return false
		}
		spec := syscall.NsecToTimespec(int64(min(left, napMax)))
		// An interrupted sleep is looked at again.
		_ = syscall.Nanosleep(&spec, nil)
	}
}
