package hostspeed

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	r, err := Measure(t.Context(), dirs, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, f := range r.Figures {
		seen[f.Backend+f.Directory]++
		if !(f.Value > 0) || f.Unit == "" || f.What == "" {
			t.Errorf("%+v", f)
		}
	}
	for _, dir := range dirs {
		if seen["posix"+dir] != len(kinds()) || r.Probe.Uring != (seen["ring"+dir] == len(kinds())) {
			t.Errorf("%v in %+v", seen, r.Figures)
		}
		nothingLeft(t, dir)
	}
	if seen[""] != 3 || r.Probe.Uring == strings.Contains(strings.Join(r.Missing, " "), "io_uring") {
		t.Errorf("ring: %v, %v, %v", r.Probe.Uring, seen, r.Missing)
	}
}

// TestMeasureEnds ends with its context and leaves nothing.
func TestMeasureEnds(t *testing.T) {
	dir := t.TempDir()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := Measure(ctx, []string{dir}, time.Minute); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	nothingLeft(t, dir)
	if _, err := Measure(t.Context(), []string{dir + "/missing"}, time.Second); err == nil {
		t.Error("a directory that is not there passes")
	}
}

func TestRound(t *testing.T) {
	f := func(v, want float64) {
		t.Helper()
		if got := round(v); got < want*0.999999 || got > want*1.000001 {
			t.Errorf("round(%v) is %v, want %v", v, got, want)
		}
	}
	f(0, 0)
	f(1234.5, 1230)
	f(0.012345, 0.0123)
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left: %v %v", entries, err)
	}
}
