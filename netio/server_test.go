package netio

import (
	"context"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStopWaitsForDueAnswers(t *testing.T) {
	var k keeper
	s := start(t, Options{Loops: 2, Handler: &handler{onFrame: k.keep}})
	idle, busy := dial(t, s), dial(t, s)
	send(t, busy, appendFrame(nil, []byte("due")))
	eventually(t, "open", func() bool { return k.n.Load() == 1 && s.metrics.ConnectionsOpen.Load() == 2 })
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	closedByPeer(t, idle)
	if c, err := net.Dial("tcp", s.Addresses()[0]); err == nil {
		c.Close()
		t.Error("accepted while stopping")
	}
	send(t, busy, appendFrame(nil, []byte("late"))) // not read any more
	select {
	case err := <-stopped:
		t.Fatalf("stopped before the answer: %v", err)
	default:
	}
	k.finish(func(x *Exchange) { x.Reply(reply(x, make([]byte, 3<<20))) })
	if got := receive(t, busy); len(got) != 3<<20 {
		t.Fatalf("got %d bytes", len(got))
	}
	must(t, <-stopped)
	if k.n.Load() != 1 {
		t.Error("a request was taken while stopping")
	}
}

func TestStopGivesUpAfterDrainTimeout(t *testing.T) {
	var k keeper
	closed := make(chan *Conn, 1)
	s := start(t, Options{DrainTimeout: 30 * time.Millisecond,
		Handler: &handler{onFrame: k.keep, onClose: func(c *Conn) { closed <- c }}})
	c := dial(t, s)
	send(t, c, appendFrame(nil, []byte("never answered")))
	eventually(t, "open", func() bool { return k.n.Load() == 1 })
	if err := s.Stop(context.Background()); err == nil {
		t.Fatal("no error")
	}
	<-closed
	closedByPeer(t, c)
}

func TestSeveralListenersAndFamilies(t *testing.T) {
	names := make(chan string, 1)
	s := start(t, Options{
		Listeners: []Listener{{"INTERNAL", "localhost:0"}, {"EXTERNAL", "[::1]:0"}, {"ANY", ":0"}},
		Handler:   &handler{onOpen: func(c *Conn) { names <- c.Listener() + " " + c.RemoteAddress() }},
	})
	for i, n := range s.options.Listeners {
		c, err := net.Dial("tcp", s.Addresses()[i])
		must(t, err)
		if got, want := <-names, n.Name+" "+c.LocalAddr().String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		c.Close()
	}
}

func TestBusyPortNamesAddressAndRemedy(t *testing.T) {
	s := start(t, Options{})
	o := Options{Handler: &handler{}, Listeners: []Listener{{"PLAINTEXT", s.Addresses()[0]}}}
	_, err := Start(o)
	if err == nil || !strings.Contains(err.Error(), s.Addresses()[0]) || !strings.Contains(err.Error(), "choose another port") {
		t.Fatalf("error %v", err)
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := Start(Options{Loops: -1, FrameBytesMax: -1, Listeners: []Listener{{"A", "nonsense"}}})
	for _, want := range []string{"no handler", "loops", "frame bytes", "nonsense"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

func TestConnectionLimits(t *testing.T) {
	s := start(t, Options{ConnectionsMax: 3, ConnectionsMaxPerAddress: -1,
		ConnectionsMaxOverrides: map[string]int{"127.0.0.1": 10, "127.0.0.2": 1}})
	from := func(address string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}
		c, err := d.Dial("tcp", s.Addresses()[0])
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	served := func(c net.Conn) {
		t.Helper()
		send(t, c, appendFrame(nil, []byte("hello")))
		receive(t, c)
	}
	second := from("127.0.0.2")
	served(second)
	closedByPeer(t, from("127.0.0.2"))
	if s.metrics.RefusedPerAddress.Load() != 1 {
		t.Error("refusal by address not counted")
	}
	served(from("127.0.0.1"))
	served(from("127.0.0.1"))
	closedByPeer(t, from("127.0.0.1"))
	if s.metrics.RefusedTotal.Load() != 1 {
		t.Error("refusal by total not counted")
	}
	second.Close()
	eventually(t, "place free", func() bool { return s.metrics.ConnectionsOpen.Load() == 2 })
	closedByPeer(t, from("127.0.0.3")) // without an override
	served(from("127.0.0.1"))

	must(t, s.Limit(Limits{Max: 5, PerAddress: 1}))
	served(from("127.0.0.3"))
	closedByPeer(t, from("127.0.0.3"))
	served(from("127.0.0.4"))
	closedByPeer(t, from("127.0.0.5"))
	if s.metrics.RefusedTotal.Load() != 2 || s.metrics.ConnectionsMax.Load() != 5 {
		t.Errorf("limits changed: %d refused, limit %d", s.metrics.RefusedTotal.Load(), s.metrics.ConnectionsMax.Load())
	}
}

// Without descriptors accepting pauses instead of spinning, what is open is served, and accepting goes
// on when descriptors are free. The limit is lowered in a process of its own.
func TestK17AcceptWithoutDescriptors(t *testing.T) {
	if os.Getenv("NETIO_FEW_DESCRIPTORS") == "" {
		runSelf(t, "NETIO_FEW_DESCRIPTORS=1")
		return
	}
	// The dialer and the server share the process and so its descriptors: dial all but the last beforehand.
	s := start(t, Options{Loops: 1})
	served := dial(t, s)
	send(t, served, appendFrame(nil, []byte("x")))
	receive(t, served)
	late, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(late)
	var hogs []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		hogs = append(hogs, f)
	}
	_, port, _ := net.SplitHostPort(s.Addresses()[0])
	n, _ := strconv.Atoi(port)
	must(t, unix.Connect(late, &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}}))
	eventually(t, "pause", func() bool { return s.metrics.AcceptPauses.Load() > 0 })
	begin, before := time.Now(), s.metrics.AcceptPauses.Load()
	for time.Since(begin) < 3*acceptPause {
		send(t, served, appendFrame(nil, []byte("x")))
		receive(t, served)
	}
	if n := s.metrics.AcceptPauses.Load() - before; n > 4 {
		t.Errorf("%d accepts failed in %v", n, time.Since(begin))
	}
	for _, f := range hogs {
		f.Close()
	}
	eventually(t, "accepted", func() bool { return s.metrics.ConnectionsOpen.Load() == 2 })
}

func TestConnectionsMaxRespectsDescriptors(t *testing.T) {
	if os.Getenv("NETIO_FEW_DESCRIPTORS") == "" {
		runSelf(t, "NETIO_FEW_DESCRIPTORS=1")
		return
	}
	s := start(t, Options{})
	if n := s.metrics.ConnectionsMax.Load(); n != 256-128 {
		t.Fatalf("limit %d", n)
	}
}

// 500 connections, half of them reset in the middle of a request, leave no descriptor or goroutine.
func TestL05ConnectsAndResetsLeaveNothing(t *testing.T) {
	var k keeper
	s := start(t, Options{Loops: 2, Handler: &handler{onFrame: func(x *Exchange) {
		if len(x.Frame)%2 == 0 {
			k.keep(x)
			return
		}
		echo(x)
	}}})
	warm := dial(t, s)
	warm.Close()
	eventually(t, "quiet", func() bool { return s.metrics.ConnectionsOpen.Load() == 0 })
	before, goroutines := descriptors(t), runtime.NumGoroutine()
	var wait sync.WaitGroup
	for w := range 10 {
		wait.Go(func() {
			for i := range 50 {
				c, err := net.Dial("tcp", s.Addresses()[0])
				if err != nil {
					t.Error(err)
					return
				}
				frame := appendFrame(nil, make([]byte, 1+(w*50+i)*400))
				if i%2 == 0 {
					_, _ = c.Write(frame[:len(frame)/2])
					_ = c.(*net.TCPConn).SetLinger(0)
				} else {
					_, _ = c.Write(frame)
				}
				c.Close()
			}
		})
	}
	wait.Wait()
	eventually(t, "all closed", func() bool {
		return s.metrics.ConnectionsTotal.Load() == 501 && s.metrics.ConnectionsOpen.Load() == k.openConns()
	})
	k.finish(echo)
	eventually(t, "all closed", func() bool { return s.metrics.ConnectionsOpen.Load() == 0 })
	balanced(t, s)
	eventually(t, "descriptors back", func() bool { return len(descriptors(t)) <= len(before) })
	eventually(t, "goroutines back", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func (k *keeper) openConns() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	open := make(map[uint64]bool)
	for _, x := range k.held {
		open[x.Conn.ID()] = true
	}
	return int64(len(open))
}

func descriptors(t *testing.T) []string {
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}
