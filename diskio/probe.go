package diskio

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Report is what the probe of a directory found.
type Report struct {
	Dir string
	Mount
	// Uring tells whether this process may use io_uring; if not, UringReason says why and UringRemedy what
	// to do about it.
	Uring       bool
	UringReason string
	UringRemedy string
	// NowaitWrites tells whether the file system takes buffered writes without blocking (RWF_NOWAIT);
	// where it does not, io_uring hands each write to a worker thread. NowaitReason says why not.
	NowaitWrites bool
	NowaitReason string
	// Cachestat and PopulateRead tell whether the kernel has these calls (Linux 6.5 and 5.14); without them
	// mincore and reads stand in.
	Cachestat    bool
	PopulateRead bool
	// Backend is the recommended one, BackendRing or BackendPosix, and Reason says why.
	Backend string
	Reason  string
	// Err says that the directory could not be probed: it is missing, not writable or full.
	Err error
}

// Probe finds out what the host and the file system of dir can do, by trying. It writes 64 KiB into a file
// without a name in dir, and leaves nothing behind.
func Probe(dir string) Report {
	report, first := probe(dir, ringEntriesDefault)
	if first != nil {
		first.close()
	}
	return report
}

// probe is Probe; it also returns the ring that it made, nil where there is none.
func probe(dir string, entries int) (Report, *ring) {
	report := Report{Dir: dir, Mount: findMount(dir)}
	pages := probePages()
	report.Cachestat, report.PopulateRead = pages.cachestat, pages.populate
	if report.NowaitReason, report.Err = probeNowait(dir); report.Err == nil {
		report.NowaitWrites = report.NowaitReason == ""
	}
	first, ringErr := openRing(entries)
	report.Uring = ringErr == nil
	if ringErr != nil {
		report.UringReason, report.UringRemedy = explainRefusal(ringErr, uringSysctl())
	}
	report.recommend()
	return report, first
}

func (r *Report) recommend() {
	switch {
	case !r.Uring:
		r.Backend = BackendPosix
		r.Reason = r.UringReason
	case r.NowaitWrites:
		r.Backend = BackendRing
		r.Reason = r.FileSystem + " takes buffered writes without blocking: batches of writes and syncs go through the ring"
	default:
		r.Backend = BackendRing
		r.Reason = r.FileSystem + " does not take buffered writes without blocking: writes by plain calls, batches of syncs through the ring"
	}
}

// probeWriteBytes is the size of the probe's file; probeWrites of its pages are written without waiting, of
// which most must go through: one may meet a lock by chance.
const (
	probeWriteBytes = 64 << 10
	probeWrites     = 8
)

// probeNowait overwrites written and preallocated bytes of a file without waiting. The reason is empty where
// that works.
func probeNowait(dir string) (reason string, err error) {
	fd, err := openProbe(dir)
	if err != nil {
		return "", fmt.Errorf("probe %s: %w", dir, err)
	}
	defer func() { _ = unix.Close(fd) }()
	// Not every file system preallocates; the write below is what counts.
	_ = unix.Fallocate(fd, 0, 0, probeWriteBytes)
	content := [][]byte{make([]byte, probeWriteBytes)}
	var whole vector
	whole.begin(&WriteOp{Bufs: content})
	if err := whole.writeRest(fd, pwritev); err != nil {
		return "", fmt.Errorf("probe %s: %w", dir, err)
	}
	const pageBytes = probeWriteBytes / probeWrites
	done := 0
	for i := range probeWrites {
		page := [][]byte{content[0][:pageBytes]}
		n, err := unix.Pwritev2(fd, page, int64(i*pageBytes), unix.RWF_NOWAIT)
		if err == nil && n == pageBytes {
			done++
		} else if err != nil && err != unix.EINTR {
			reason = err.Error()
		}
	}
	if done > probeWrites/2 {
		return "", nil
	}
	if reason == "" {
		reason = "writes came back short"
	}
	return reason, nil
}

// openProbe opens a file in dir that goes away with its descriptor.
func openProbe(dir string) (int, error) {
	fd, err := openRetry(dir, unix.O_TMPFILE|unix.O_RDWR)
	if err != unix.EOPNOTSUPP && err != unix.EISDIR && err != unix.EINVAL {
		return fd, err
	}
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return -1, err
	}
	defer func() { _ = f.Close() }()
	if err := os.Remove(f.Name()); err != nil {
		return -1, err
	}
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// uringSysctl returns kernel.io_uring_disabled, empty where the kernel has no such switch.
func uringSysctl() string {
	value, err := os.ReadFile("/proc/sys/kernel/io_uring_disabled")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(value))
}

// explainRefusal says why io_uring_setup failed and what helps.
func explainRefusal(err error, sysctl string) (reason, remedy string) {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return "io_uring is refused (ENOSYS): the kernel is built without it, or a container policy hides it",
			"use Linux 5.10 or later with CONFIG_IO_URING, or allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile"
	case errors.Is(err, unix.EPERM) && sysctl == "2":
		return "io_uring is refused (EPERM): kernel.io_uring_disabled is 2",
			"sysctl -w kernel.io_uring_disabled=0"
	case errors.Is(err, unix.EPERM) && sysctl == "1":
		return "io_uring is refused (EPERM): kernel.io_uring_disabled is 1, which allows only CAP_SYS_ADMIN and members of kernel.io_uring_group",
			"sysctl -w kernel.io_uring_disabled=0, or put the user into the group of kernel.io_uring_group"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "io_uring is refused (" + errnoName(err) + "): a seccomp profile or security module forbids it",
			"allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile"
	case errors.Is(err, unix.ENOMEM):
		return "io_uring is refused (ENOMEM): locked memory is short", "raise the limit of locked memory: ulimit -l 65536"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "io_uring is refused (" + errnoName(err) + "): file descriptors are short", "raise the limit of open files: ulimit -n 65536"
	case errors.Is(err, errRingTooOld):
		return "io_uring of this kernel lacks what is needed", "use Linux 5.10 or later"
	default:
		return "io_uring is refused: " + err.Error(), "set the backend to posix"
	}
}

func errnoName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}
