package doctor

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/diskio"
)

// healthy is a host with nothing to find.
func healthy() (Host, map[string]string) {
	files := map[string]string{
		"/proc/sys/vm/max_map_count":                                       "65530",
		"/proc/sys/vm/dirty_ratio":                                         "20",
		"/proc/sys/vm/dirty_background_ratio":                              "10",
		"/proc/sys/vm/swappiness":                                          "60",
		"/proc/swaps":                                                      "Filename Type Size Used Priority",
		"/sys/kernel/mm/transparent_hugepage/enabled":                      "always [madvise] never",
		"/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
	}
	h := Host{
		ReadFile: func(path string) (string, error) {
			if text, ok := files[path]; ok {
				return text, nil
			}
			return "", fs.ErrNotExist
		},
		Kernel: "6.18.4-arch1", OpenFiles: Limit{1 << 20, 1 << 20}, LockedMemory: Limit{8 << 20, Infinity},
		Directories: []Directory{{ProbedDir: "/d", FreeBytes: 100 << 30, TotalBytes: 200 << 30, FreeFiles: 1e6, TotalFiles: 2e6, Device: 1,
			Probe: diskio.Report{Dir: "/d", Mount: diskio.Mount{FileSystem: "xfs", Point: "/d", Options: "rw,noatime"}, Uring: true, Cachestat: true,
				NowaitWrites: true, Backend: "ring"}}},
		Now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), SynchronizedKnown: true, Synchronized: true,
	}
	return h, files
}

func TestCheck(t *testing.T) {
	f := func(check string, level Level, repair string, change func(h *Host, files map[string]string)) {
		t.Helper()
		h, files := healthy()
		change(&h, files)
		for _, found := range Check(h) {
			want := OK
			if found.Check == check {
				want = level
				if !strings.Contains(found.Repair, repair) {
					t.Errorf("%s: repair %q does not hold %q", check, found.Repair, repair)
				}
			}
			if found.Level != want {
				t.Errorf("change of %q: %+v, want level %s", check, found, want)
			}
		}
	}
	f("", OK, "", func(*Host, map[string]string) {})
	f("data directory", Note, "check the path", func(h *Host, _ map[string]string) { h.Directories[0].Path = "/d/missing" })
	f("data directory", Serious, "another path", func(h *Host, _ map[string]string) {
		h.Directories[0].Path, h.Directories[0].Obstacle = "/d/x/y", "/d/x"
	})
	f("kernel", Warning, "5.10", func(h *Host, _ map[string]string) { h.Kernel = "5.4.0-42-generic" })
	f("kernel", Note, "6.5", func(h *Host, _ map[string]string) { h.Directories[0].Probe.Cachestat = false })
	f("kernel", Note, "", func(h *Host, _ map[string]string) { h.Kernel = "odd" })
	f("io_uring", Warning, "sysctl -w", func(h *Host, _ map[string]string) {
		p := &h.Directories[0].Probe
		p.Uring, p.UringReason, p.UringRemedy = false, "refused", "sysctl -w kernel.io_uring_disabled=0"
	})
	f("file system", Serious, "mkdir -p /d", func(h *Host, _ map[string]string) { h.Directories[0].Probe.Err = errors.New("not writable") })
	f("file system", Warning, "disk", func(h *Host, _ map[string]string) { h.Directories[0].Probe.FileSystem = "tmpfs" })
	f("file system", Warning, "local", func(h *Host, _ map[string]string) { h.Directories[0].Probe.FileSystem = "nfs4" })
	f("file system", Warning, "remount,barrier", func(h *Host, _ map[string]string) { h.Directories[0].Probe.Options = "rw,noatime,nobarrier" })
	f("file system", Note, "noatime", func(h *Host, _ map[string]string) { h.Directories[0].Probe.Options = "rw" })
	f("free space", Serious, "du", func(h *Host, _ map[string]string) { h.Directories[0].FreeBytes = 1 << 20 })
	f("free space", Warning, "retention.bytes", func(h *Host, _ map[string]string) { h.Directories[0].FreeBytes = 5 << 30 })
	f("free inodes", Warning, "inodes", func(h *Host, _ map[string]string) { h.Directories[0].FreeFiles = 100 })
	f("open files", Serious, "LimitNOFILE", func(h *Host, _ map[string]string) { h.OpenFiles = Limit{1024, 1024} })
	f("open files", Note, "ulimit -n", func(h *Host, _ map[string]string) { h.OpenFiles = Limit{1024, 20000} })
	f("vm.max_map_count", Warning, "sysctl -w vm.max_map_count", func(_ *Host, files map[string]string) { files["/proc/sys/vm/max_map_count"] = "1000" })
	f("transparent huge pages", Note, "echo madvise", func(_ *Host, files map[string]string) {
		files["/sys/kernel/mm/transparent_hugepage/enabled"] = "[always] madvise never"
	})
	f("dirty ratios", Warning, "vm.dirty_ratio=40", func(_ *Host, files map[string]string) { files["/proc/sys/vm/dirty_ratio"] = "5" })
	f("vm.swappiness", Note, "swappiness=1", func(_ *Host, files map[string]string) { files["/proc/swaps"] += "\n/dev/sda2 partition 1 0 -2" })
	f("clock", Serious, "timedatectl", func(h *Host, _ map[string]string) { h.Now = time.Unix(0, 0) })
	f("clock", Note, "timedatectl", func(h *Host, _ map[string]string) { h.Synchronized = false })
	f("clock source", Note, "tsc", func(_ *Host, files map[string]string) {
		files["/sys/devices/system/clocksource/clocksource0/current_clocksource"] = "hpet"
	})
}

