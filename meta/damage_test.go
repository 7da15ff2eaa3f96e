package meta

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Overwritten bytes of a table of the store ended the process with a panic of a goroutine of Pebble's. Damage
// in any place of it ends Open with an error, or goes unnoticed where nothing reads it any more.
func TestDamagedTableIsAnErrorNotAPanic(t *testing.T) {
	options := func(dir string) Options {
		return Options{Dir: dir, NodeID: 1, Machines: map[uint8]Machine{1: &counter{}}, Logger: slog.New(slog.DiscardHandler)}
	}
	dir := filepath.Join(t.TempDir(), "meta")
	for range 3 { // starts leave tables behind, which the next ones compact
		n := mustOpen(t, options(dir))
		for i := range uint64(20) {
			mustPropose(t, n, i)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	refused := 0
	for _, table := range tables {
		size := fileSize(t, table)
		for at := int64(0); at+8 <= size; at += max(size/12, 1) {
			copied := filepath.Join(t.TempDir(), "meta")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			overwrite(t, filepath.Join(copied, filepath.Base(table)), at)
			n, err := Open(t.Context(), options(copied))
			if err == nil {
				closeSoon(t, n)
				continue
			}
			refused++
			if !strings.Contains(err.Error(), "restore "+copied+" from a backup") {
				t.Errorf("%s at %d: no way out in %q", filepath.Base(table), at, err)
			}
			if errors.Is(err, ErrInUse) || errors.Is(err, ErrIdentity) {
				t.Errorf("%s at %d: %v", filepath.Base(table), at, err)
			}
		}
	}
	if refused == 0 {
		t.Error("no damage was found")
	}
}

// closeSoon closes a node that may have failed meanwhile.
func closeSoon(t *testing.T, n *Node) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- n.Close() }()
	select {
	case err := <-closed:
		if err != nil && n.Failed() == nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Close does not end")
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func overwrite(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("XXXXXXXX"), at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
