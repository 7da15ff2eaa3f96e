package diskio_test

import (
	"errors"
	"os"
	"testing"

	"millrace/diskio"
	"millrace/diskio/disktest"
)

// testDir returns an empty directory. MILLRACE_TEST_DIR moves it to the file system to be tested.
func testDir(t testing.TB) string {
	t.Helper()
	base := os.Getenv("MILLRACE_TEST_DIR")
	if base == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(base, "diskio-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// openBackend opens a backend on a directory, and skips the test where the host refuses the ring.
func openBackend(t testing.TB, o diskio.Options) (diskio.FS, string) {
	t.Helper()
	dir := testDir(t)
	disk, err := diskio.Open(dir, o)
	if errors.Is(err, diskio.ErrRingRefused) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	return disk, dir
}

func TestSuite(t *testing.T) {
	for name, o := range map[string]diskio.Options{
		"posix":     {Backend: diskio.BackendPosix},
		"ring":      {Backend: diskio.BackendRing},
		"ringOfTwo": {Backend: diskio.BackendRing, RingEntries: 2},
		"auto":      {},
	} {
		t.Run(name, func(t *testing.T) {
			disktest.RunSuite(t, func(t *testing.T) (diskio.FS, string) { return openBackend(t, o) })
		})
	}
}
