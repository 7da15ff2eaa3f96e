package netio

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"millrace/perf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handler calls what is set and echoes otherwise.
type handler struct {
	onOpen      func(c *Conn)
	onFrame     func(x *Exchange)
	onClose     func(c *Conn)
	onHalfClose func(c *Conn)
	onTimer     func(l *Loop)
	onSent      func(x *Exchange)
}

func (h *handler) OnOpen(c *Conn) {
	if h.onOpen != nil {
		h.onOpen(c)
	}
}

func (h *handler) OnFrame(x *Exchange) {
	if h.onFrame == nil {
		echo(x)
		return
	}
	h.onFrame(x)
}

func (h *handler) OnClose(c *Conn) {
	if h.onClose != nil {
		h.onClose(c)
	}
}

func (h *handler) OnSent(x *Exchange) {
	if h.onSent != nil {
		h.onSent(x)
	}
}

func (h *handler) OnTimer(l *Loop) {
	if h.onTimer != nil {
		h.onTimer(l)
	}
}

// echo answers with the frame itself.
func echo(x *Exchange) { x.Reply(reply(x, x.Frame)) }

func reply(x *Exchange, payload []byte) *perf.Buffer {
	b := x.Conn.loop.server.options.Pool.Get(headBytes + len(payload))
	b.B = appendFrame(b.B, payload)
	return b
}

func appendFrame(dst, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	return append(dst, payload...)
}

// start runs a server for the test. It checks at the end that nothing is left over.
func start(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Handler == nil {
		o.Handler = &handler{}
	}
	if o.Listeners == nil {
		o.Listeners = []Listener{{Name: "PLAINTEXT", Address: "127.0.0.1:0"}}
	}
	if o.Pool == nil {
		o.Pool = perf.NewPool(64 << 20)
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Stop(context.Background())
		if n := s.metrics.ConnectionsOpen.Load(); n != 0 {
			t.Errorf("%d connections open after stop", n)
		}
		if n := s.limits.count(); n != 0 || len(s.limits.by) != 0 {
			t.Errorf("%d connections counted after stop, %v", n, s.limits.by)
		}
		if n := s.metrics.ConnectionsWaiting.Load(); n != 0 {
			t.Errorf("%d connections wait after stop", n)
		}
	})
	return s
}

// balanced checks that all bytes in flight and all buffers came back.
func balanced(t testing.TB, s *Server) {
	t.Helper()
	eventually(t, "no bytes in flight", func() bool { return s.metrics.InflightBytes.Load() == 0 })
	eventually(t, "no buffer on lease", func() bool { return s.options.Pool.Leased() == 0 })
}

// eventually waits for a condition that nothing announces.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(200 * time.Microsecond) // a busy loop would take the processor from the server
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timeout: %s", what)
		}
	}
}

func dial(t testing.TB, s *Server) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c.(*net.TCPConn)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func send(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	_, err := c.Write(b)
	must(t, err)
}

func receive(t testing.TB, r io.Reader) []byte {
	t.Helper()
	b, err := readFrame(r)
	must(t, err)
	return b
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

// closedByPeer waits for the end of the stream, whether by FIN or by reset.
func closedByPeer(t testing.TB, c net.Conn) {
	t.Helper()
	if n, err := io.Copy(io.Discard, c); n != 0 || os.IsTimeout(err) {
		t.Fatalf("read %d bytes, error %v; want the end", n, err)
	}
}

// keeper holds exchanges open until the test finishes them on their loops.
type keeper struct {
	mu   sync.Mutex
	held []*Exchange
	n    atomic.Int64
}

func (k *keeper) keep(x *Exchange) {
	x.Retain()
	k.mu.Lock()
	k.held = append(k.held, x)
	k.mu.Unlock()
	k.n.Add(1)
}

// finish hands every exchange held to f, on its loop.
func (k *keeper) finish(f func(x *Exchange)) {
	k.mu.Lock()
	held := k.held
	k.held = nil
	k.mu.Unlock()
	for _, x := range held {
		x.Conn.Loop().Post(taskFunc(func(*Loop) { f(x) }))
	}
}
