package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"millrace/diskio"
)

// Host is where the facts come from. System reads those of this machine; tests make their own.
type Host struct {
	// ReadFile returns the text of a file below /proc or /sys.
	ReadFile func(path string) (string, error)
	// Kernel is the release, as uname prints it.
	Kernel string
	// OpenFiles and LockedMemory are the limits of this process, current and the highest it may set.
	OpenFiles, LockedMemory Limit
	// DataDir is the data directory, absolute; empty: ProbedDir. Obstacle is the first part of its path that is
	// there and no directory, empty where there is none.
	DataDir, Obstacle string
	// Probe is of ProbedDir, the data directory or, where that does not exist yet, the nearest directory above.
	Probe     diskio.Report
	ProbedDir string
	// FreeBytes and TotalBytes, FreeFiles and TotalFiles are those of the file system (0 totals: unknown).
	FreeBytes, TotalBytes uint64
	FreeFiles, TotalFiles uint64
	Now                   time.Time
	// Synchronized tells whether the kernel holds the clock for synchronized; Known whether it could be asked.
	Synchronized, SynchronizedKnown bool
}

// Limit is one resource limit. Infinity is the kernel's RLIM_INFINITY.
type Limit struct{ Current, Highest uint64 }

// Infinity is no limit.
const Infinity = ^uint64(0)

// System collects the facts of this machine for a broker with its data in dir.
func System(dir string) Host {
	h := Host{
		ReadFile: func(path string) (string, error) {
			b, err := os.ReadFile(path)
			return strings.TrimSpace(string(b)), err
		},
		Now: time.Now(),
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	h.OpenFiles = limit(unix.RLIMIT_NOFILE)
	h.LockedMemory = limit(unix.RLIMIT_MEMLOCK)
	h.DataDir, h.ProbedDir, h.Obstacle = locate(dir)
	h.Probe = diskio.Probe(h.ProbedDir)
	var stat unix.Statfs_t
	if unix.Statfs(h.ProbedDir, &stat) == nil {
		unit := uint64(stat.Frsize)
		h.FreeBytes, h.TotalBytes = stat.Bavail*unit, stat.Blocks*unit
		h.FreeFiles, h.TotalFiles = stat.Ffree, stat.Files
	}
	var timex unix.Timex
	if state, err := unix.Adjtimex(&timex); err == nil {
		h.SynchronizedKnown = true
		h.Synchronized = state != unix.TIME_ERROR && timex.Status&unix.STA_UNSYNC == 0
	}
	return h
}

func limit(resource int) Limit {
	var r unix.Rlimit
	if unix.Getrlimit(resource, &r) != nil {
		return Limit{}
	}
	return Limit{Current: r.Cur, Highest: r.Max}
}

// locate returns dir as an absolute path, it or the nearest directory above it that is there, and what stands
// in its way.
func locate(dir string) (absolute, existing, obstacle string) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return dir, dir, ""
	}
	path := absolute
	for {
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			return absolute, path, obstacle
		}
		if err == nil {
			obstacle = path
		}
		above := filepath.Dir(path)
		if above == path {
			return absolute, path, obstacle
		}
		path = above
	}
}
