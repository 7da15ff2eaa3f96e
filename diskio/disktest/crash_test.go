package disktest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

func write(t testing.TB, d *Disk, path, text string, pos int64) {
	t.Helper()
	f, err := d.Open(path)
	if err != nil {
		f, err = d.Create(path)
	}
	noError(t, err)
	_, err = f.WriteAt([]byte(text), pos)
	noError(t, err)
	noError(t, f.Close())
}

func syncFile(t testing.TB, d *Disk, path string) {
	t.Helper()
	f, err := d.Open(path)
	noError(t, err)
	noError(t, f.Sync())
	noError(t, f.Close())
}

func read(t testing.TB, d *Disk, path string) string {
	t.Helper()
	f, err := d.OpenReadOnly(path)
	noError(t, err)
	size, err := f.Size()
	noError(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	noError(t, err)
	noError(t, f.Close())
	return string(b)
}

func wantNames(t testing.TB, d *Disk, dir string, want ...string) {
	t.Helper()
	names, err := d.List(dir)
	noError(t, err)
	if !slices.Equal(names, want) {
		t.Errorf("%s holds %q, want %q", dir, names, want)
	}
}

func TestCrashDropsWhatIsNotDurable(t *testing.T) {
	d := New(1)
	noError(t, d.MkdirAll("/data"))
	write(t, d, "/data/a", "durable", 0)
	write(t, d, "/data/b", "name only", 0)
	syncFile(t, d, "/data/a")
	noError(t, d.SyncDir("/data"))
	wantNames(t, d.Crash(CrashDrop), "/") // the directory's own name is not durable
	noError(t, d.SyncDir("/"))
	write(t, d, "/data/a", "changed, longer", 0)
	write(t, d, "/data/c", "new", 0)
	syncFile(t, d, "/data/c")
	noError(t, d.Rename("/data/b", "/data/d"))

	dropped := d.Crash(CrashDrop)
	wantNames(t, dropped, "/data", "a", "b")
	if a, b := read(t, dropped, "/data/a"), read(t, dropped, "/data/b"); a != "durable" || b != "" {
		t.Errorf("found %q and %q", a, b)
	}
	kept := d.Crash(CrashKeep)
	wantNames(t, kept, "/data", "a", "c", "d")
	if a, c := read(t, kept, "/data/a"), read(t, kept, "/data/c"); a != "changed, longer" || c != "new" {
		t.Errorf("found %q and %q", a, c)
	}
	noError(t, d.SyncDir("/data"))
	dropped = d.Crash(CrashDrop)
	wantNames(t, dropped, "/data", "a", "c", "d")
	if c := read(t, dropped, "/data/c"); c != "new" {
		t.Errorf("found %q", c)
	}
	// A second crash finds the same.
	wantNames(t, dropped.Crash(CrashDrop), "/data", "a", "c", "d")
}

func TestCrashTearsAtSectors(t *testing.T) {
	const sectors = 8
	full := func(c string) string { return string(bytes.Repeat([]byte(c), sectors*SectorBytes)) }
	seen := make(map[string]bool)
	for seed := range uint64(200) {
		for _, mode := range []CrashMode{CrashTear, CrashStale} {
			d := New(seed)
			write(t, d, "f", full("a"), 0)
			syncFile(t, d, "f")
			noError(t, d.SyncDir("/"))
			write(t, d, "f", full("b"), 0)
			write(t, d, "f", full("c"), sectors*SectorBytes)
			got := read(t, d.Crash(mode), "f")
			if len(got) < sectors*SectorBytes || len(got) > 2*sectors*SectorBytes {
				t.Fatalf("seed %d: %d bytes", seed, len(got))
			}
			for pos := 0; pos < len(got); pos += SectorBytes {
				sector := got[pos:min(pos+SectorBytes, len(got))]
				whole := string(bytes.Repeat([]byte(sector[:1]), len(sector))) == sector
				switch {
				case pos < sectors*SectorBytes && whole && (sector[0] == 'a' || sector[0] == 'b'):
					seen[fmt.Sprint("durable part ", sector[:1])] = true
				case pos >= sectors*SectorBytes && whole && (sector[0] == 'c' || sector[0] == 0):
					seen[fmt.Sprintf("grown part %q", sector[0])] = true
				case pos >= sectors*SectorBytes && mode == CrashStale:
					seen["stale"] = true
				default:
					t.Fatalf("seed %d, %v: sector at %d is torn", seed, mode, pos)
				}
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("only seen: %v", seen)
	}
}

func TestCrashIsDecidedByTheSeed(t *testing.T) {
	outcome := func(seed uint64) string {
		d := New(seed)
		for i := range 20 {
			write(t, d, fmt.Sprint("f", i), string(bytes.Repeat([]byte{byte(i)}, 5000)), 0)
			if i%3 == 0 {
				noError(t, d.SyncDir("/"))
			}
		}
		after := d.Crash(CrashMix)
		names, err := after.List("/")
		noError(t, err)
		all := fmt.Sprint(names)
		for _, name := range names {
			all += read(t, after, name)
		}
		return all
	}
	first := outcome(5)
	if again := outcome(5); again != first {
		t.Error("one seed, two outcomes")
	}
	if first == outcome(6) {
		t.Error("two seeds, one outcome")
	}
}

func TestCutEndsEverything(t *testing.T) {
	d := New(1)
	f, err := d.Create("f")
	noError(t, err)
	d.CutAfter(1)
	_, err = f.WriteAt([]byte("in"), 0)
	noError(t, err)
	_, err = f.WriteAt([]byte("out"), 2)
	wantError(t, err, ErrCut)
	if !d.IsCut() {
		t.Error("not cut")
	}
	wantError(t, f.Sync(), ErrCut)
	wantError(t, d.SyncDir("/"), ErrCut)
	_, err = d.PebbleFS().Create("g", "")
	wantError(t, err, ErrCut)
	_, err = d.List("/")
	wantError(t, err, ErrCut)
	noError(t, f.Close())
	if got := read(t, d.Crash(CrashKeep), "f"); got != "in" {
		t.Errorf("found %q", got)
	}
	wantNames(t, d.Crash(CrashDrop), "/")
}
