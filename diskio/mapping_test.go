package diskio

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// coldFile makes a file of size bytes whose pages are not in the page cache, where the file system can.
func coldFile(t *testing.T, size int) *file {
	t.Helper()
	dir := os.Getenv("MILLRACE_TEST_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, filepath.Base(t.Name()))
	created, err := newPosixFS("test").Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f := created.(*file)
	t.Cleanup(func() { _ = f.Close(); _ = os.Remove(path) })
	if _, err := f.WriteAt(make([]byte, size), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(f.fd.get(), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	return f
}

// hosts returns the ways of asking about pages: what the kernel has, and what stands in on older ones.
func hosts() map[string]*pageHost {
	return map[string]*pageHost{
		"kernel": probePages(),
		"old":    {pageBytes: probePages().pageBytes},
	}
}

func TestLoadMakesColdPagesResident(t *testing.T) {
	for name, host := range hosts() {
		t.Run(name, func(t *testing.T) {
			const size = 6 << 20 // more than one call of mincore looks at
			f := coldFile(t, size)
			opened, err := f.Map(size)
			if err != nil {
				t.Fatal(err)
			}
			m := opened.(*mapping)
			m.host = host
			defer func() { _ = m.Unmap() }()
			if m.Resident(0, size) {
				t.Skip("this file system keeps its pages")
			}
			if err := m.Load(size/2, size); err != nil {
				t.Fatal(err)
			}
			if !m.Resident(size/2, size) || m.Resident(0, size) || m.Resident(0, 4096) {
				t.Error("other pages are resident than were loaded")
			}
			if err := m.Load(0, size); err != nil {
				t.Fatal(err)
			}
			if !m.Resident(0, size) {
				t.Error("loaded, but not resident")
			}
			f.loads.Add(1) // as if another Load ran: mincore answers
			if !m.Resident(0, size) {
				t.Error("mincore does not see what is loaded")
			}
			f.loads.Add(-1)
		})
	}
}

func TestReleasePreallocatedGivesBlocksBack(t *testing.T) {
	f := coldFile(t, 4096)
	blocks := func() int64 {
		var stat unix.Stat_t
		if err := unix.Fstat(f.fd.get(), &stat); err != nil {
			t.Fatal(err)
		}
		return stat.Blocks
	}
	if err := f.Preallocate(4096, 8<<20); err != nil {
		t.Skip(err)
	}
	if blocks() < 8<<20/512 {
		t.Fatalf("%d blocks after preallocation", blocks())
	}
	if err := f.ReleasePreallocated(); err != nil {
		t.Fatal(err)
	}
	if blocks() > 1<<20/512 {
		t.Errorf("%d blocks after release", blocks())
	}
}
