package broker_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"millrace/cmd/broker/brokertest"
	"millrace/perf/perftest"
)

// nobody is the user of the scratch image.
const nobody = 65532

// TestContainer runs the program as the scratch image does: alone in its root but for a data directory, as a user without
// rights, and without the system calls that a container's default profile forbids.
func TestContainer(t *testing.T) {
	if os.Getuid() != 0 || brokertest.Outside() != "" {
		t.Skip("needs the right to change the root directory, for a broker of its own")
	}
	root := scratchRoot(t)
	addrs, err := brokertest.FreeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	b := &brokertest.Broker{Addr: addrs[0], AdminAddr: addrs[1]}
	serve := func() (stop func() string) {
		t.Helper()
		var log bytes.Buffer // read after the end
		cmd := inContainer(root, "serve", "--data-dir", "/data", "--listen", b.Addr, "--set", "millrace.admin.listen="+b.AdminAddr)
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop = func() string {
			cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, log.String())
			}
			return log.String()
		}
		brokertest.Eventually(t, "the broker in the container to be ready", func() bool {
			resp, err := http.Get("http://" + b.AdminAddr + "/readyz")
			if err == nil {
				resp.Body.Close()
			}
			return err == nil && resp.StatusCode == http.StatusOK || cmd.Process.Signal(syscall.Signal(0)) != nil
		})
		return stop
	}
	stop := serve()
	topic := b.NewTopic(t, 2, nil)
	c := brokertest.Dial(t, b.Addr)
	c.MustProduce(topic, 1, batchOf("a", "b"))
	want(t, "records", len(c.Records(topic, 1, 0)), 2)
	var overview struct {
		Disks []struct{ Backend, Reason string }
	}
	apiOf(t, b, "overview", &overview)
	want(t, "backend", overview.Disks[0].Backend, "posix")
	log := stop()
	told := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"level":"ERROR"`) {
			t.Errorf("%s", line)
		}
		if strings.Contains(line, "io_uring") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("io_uring is told of %d times in\n%s", told, log)
	}

	stop = serve()
	c = brokertest.Dial(t, b.Addr)
	c.MustProduce(topic, 1, batchOf("c"))
	want(t, "records after a start", len(c.Records(topic, 1, 0)), 3)
	stop()

	out, err := inContainer(root, "doctor", "--data-dir", "/data").Output()
	if err != nil || !strings.Contains(string(out), "io_uring: refused") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 2 {
		t.Errorf("in the root now: %v %v", entries, err)
	}
}

// scratchRoot makes a root directory with the program and an empty data directory.
func scratchRoot(t *testing.T) string {
	t.Helper()
	binary, err := brokertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	data := filepath.Join(root, "data")
	err = errors.Join(os.Chmod(root, 0o755), os.WriteFile(filepath.Join(root, "millrace"), program, 0o755), os.Mkdir(data, 0o755), os.Chown(data, nobody, nobody))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// inContainer returns the program with these arguments in such a root, by way of TestContainerChild.
func inContainer(root string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestContainerChild$", "--"}, args...)...)
	cmd.Env = []string{"MILLRACE_TEST_ROOT=" + root}
	return cmd
}

// TestContainerChild becomes the program in the container.
func TestContainerChild(t *testing.T) {
	root := os.Getenv("MILLRACE_TEST_ROOT")
	if root == "" {
		t.Skip("runs as a child only")
	}
	_, args, _ := strings.Cut(strings.Join(os.Args, "\x00"), "\x00--\x00")
	runtime.LockOSThread()
	err := errors.Join(syscall.Chroot(root), syscall.Chdir("/"), syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody),
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0)) // last: a change of the user takes it back
	if err == nil {
		err = perftest.RefuseCalls(unix.EPERM, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_CACHESTAT,
			unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_KEYCTL,
			unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_MOUNT, unix.SYS_CLOCK_SETTIME)
	}
	if err == nil {
		err = syscall.Exec("/millrace", append([]string{"/millrace"}, strings.Split(args, "\x00")...), []string{"PATH=/"})
	}
	t.Fatal(err)
}
