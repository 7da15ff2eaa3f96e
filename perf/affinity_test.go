package perf

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestAffinityIsInherited(t *testing.T) {
	all, err := AllowedCPUs()
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	ended := make(chan []byte)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and the test's others are as they were.
		runtime.LockOSThread()
		if err := SetThreadAffinity(all[:1]); err != nil {
			t.Error(err)
		}
		out, err := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status").Output()
		if err != nil {
			t.Error(err)
		}
		ended <- out
	}()
	out := <-ended
	fields := strings.Fields(string(out))
	if len(fields) != 2 || strings.ContainsAny(fields[1], "-,") {
		t.Errorf("a process started on one processor may run on %q", out)
	}
	if err := SetProcessAffinity(all); err != nil {
		t.Error(err)
	}
	if now, err := AllowedCPUs(); err != nil || !slices.Equal(now, all) {
		t.Errorf("%v, want %v, %v", now, all, err)
	}
}
