package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"millrace/perf"
)

// HostOf tells of this host and of the file system that dir lies on. What cannot be found out is left empty.
func HostOf(dir string) Host {
	h := Host{CPUs: runtime.NumCPU()}
	h.Name, _ = os.Hostname()
	h.Kernel = strings.TrimSpace(text("/proc/sys/kernel/osrelease"))
	h.CPU = field(text("/proc/cpuinfo"), "model name")
	if kb, _, ok := strings.Cut(field(text("/proc/meminfo"), "MemTotal"), " "); ok {
		n, _ := strconv.ParseInt(kb, 10, 64)
		h.MemoryBytes = n << 10
	}
	if dir, err := filepath.EvalSymlinks(dir); err == nil {
		h.FileSystem, h.Device, h.Mount = mountOf(text("/proc/self/mountinfo"), dir)
	}
	return h
}

func text(file string) string {
	raw, _ := os.ReadFile(file) // an empty text says that it is unknown
	return string(raw)
}

// field returns the value of the first "name : value" line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// mountOf finds the last mount on the longest part of dir: type, device and options.
func mountOf(mountinfo, dir string) (kind, device, options string) {
	longest := -1
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, rest := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 6 || len(rest) < 3 {
			continue
		}
		point := strings.ReplaceAll(fields[4], `\040`, " ")
		if point != "/" && point != dir && !strings.HasPrefix(dir, point+"/") || len(point) < longest {
			continue
		}
		longest = len(point)
		kind, device, options = rest[0], rest[1], fields[5]+"; "+rest[2]
	}
	return kind, device, options
}

// CPUs divides the processors for a placement: nil is all of them.
func CPUs(placement string, all []int) (broker, load []int) {
	if placement == Pinned && len(all) > 1 {
		return all[:1], all[1:]
	}
	return nil, nil
}

func cpuList(cpus []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")
}

// Place lets this process, the load, run on the given processors, nil: all.
func Place(load, all []int) error {
	if load == nil {
		load = all
	}
	if err := perf.SetProcessAffinity(load); err != nil {
		return fmt.Errorf("place the load: %w", err)
	}
	runtime.GOMAXPROCS(len(load))
	return nil
}

// FreeRoom returns the bytes that can still be written on the file system of dir, 0 where it cannot be told.
func FreeRoom(dir string) int64 {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil {
		return 0
	}
	return int64(stat.Bavail) * stat.Bsize
}
