package netio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"millrace/perf"
)

func TestRepliesLeaveInRequestOrder(t *testing.T) {
	var k keeper
	s := start(t, Options{Handler: &handler{onFrame: k.keep}})
	c := dial(t, s)
	const n = 200
	var all []byte
	for i := range n {
		all = appendFrame(all, []byte{byte(i)})
	}
	send(t, c, all)
	eventually(t, "all open", func() bool { return k.n.Load() == n })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(n, func(i, j int) { k.held[i], k.held[j] = k.held[j], k.held[i] })
	k.finish(func(x *Exchange) {
		if x.Frame[0]%7 == 3 {
			x.Drop()
			return
		}
		echo(x)
	})
	for i := range n {
		if i%7 == 3 {
			continue
		}
		if got := receive(t, c); got[0] != byte(i) {
			t.Fatalf("got the answer to %d, want %d", got[0], i)
		}
	}
	balanced(t, s)
}

func TestExchangeCloseSendsEarlierAnswersOnly(t *testing.T) {
	var k keeper
	closed := make(chan struct{})
	s := start(t, Options{Handler: &handler{onFrame: k.keep, onClose: func(*Conn) { close(closed) }}})
	c := dial(t, s)
	send(t, c, appendFrame(appendFrame(appendFrame(nil, []byte("a")), []byte("b")), []byte("c")))
	eventually(t, "all open", func() bool { return k.n.Load() == 3 })
	a := k.held[0]
	k.held = []*Exchange{k.held[2], k.held[1]}
	k.finish(func(x *Exchange) {
		if x.Frame[0] == 'b' {
			x.Close("test")
			a.Conn.Loop().Post(taskFunc(func(*Loop) { echo(a) }))
			return
		}
		echo(x)
	})
	if got := string(receive(t, c)); got != "a" {
		t.Fatalf("got %q", got)
	}
	closedByPeer(t, c)
	<-closed
	balanced(t, s)
}

func TestConnCloseInsideOnFrame(t *testing.T) {
	s := start(t, Options{Handler: &handler{onFrame: func(x *Exchange) {
		x.Reply(reply(x, x.Frame))
		x.Conn.Close("test")
	}}})
	c := dial(t, s)
	send(t, c, appendFrame(appendFrame(nil, []byte("a")), []byte("b")))
	if got := string(receive(t, c)); got != "a" {
		t.Fatalf("got %q", got)
	}
	closedByPeer(t, c)
	balanced(t, s)
}

// Exchanges that are open when the connection goes are finished to no effect.
func TestFinishAfterClose(t *testing.T) {
	var k keeper
	closed := make(chan struct{})
	s := start(t, Options{Handler: &handler{onFrame: k.keep, onClose: func(*Conn) { close(closed) }}})
	c := dial(t, s)
	send(t, c, appendFrame(nil, make([]byte, 200_000)))
	eventually(t, "open", func() bool { return k.n.Load() == 1 })
	must(t, c.SetLinger(0))
	must(t, c.Close())
	<-closed
	if s.metrics.InflightBytes.Load() != 200_000 {
		t.Errorf("%d bytes in flight while the exchange is open", s.metrics.InflightBytes.Load())
	}
	k.finish(echo)
	balanced(t, s)
}

// A peer that sends FIN and goes on reading gets all its answers, then FIN.
func TestL09HalfClosedGetsItsAnswers(t *testing.T) {
	var k keeper
	s := start(t, Options{Handler: &handler{onFrame: k.keep}})
	c := dial(t, s)
	const n = 50
	var all []byte
	for i := range n {
		all = appendFrame(all, []byte{byte(i)})
	}
	send(t, c, all)
	must(t, c.CloseWrite())
	eventually(t, "all open", func() bool { return k.n.Load() == n })
	k.finish(func(x *Exchange) {
		p := make([]byte, 300_000)
		p[0] = x.Frame[0]
		x.Reply(reply(x, p))
	})
	for i := range n {
		if got := receive(t, c); got[0] != byte(i) {
			t.Fatalf("got the answer to %d, want %d", got[0], i)
		}
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("error %v, want EOF", err)
	}
	balanced(t, s)
}

