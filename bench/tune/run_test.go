package tune

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/bench"
)

func TestRefuse(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(dir, lockNames()[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	f := func(refused bool) {
		t.Helper()
		for _, d := range []string{dir, inside} {
			var senseless *bench.UsageError
			err := Refuse([]string{d})
			if errors.As(err, &senseless) != refused || refused && !strings.Contains(err.Error(), "a broker works in") {
				t.Errorf("%s: %v", d, err)
			}
		}
	}
	f(false) // a broker that has ended leaves the file
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	f(true)
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	f(false)
}

// TestLoads holds that each goal's loads make sense, and that something decides in each.
func TestLoads(t *testing.T) {
	for _, goal := range Goals() {
		for _, l := range goal.loads(DurationMin, bytesMin) {
			if bench.Find(l.workload) == nil || len(l.decides) == 0 || len(l.given) == 0 {
				t.Errorf("%s: %+v", goal, l)
			}
		}
	}
}
