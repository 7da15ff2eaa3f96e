package diskio

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"millrace/perf/perftest"
)

func TestProbe(t *testing.T) {
	dir := os.Getenv("MILLRACE_TEST_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	report := Probe(dir)
	t.Logf("%+v", report)
	if report.Err != nil {
		t.Fatal(report.Err)
	}
	if report.FileSystem == "" || report.Point == "" || report.Reason == "" {
		t.Error("the report has gaps")
	}
	if (report.Backend == BackendRing) != report.Uring {
		t.Errorf("recommends %s, io_uring %v", report.Backend, report.Uring)
	}
	if report.NowaitWrites != (report.NowaitReason == "") {
		t.Error("without a reason")
	}
	switch report.FileSystem {
	case "ext4":
		if report.NowaitWrites {
			t.Error("ext4 takes buffered writes without waiting: the design rests on the contrary")
		}
	case "xfs":
		if !report.NowaitWrites {
			t.Errorf("xfs does not: %s", report.NowaitReason)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || os.Getenv("MILLRACE_TEST_DIR") == "" && len(names) != 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	missing := Probe(dir + "/missing")
	if !errors.Is(missing.Err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v", missing.Err)
	}
	if _, err := Open(dir+"/missing", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opened a missing directory: %v", err)
	}
}

func TestExplainRefusal(t *testing.T) {
	f := func(err error, sysctl, reason, remedy string) {
		t.Helper()
		gotReason, gotRemedy := explainRefusal(fmt.Errorf("io_uring_setup: %w", err), sysctl)
		if !strings.Contains(gotReason, reason) || !strings.Contains(gotRemedy, remedy) {
			t.Errorf("%v, %q: %q; %q", err, sysctl, gotReason, gotRemedy)
		}
	}
	f(unix.ENOSYS, "", "ENOSYS", "Linux 5.10")
	f(unix.EPERM, "2", "io_uring_disabled is 2", "sysctl -w kernel.io_uring_disabled=0")
	f(unix.EPERM, "1", "io_uring_group", "io_uring_group")
	f(unix.EPERM, "0", "seccomp", "seccomp")
	f(unix.EACCES, "", "EACCES", "seccomp")
	f(unix.ENOMEM, "0", "locked memory", "ulimit -l")
	f(unix.EMFILE, "0", "descriptors", "ulimit -n")
	f(errRingTooOld, "0", "lacks", "Linux 5.10")
	f(unix.EIO, "0", "input/output", "posix")
}

func TestParseMountInfo(t *testing.T) {
	const table = `21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
22 21 0:20 / /proc rw - proc proc rw
30 21 7:0 / /mnt/a\040b rw,noatime shared:5 master:1 - xfs /dev/loop0 rw,attr2,inode64
31 30 0:33 / /mnt/a\040b/tmp rw - tmpfs tmpfs rw
32 31 7:1 / /mnt/a\040b/tmp ro - ext4 /dev/loop1 ro
broken line
`
	f := func(path string, want Mount) {
		t.Helper()
		if got, ok := parseMountInfo(table, path); !ok || got != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	f("/mnt/ax", Mount{"ext4", "/", "/dev/vda", "rw,relatime,rw,discard"})
	f("/mnt/a b", Mount{"xfs", "/mnt/a b", "/dev/loop0", "rw,noatime,rw,attr2,inode64"})
	f("/mnt/a b/c", Mount{"xfs", "/mnt/a b", "/dev/loop0", "rw,noatime,rw,attr2,inode64"})
	f("/mnt/a b/tmp/x", Mount{"ext4", "/mnt/a b/tmp", "/dev/loop1", "ro,ro"})
	if _, ok := parseMountInfo("", "/"); ok {
		t.Error("found a mount in nothing")
	}
}

func TestOptions(t *testing.T) {
	o := Options{Backend: "fast", RingEntries: 1}
	err := o.Validate()
	if err == nil || !strings.Contains(err.Error(), "fast") || !strings.Contains(err.Error(), "ring entries 1") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(t.TempDir(), o); err == nil {
		t.Error("opened with wrong options")
	}
}

// TestRefusedRing runs the child below, whose seccomp filter refuses io_uring as a container does.
func TestRefusedRing(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
		child := exec.Command(os.Args[0], "-test.run=^TestRefusedRingChild$", "-test.v")
		child.Env = append(os.Environ(), fmt.Sprintf("MILLRACE_TEST_REFUSE=%d", int(errno)))
		out, err := child.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", errno, err, out)
		}
		if bytes.Contains(out, []byte("SKIP")) {
			t.Skipf("%s", out)
		}
	}
}

func TestRefusedRingChild(t *testing.T) {
	var errno int
	if _, err := fmt.Sscan(os.Getenv("MILLRACE_TEST_REFUSE"), &errno); err != nil {
		t.Skip("runs as a child only")
	}
	// The filter stays on this thread, which ends with the test.
	runtime.LockOSThread()
	if err := perftest.RefuseCalls(unix.Errno(errno), unix.SYS_IO_URING_SETUP); err != nil {
		t.Skip(err)
	}
	var lines bytes.Buffer
	disk, err := Open(t.TempDir(), Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	if err != nil {
		t.Fatal(err)
	}
	name, reason := disk.Backend()
	if want := unix.ErrnoName(unix.Errno(errno)); name != BackendPosix || !strings.Contains(reason, want) {
		t.Errorf("took %s: %s", name, reason)
	}
	if strings.Count(lines.String(), "\n") != 1 || !strings.Contains(lines.String(), reason) {
		t.Errorf("logged %s", lines.String())
	}
	_, err = Open(t.TempDir(), Options{Backend: BackendRing})
	if !errors.Is(err, ErrRingRefused) || !strings.Contains(err.Error(), "seccomp profile") {
		t.Errorf("forced: %v", err)
	}
	if _, err := Open(t.TempDir(), Options{Backend: BackendPosix}); err != nil {
		t.Errorf("posix: %v", err)
	}
}