// A request that the peer cut short with its FIN is dropped with the connection.
func TestFinInsideFrame(t *testing.T) {
	s := start(t, Options{})
	c := dial(t, s)
	send(t, c, appendFrame(nil, []byte("whole")))
	send(t, c, []byte{0, 0, 0, 9, 'p'})
	must(t, c.CloseWrite())
	if got := string(receive(t, c)); got != "whole" {
		t.Fatalf("got %q", got)
	}
	closedByPeer(t, c)
	balanced(t, s)
}

// 50 sockets pipeline 100 requests each for 1 MiB and never read. Nothing grows beyond the outbound
// limit and one reply a socket, requests stay in the kernel, and another client is served meanwhile.
func TestL02ReadersThatNeverReadStayBounded(t *testing.T) {
	const sockets, replyBytes, outboundMax = 50, 1 << 20, 1 << 20
	pool := perf.NewPool(1 << 20)
	s := start(t, Options{Pool: pool, OutboundBytesMax: outboundMax, Handler: &handler{onFrame: func(x *Exchange) {
		if len(x.Frame) == 1 {
			echo(x)
			return
		}
		b := pool.Get(replyBytes)
		b.B = b.B[:replyBytes-headBytes]
		binary.BigEndian.PutUint32(b.B, uint32(len(b.B)-headBytes))
		x.Reply(b)
	}}})
	var all []byte
	for range 100 {
		all = appendFrame(all, make([]byte, 50))
	}
	for range sockets {
		send(t, dial(t, s), all)
	}
	eventually(t, "all paused", func() bool { return s.metrics.PausesOutbound.Load() >= sockets })
	c := dial(t, s)
	for range 100 {
		send(t, c, appendFrame(nil, []byte{1}))
		receive(t, c)
	}
	bound := int64(sockets * (outboundMax + replyBytes + chunkBytes))
	if n := pool.Leased(); n > bound {
		t.Fatalf("%d bytes on lease, bound %d", n, bound)
	}
}

