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
	// Directories are the data directories, at least one.
	Directories []Directory
	Now         time.Time
	// Synchronized tells whether the kernel holds the clock for synchronized; Known whether it could be asked.
	Synchronized, SynchronizedKnown bool
}

// Directory is one data directory.
type Directory struct {
	// Path is absolute; empty: ProbedDir. Obstacle is the first part of it that is there and no directory, empty where
	// there is none.
	Path, Obstacle string
	// Probe is of ProbedDir, the data directory or, where that does not exist yet, the nearest directory above.
	Probe     diskio.Report
	ProbedDir string
	// FreeBytes and TotalBytes, FreeFiles and TotalFiles are those of the file system (0 totals: unknown).
	FreeBytes, TotalBytes uint64
	FreeFiles, TotalFiles uint64
	// Device is the number of the file system.
	Device uint64
}

// Limit is one resource limit. Infinity is the kernel's RLIM_INFINITY.
type Limit struct{ Current, Highest uint64 }

// Infinity is no limit.
const Infinity = ^uint64(0)

// System collects the facts of this machine for a broker with its data in dirs, at least one.
func System(dirs []string) Host {
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
	for _, dir := range dirs {
		h.Directories = append(h.Directories, directory(dir))
	}
	var timex unix.Timex
	if state, err := unix.Adjtimex(&timex); err == nil {
		h.SynchronizedKnown = true
		h.Synchronized = state != unix.TIME_ERROR && timex.Status&unix.STA_UNSYNC == 0
	}
	return h
}

func directory(dir string) (d Directory) {
	d.Path, d.ProbedDir, d.Obstacle = locate(dir)
	d.Probe = diskio.Probe(d.ProbedDir)
	var space unix.Statfs_t
	if unix.Statfs(d.ProbedDir, &space) == nil {
		unit := uint64(space.Frsize)
		d.FreeBytes, d.TotalBytes = space.Bavail*unit, space.Blocks*unit
		d.FreeFiles, d.TotalFiles = space.Ffree, space.Files
	}
	var stat unix.Stat_t
	if unix.Stat(d.ProbedDir, &stat) == nil {
		d.Device = stat.Dev
	}
	return d
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
