package disktest

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/diskio"
)

// quiet drops what Pebble logs; a fatal error ends the goroutine's work with a panic that the test catches.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func openPebble(t testing.TB, d *Disk) *pebble.DB {
	t.Helper()
	db, err := pebble.Open("/data/index", &pebble.Options{
		FS:                 d.PebbleFS(),
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             quiet{},
		MemTableSize:       64 << 10,
	})
	noError(t, err)
	return db
}

// Pebble over the disk keeps what it acknowledged as synced, whatever the power cut leaves of the rest.
func TestPebbleSurvivesCrashes(t *testing.T) {
	for _, mode := range CrashModes() {
		for seed := range uint64(2) {
			d := New(seed)
			noError(t, d.MkdirAll("/data/index"))
			noError(t, d.SyncDir("/"))
			noError(t, d.SyncDir("/data"))
			const keys = 200
			for round := range 2 {
				db := openPebble(t, d)
				for i := range keys {
					value := fmt.Appendf(nil, "%d-%0300d", round, i)
					write := pebble.NoSync
					if i < keys/2 {
						write = pebble.Sync
					}
					noError(t, db.Set(fmt.Appendf(nil, "%d/%d", round, i), value, write))
					if i == keys/4 {
						noError(t, db.Flush())
					}
				}
				after := d.Crash(mode)
				noError(t, db.Close())
				d = after
				db = openPebble(t, d)
				for i := range keys / 2 {
					value, closer, err := db.Get(fmt.Appendf(nil, "%d/%d", round, i))
					if err != nil || string(value) != fmt.Sprintf("%d-%0300d", round, i) {
						t.Fatalf("seed %d, %v: key %d of round %d: %q, %v", seed, mode, i, round, value, err)
					}
					noError(t, closer.Close())
				}
				noError(t, db.Close())
			}
		}
	}
}

func TestPebbleFS(t *testing.T) {
	d := New(1)
	p := d.PebbleFS()
	noError(t, p.MkdirAll("a/b", 0o755))
	f, err := p.Create("a/b/f", vfs.WriteCategoryUnspecified)
	noError(t, err)
	for _, text := range []string{"hello ", "world"} {
		_, err = f.Write([]byte(text))
		noError(t, err)
	}
	noError(t, f.Preallocate(0, 100))
	noError(t, f.Close())
	noError(t, p.Link("a/b/f", "a/linked"))
	if p.Link("a/b/f", "a/linked") == nil {
		t.Error("a link replaced a file")
	}
	g, err := p.Open("a/linked", vfs.SequentialReadsOption)
	noError(t, err)
	got, err := io.ReadAll(g)
	noError(t, err)
	if string(got) != "hello world" {
		t.Errorf("read %q", got)
	}
	if _, err := g.Write([]byte("x")); err == nil {
		t.Error("a file opened for reading was written")
	}
	noError(t, g.Close())

	// A file that is created again is another one; the link keeps the first.
	f, err = p.Create("a/b/f", vfs.WriteCategoryUnspecified)
	noError(t, err)
	noError(t, f.Close())
	info, err := p.Stat("a/linked")
	noError(t, err)
	if info.Size() != 11 || info.Name() != "linked" || info.IsDir() {
		t.Errorf("stat says %d, %q", info.Size(), info.Name())
	}

	reused, err := p.ReuseForWrite("a/linked", "a/reused", vfs.WriteCategoryUnspecified)
	noError(t, err)
	_, err = reused.Write([]byte("HELLO"))
	noError(t, err)
	noError(t, reused.Sync())
	noError(t, reused.Close())
	if got := read(t, d, "a/reused"); got != "HELLO world" {
		t.Errorf("read %q", got)
	}

	dir, err := p.OpenDir("a")
	noError(t, err)
	noError(t, dir.Sync())
	noError(t, dir.Close())
	root, err := p.OpenDir("/")
	noError(t, err)
	noError(t, root.Sync())
	noError(t, root.Close())
	names, err := d.Crash(CrashDrop).PebbleFS().List("a")
	noError(t, err)
	if !slices.Equal(names, []string{"b", "reused"}) {
		t.Errorf("listed %q", names)
	}

	held, err := p.Lock("LOCK")
	noError(t, err)
	_, err = d.Lock("LOCK")
	wantError(t, err, diskio.ErrLocked)
	noError(t, held.Close())
	held, err = p.Lock("LOCK")
	noError(t, err)
	noError(t, held.Close())
	usage, err := p.GetDiskUsage("a")
	noError(t, err)
	if usage.UsedBytes == 0 || usage.AvailBytes+usage.UsedBytes != usage.TotalBytes {
		t.Errorf("usage %+v", usage)
	}
}