// Sending without reading the answers: 50 sockets x 22 large frames against a small budget and a handler
// that does not answer. What the server holds stays within InflightBytesMax; when the handler answers, all
// of it gets through, on every socket.
func TestInflightBytesStayBounded(t *testing.T) {
	const sockets, frames, frameBytes, inflightMax = 50, 22, 200_000, 4 << 20
	var k keeper
	pool := perf.NewPool(1 << 20)
	s := start(t, Options{Pool: pool, Loops: 2, FrameBytesMax: 1 << 20, InflightBytesMax: inflightMax,
		Handler: &handler{onFrame: k.keep}})
	frame := appendFrame(nil, make([]byte, frameBytes))
	var clients sync.WaitGroup
	for range sockets {
		c := dial(t, s)
		clients.Go(func() {
			for range frames {
				if _, err := c.Write(frame); err != nil {
					t.Error(err)
					return
				}
			}
		})
		clients.Go(func() {
			for range frames {
				if _, err := readFrame(c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	// Nothing is answered: it has to come to rest. No socket can have sent all, which is more than fits.
	eventually(t, "all wait", func() bool { return s.metrics.ConnectionsWaiting.Load() == sockets })
	if k.n.Load() < inflightMax/frameBytes/2 {
		t.Fatalf("only %d frames admitted", k.n.Load())
	}
	for finished := int64(0); finished < sockets*frames; {
		eventually(t, "next frames", func() bool { return k.n.Load() > finished })
		finished = k.n.Load()
		if n := s.metrics.InflightBytes.Load(); n > inflightMax {
			t.Fatalf("%d bytes in flight", n)
		}
		// A lease is a power of two: at most twice the bytes in it.
		if n := pool.Leased(); n > 2*inflightMax {
			t.Fatalf("%d bytes on lease", n)
		}
		k.finish(func(x *Exchange) { x.Reply(reply(x, x.Frame[:1])) })
	}
	clients.Wait()
	balanced(t, s)
}

// Frames that are half received must not lock each other out for ever: together they want more than the
// budget has, and nothing is open that could give bytes back.
func TestHalfReceivedFramesDoNotDeadlock(t *testing.T) {
	const sockets, frameBytes = 30, 600_000
	s := start(t, Options{Loops: 2, FrameBytesMax: 1 << 20, InflightBytesMax: 4 << 20,
		Handler: &handler{onFrame: func(x *Exchange) { x.Reply(reply(x, x.Frame[:1])) }}})
	frame := appendFrame(nil, make([]byte, frameBytes))
	half := len(frame) / 2
	var begun, done sync.WaitGroup
	begun.Add(sockets)
	for range sockets {
		c := dial(t, s)
		done.Go(func() {
			_, err := c.Write(frame[:half])
			begun.Done()
			begun.Wait()
			if err == nil {
				_, err = c.Write(frame[half:])
			}
			if err == nil {
				_, err = readFrame(c)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	balanced(t, s)
}

// A peer that holds memory with half a frame while others wait for it is cut off.
func TestStalledFrameIsCutWhileOthersWait(t *testing.T) {
	s := start(t, Options{Loops: 1, FrameBytesMax: 1 << 20, InflightBytesMax: 2 << 20, SlowTimeout: 50 * time.Millisecond})
	var stalled []*net.TCPConn
	for range 8 {
		c := dial(t, s)
		send(t, c, appendFrame(nil, make([]byte, 900_000))[:800_000])
		stalled = append(stalled, c)
	}
	c := dial(t, s)
	send(t, c, appendFrame(nil, []byte("hello")))
	if got := string(receive(t, c)); got != "hello" {
		t.Fatalf("got %q", got)
	}
	if s.metrics.Closed(CauseStalled) == 0 {
		t.Error("no stalled connection was cut")
	}
	for _, c := range stalled {
		c.Close()
	}
	balanced(t, s)
}

func TestChargeCountsUntilFinished(t *testing.T) {
	var k keeper
	s := start(t, Options{InflightBytesMax: 2 << 20, FrameBytesMax: 1 << 16, Handler: &handler{onFrame: k.keep}})
	c := dial(t, s)
	send(t, c, appendFrame(nil, []byte("x")))
	eventually(t, "open", func() bool { return k.n.Load() == 1 })
	var fits, exceeds atomic.Bool
	k.finish(func(x *Exchange) {
		fits.Store(x.Charge(1 << 20))
		exceeds.Store(!x.Charge(1 << 20))
		echo(x)
	})
	receive(t, c)
	if !fits.Load() || !exceeds.Load() {
		t.Fatalf("first charge fits %v, second exceeds %v", fits.Load(), exceeds.Load())
	}
	balanced(t, s)
}

// Beyond 1,024 exchanges a connection is not read; it goes on when some are answered.
func TestOpenExchangesAreBounded(t *testing.T) {
	var k keeper
	s := start(t, Options{Handler: &handler{onFrame: k.keep}})
	c := dial(t, s)
	const n = 5000
	var all []byte
	for i := range n {
		all = appendFrame(all, []byte{byte(i), byte(i >> 8)})
	}
	send(t, c, all)
	eventually(t, "limit reached", func() bool { return k.n.Load() == exchangesMax })
	for i := range n {
		if i%exchangesMax == 0 {
			eventually(t, "next requests", func() bool { return k.n.Load() == int64(min(n, i+exchangesMax)) })
			k.finish(echo)
		}
		if got := receive(t, c); got[0] != byte(i) || got[1] != byte(i>>8) {
			t.Fatalf("answer %d is %v", i, got)
		}
	}
	if s.metrics.PausesExchanges.Load() < 2 {
		t.Errorf("%d pauses", s.metrics.PausesExchanges.Load())
	}
	balanced(t, s)
}

// 100k small requests in one pipeline, answered at once, from a peer that is slow to read.
func TestL04ManySmallRequestsFromASlowReader(t *testing.T) {
	s := start(t, Options{OutboundBytesMax: 64 << 10})
	c := dial(t, s)
	const n = 100_000
	go func() {
		var all []byte
		for i := range n {
			all = appendFrame(all, binary.BigEndian.AppendUint32(nil, uint32(i)))
		}
		_, _ = c.Write(all)
	}()
	for i := range n {
		if got := receive(t, c); binary.BigEndian.Uint32(got) != uint32(i) {
			t.Fatalf("answer %d is %v", i, got)
		}
	}
	balanced(t, s)
}

// A peer that resets is noticed though it is not read: its replies and memory are given back at once.
func TestResetWhilePaused(t *testing.T) {
	s := start(t, Options{OutboundBytesMax: 1 << 10, Handler: &handler{onFrame: func(x *Exchange) {
		x.Reply(reply(x, make([]byte, 20<<20)))
	}}})
	c := dial(t, s)
	send(t, c, bytes.Repeat(appendFrame(nil, []byte("x")), 10))
	eventually(t, "paused", func() bool { return s.metrics.PausesOutbound.Load() == 1 })
	must(t, c.SetLinger(0))
	must(t, c.Close())
	eventually(t, "closed", func() bool { return s.metrics.ConnectionsOpen.Load() == 0 })
	balanced(t, s)
}

func TestSlowReaderIsReset(t *testing.T) {
	s := start(t, Options{SlowTimeout: 50 * time.Millisecond, Handler: &handler{onFrame: func(x *Exchange) {
		x.Reply(reply(x, make([]byte, 50<<20)))
	}}})
	c := dial(t, s)
	send(t, c, appendFrame(nil, []byte("x")))
	eventually(t, "cut off", func() bool { return s.metrics.Closed(CauseSlow) == 1 })
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("error %v, want a reset", err)
	}
	balanced(t, s)
}

// A reader that takes something now and then is not cut.
func TestTakingBytesIsProgress(t *testing.T) {
	const size = 30 << 20
	s := start(t, Options{SlowTimeout: 100 * time.Millisecond, Handler: &handler{onFrame: func(x *Exchange) {
		x.Reply(reply(x, make([]byte, size)))
	}}})
	c := dial(t, s)
	send(t, c, appendFrame(nil, []byte("x")))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	buffer := make([]byte, 1<<20)
	for got := 0; got < size+headBytes; {
		<-tick.C
		n, err := c.Read(buffer)
		must(t, err)
		got += n
	}
	if s.metrics.Closed(CauseSlow) != 0 {
		t.Fatal("cut off")
	}
}

func TestL01IdleIsClosedThoughBytesTrickle(t *testing.T) {
	s := start(t, Options{IdleTimeout: 80 * time.Millisecond})
	quiet, trickling := dial(t, s), dial(t, s)
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for _, b := range appendFrame(nil, make([]byte, 1000)) {
			select {
			case <-stop:
				return
			case <-tick.C:
				if _, err := trickling.Write([]byte{b}); err != nil {
					return
				}
			}
		}
	})
	closedByPeer(t, quiet)
	closedByPeer(t, trickling)
	close(stop)
	sender.Wait()
	if n := s.metrics.Closed(CauseIdle); n != 2 {
		t.Fatalf("%d closed as idle", n)
	}
	balanced(t, s)
}

// M11: who waits for an answer is not idle.
func TestWaitingForAnAnswerIsNotIdle(t *testing.T) {
	const idle = 40 * time.Millisecond
	var at atomic.Pointer[Exchange]
	s := start(t, Options{IdleTimeout: idle, Handler: &handler{
		onFrame: func(x *Exchange) {
			x.Retain()
			at.Store(x)
			x.Conn.Loop().SetTimer(time.Now().Add(8 * idle))
		},
		onTimer: func(*Loop) { echo(at.Load()) },
	}})
	c := dial(t, s)
	send(t, c, appendFrame(nil, []byte("poll")))
	if got := receive(t, c); !bytes.Equal(got, []byte("poll")) {
		t.Fatalf("got %q", got)
	}
	closedByPeer(t, c)
}
