package netio

import (
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// runSelf runs the calling test in a process of its own with 256 descriptors and the given environment.
func runSelf(t *testing.T, environment string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `ulimit -n 256 && exec "$0" "$@"`,
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=30s")
	cmd.Env = append(os.Environ(), environment)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// 1,000 idle connections that have been served cost at most 8 KiB each of anonymous memory. The clients
// live in the process of the test, the server in one of its own.
func TestIdleConnectionMemory(t *testing.T) {
	if os.Getenv("NETIO_IDLE_SERVER") != "" {
		serveForParent(t)
		return
	}
	if testing.Short() {
		t.Skip("starts a process")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "NETIO_IDLE_SERVER=1")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	var address string
	_, err = fmt.Fscan(out, &address)
	must(t, err)
	anon := func() (bytes int64) {
		fmt.Fprintln(in, "measure")
		_, err := fmt.Fscan(out, &bytes)
		must(t, err)
		return bytes
	}
	visit := func(n int) []net.Conn {
		var all []net.Conn
		for range n {
			c, err := net.Dial("tcp", address)
			must(t, err)
			all = append(all, c)
			send(t, c, appendFrame(nil, make([]byte, 100)))
			receive(t, c)
		}
		return all
	}
	const n = 1000
	warm := visit(10)
	before := anon()
	all := visit(n)
	each := (anon() - before) / n
	t.Logf("%d bytes of anonymous memory a connection", each)
	if each > 8<<10 {
		t.Errorf("%d bytes a connection", each)
	}
	for _, c := range append(all, warm...) {
		c.Close()
	}
}

// serveForParent serves until stdin ends, and writes RssAnon for each line read.
func serveForParent(t *testing.T) {
	s := start(t, Options{Loops: 2})
	fmt.Println(s.Addresses()[0])
	var line string
	for {
		if _, err := fmt.Scan(&line); err != nil {
			return
		}
		debug.FreeOSMemory()
		fmt.Println(rssAnon(t))
	}
}

func rssAnon(t testing.TB) int64 {
	b, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, _ := strings.Cut(string(b), "RssAnon:")
	kib := int64(math.MinInt64)
	_, err = fmt.Sscan(rest, &kib)
	must(t, err)
	return kib << 10
}

// threadClock locks the loop to its thread and returns the processor seconds of that thread.
func threadClock(t testing.TB, l *Loop) func() float64 {
	var id int
	done := make(chan struct{})
	l.Post(taskFunc(func(*Loop) {
		runtime.LockOSThread()
		id = unix.Gettid()
		close(done)
	}))
	<-done
	return func() float64 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", id))
		must(t, err)
		var nanoseconds int64
		_, err = fmt.Sscan(string(b), &nanoseconds)
		must(t, err)
		return float64(nanoseconds) / 1e9
	}
}
