package perf

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Work aside has a nice thread, and the others stay as they were.
func TestAside(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	nice := func() int {
		now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		return 20 - now
	}
	own, failed := nice(), errors.New("failed")
	err := Aside(func() error {
		if got := nice(); got != min(own+19, 19) {
			t.Errorf("nice %d beside %d", got, own)
		}
		return failed
	})
	if err != failed || nice() != own {
		t.Errorf("%v, nice %d, before %d", err, nice(), own)
	}
}