func TestSystem(t *testing.T) {
	dir := t.TempDir()
	h := System([]string{dir + "/not/there/yet"})
	if d := h.Directories[0]; d.ProbedDir != dir || d.Probe.Err != nil || h.Kernel == "" || d.TotalBytes == 0 || h.OpenFiles.Current == 0 {
		t.Errorf("facts of this host: %+v", h)
	}
	for _, f := range Check(h) {
		if f.Level != OK && f.Says == "" {
			t.Errorf("%+v does not say what is wrong", f)
		}
	}
}

// TestDirectories holds that each of several is checked, that what is found names it, and that two on one disk are told.
func TestDirectories(t *testing.T) {
	h, _ := healthy()
	first := h.Directories[0]
	full, beside := first, first
	first.Path = "/d"
	full.Path, full.ProbedDir, full.Device, full.FreeBytes = "/full", "/full", 2, 1<<20
	beside.Path, beside.ProbedDir = "/d2", "/d2"
	h.Directories = []Directory{first, full, beside}
	levels, of := map[string]Level{}, map[string]int{}
	for _, f := range Check(h) {
		of[f.Directory]++
		if f.Level != OK {
			levels[f.Directory+" "+f.Check] = f.Level
		}
	}
	if want := map[string]Level{"/full free space": Serious, "/d2 disk of its own": Note}; !maps.Equal(levels, want) {
		t.Errorf("found %v, want %v", levels, want)
	}
	if want := map[string]int{"": 10, "/d": 5, "/full": 5, "/d2": 5}; !maps.Equal(of, want) {
		t.Errorf("checks %v, want %v", of, want)
	}
}

func TestLocate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(dir, wantExisting, wantObstacle string) {
		t.Helper()
		if absolute, existing, obstacle := locate(dir); absolute != dir || existing != wantExisting || obstacle != wantObstacle {
			t.Errorf("%s: %s, %s, %q", dir, absolute, existing, obstacle)
		}
	}
	f(dir, dir, "")
	f(filepath.Join(dir, "a", "b"), dir, "")
	f(filepath.Join(file, "b"), dir, file)
}
