package meta

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// clone copies what a kill would leave at this moment.
func clone(t *testing.T, fs vfs.FS) *vfs.MemFS {
	t.Helper()
	out := vfs.NewMem()
	for _, name := range []string{"meta", "meta" + copySuffix} {
		skip := vfs.CloneSkip(func(path string) bool { return fs.PathBase(path) == "LOCK" })
		if _, err := vfs.Clone(fs, out, name, name, skip); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func contentOf(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	b, err := readFile(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func replace(t *testing.T, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(bytes.Clone(b)) // which may be written over: built with invariants the file system does so
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// newestLog returns the write-ahead log that is written.
func newestLog(t *testing.T, fs vfs.FS) string {
	t.Helper()
	names, err := fs.List("meta")
	if err != nil {
		t.Fatal(err)
	}
	newest := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			newest = max(newest, name)
		}
	}
	return "meta/" + newest
}

// A write-ahead log that was damaged or removed took the last acknowledged changes back without a word. The start is
// refused, the log stays as it is, and after a repair the node starts with what there is.
func TestLostChangesAreRefused(t *testing.T) {
	live := vfs.NewMem()
	n := mustOpen(t, testOptions(live, &counter{}))
	for range 10 {
		mustPropose(t, n, 1)
	}
	killed := clone(t, live)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	stopped := clone(t, live)
	f := func(what string, left vfs.FS, want uint64, harm func(fs vfs.FS, path string, log []byte)) {
		t.Helper()
		fs := clone(t, left)
		path := newestLog(t, fs)
		harm(fs, path, contentOf(t, fs, path))
		for range 2 { // the first refusal must not make the second start go well
			_, err := Open(t.Context(), testOptions(fs, &counter{}))
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "inspect --repair") {
				t.Fatalf("%s: %v", what, err)
			}
			t.Logf("%s: %v", what, err)
		}
		for _, apply := range []bool{false, true} {
			r, err := RepairDir(t.Context(), testOptions(fs, &counter{}), apply)
			if err != nil || r.Damage == nil || r.Aside == "" {
				t.Fatalf("%s: repair %+v, %v", what, r, err)
			}
			_, err = fs.Stat(r.Aside)
			if (err == nil) != apply {
				t.Errorf("%s: applied %v, kept in %s: %v", what, apply, r.Aside, err)
			}
		}
		c := &counter{}
		n := mustOpen(t, testOptions(fs, c))
		if sum, _ := c.state(); sum < want {
			t.Errorf("%s: %d changes, want %d at least", what, sum, want)
		}
		mustPropose(t, n, 1)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	for want, left := range map[uint64]vfs.FS{0: killed, 10: stopped} { // a stop leaves a copy of all
		f("removed", left, want, func(fs vfs.FS, path string, _ []byte) { fs.Remove(path) })
		f("emptied", left, want, func(fs vfs.FS, path string, log []byte) { replace(t, fs, path, nil) })
		f("cut", left, want, func(fs vfs.FS, path string, log []byte) { replace(t, fs, path, log[:len(log)*2/3]) })
		f("flipped", left, want, func(fs vfs.FS, path string, log []byte) {
			log[len(log)/2] ^= 4
			replace(t, fs, path, log)
		})
	}
	if n, err := RepairDir(t.Context(), testOptions(clone(t, stopped), &counter{}), true); err != nil || n.Damage != nil {
		t.Errorf("repair of what is whole: %+v, %v", n, err)
	}
}

// What a crash tore of a write that nobody was answered for is cut off without a word.
func TestTornWriteIsCutOff(t *testing.T) {
	live := vfs.NewMem()
	n := mustOpen(t, testOptions(live, &counter{}))
	path := newestLog(t, live)
	for range 10 {
		mustPropose(t, n, 1)
	}
	before := clone(t, live)
	mustPropose(t, n, 1)
	log, whole := contentOf(t, before, path), contentOf(t, live, path)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for size := len(log); size < len(whole); size++ {
		fs := clone(t, before)
		replace(t, fs, path, whole[:size])
		c := &counter{}
		n := mustOpen(t, testOptions(fs, c))
		if sum, _ := c.state(); sum < 10 {
			t.Errorf("cut to %d of %d: %d changes", size, len(whole), sum)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A directory without its copy is not repaired where nothing can be read of it, nor is one that is in use.
func TestRepairRefuses(t *testing.T) {
	fs := vfs.NewMem()
	n := mustOpen(t, testOptions(fs, &counter{}))
	if _, err := RepairDir(t.Context(), testOptions(fs, &counter{}), true); !errors.Is(err, ErrInUse) {
		t.Errorf("in use: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := fs.List("meta")
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST") {
			fs.Remove("meta/" + name)
		}
	}
	fs.Remove("meta" + copySuffix)
	if _, err := RepairDir(t.Context(), testOptions(fs, &counter{}), true); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "backup") {
		t.Errorf("without a copy: %v", err)
	}
	if r, err := RepairDir(t.Context(), testOptions(vfs.NewMem(), &counter{}), true); err != nil || r.Damage != nil {
		t.Errorf("nothing there: %+v, %v", r, err)
	}
}

// A flush that failed was tried again without end, which kept a processor busy until the broker was stopped.
func TestFailedFlushIsNotTriedForEver(t *testing.T) {
	var broken atomic.Bool
	var tries atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			tries.Add(1)
			return errors.New("disk is gone")
		}
		return nil
	}))
	n := mustOpen(t, testOptions(fs, &counter{}))
	broken.Store(true)
	command := append(number(1), make([]byte, memTableBytes)...)
	for n.Failed() == nil {
		if _, err := n.Propose(context.Background(), 1, command); err != nil && !errors.Is(err, ErrFailed) {
			t.Fatal(err)
		}
	}
	for range 50 { // meanwhile there is time for thousands of tries
		other := mustOpen(t, testOptions(vfs.NewMem(), &counter{}))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := tries.Load(); got > 2 {
		t.Errorf("tried %d times", got)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
