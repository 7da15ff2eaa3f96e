package perf

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Aside runs long work that nobody waits for on a thread of its own, the nicest there is, and returns when f has: where
// processors are few, another thread that wakes up gets one at once instead of after a slice of some milliseconds. f
// may be stopped at any point for long: what others wait for, such as a lock that is held over more than a few
// instructions, has no place in it. Where the system refuses, f runs like everything else.
//
// SCHED_IDLE, tried instead, stopped f for so long beside other processes that the P it had was missing.
func Aside(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine, since it cannot be made less nice again
		if now, e := unix.Getpriority(unix.PRIO_PROCESS, 0); e == nil {
			const most = 19
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-now+most, most)) // the system call tells 20 less it
		}
		err = f()
	}()
	<-done
	return err
}
