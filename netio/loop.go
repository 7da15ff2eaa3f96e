package netio

import (
	"encoding/binary"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"golang.org/x/sys/unix"
)

// Loop is one event loop: a goroutine in gnet's poller that runs everything of its connections.
//
// The loop stands on gnet's netpoll, not on its engine. The engine reads by itself whenever bytes come and
// has no call to stop it, closes a connection at the peer's FIN although answers are due, leaves its loop
// for good when accept fails for want of descriptors, and copies what a socket does not take at once into a
// buffer without bound. netpoll reports events and leaves the rest to its caller.
type Loop struct {
	server *Server
	index  int
	poller *netpoll.Poller
	wakeFD int // eventfd, edge-triggered: a write is an event, nothing has to be read
	timer  timer
	wake   [8]byte

	conns     []*Conn // by descriptor
	count     int
	load      atomic.Int64 // connections given to this loop, also those on their way
	chunk     []byte       // what was read last; frames handed out in place lie here
	outChunk  []byte
	checkSize func(size int32) Cause // method value, made once
	time      time.Time              // when chunk was read

	dirty []*Conn // something was finished since their last pump
	ready []*Conn // have more to do, after others had their turn
	turn  []*Conn // the ready ones being served

	idle      ageList // all connections, by last complete request or answer
	slow      ageList // with replies that the socket did not take, by last progress
	lingering ageList // closing, by when that began; a place of Conn.slow
	receiving ageList // with a frame half received, by last bytes or by the budget's grant

	freeExchanges *Exchange
	freeCount     int
	draining      bool
	stopping      bool
	acceptors     []*acceptor // on loop 0 only

	mu     sync.Mutex
	posted []Task
	spare  []Task // swapped with posted
	woken  bool   // an event is on its way
	ended  bool
}

const (
	freeExchangesMax = 4096 // kept for reuse by one loop
	postedKeptMax    = 4096 // slots of the task queue kept after a burst
)

func newLoop(s *Server, index int) (*Loop, error) {
	p, err := netpoll.OpenPoller()
	if err != nil {
		return nil, err
	}
	l := &Loop{server: s, index: index, poller: p, wakeFD: -1}
	l.timer.fd = -1
	binary.NativeEndian.PutUint64(l.wake[:], 1)
	l.chunk, l.outChunk = make([]byte, chunkBytes), make([]byte, 0, chunkBytes)
	l.checkSize = s.checkSize
	if l.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err == nil {
		err = p.AddRead(&netpoll.PollAttachment{FD: l.wakeFD}, true)
	}
	if err == nil {
		err = l.timer.open(p)
	}
	if err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// release gives the loop's descriptors back, once its goroutine has ended or if it never ran.
func (l *Loop) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.posted, l.spare = nil, nil
	_ = l.poller.Close()
	if l.wakeFD >= 0 {
		_ = unix.Close(l.wakeFD)
	}
	l.timer.close()
}

// Index is the loop's number, 0..Loops-1.
func (l *Loop) Index() int { return l.index }

// Post queues t to run on the loop, in the order of posting. Any goroutine may call it, the loop's own too.
// It never blocks; in the steady state it does not allocate; all that gathers before the loop comes round
// costs one wake. After Server.Stop has returned, tasks are dropped.
func (l *Loop) Post(t Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.posted = append(l.posted, t)
	l.wakeLocked()
}

func (l *Loop) wakeLocked() {
	if !l.woken {
		l.woken = true
		// Non-blocking, and it cannot fail: the counter would need 2^64 wakes to overflow. It is written
		// under the mutex so that the descriptor cannot be closed meanwhile.
		_, _ = unix.Write(l.wakeFD, l.wake[:])
	}
}

// SetTimer makes Handler.OnTimer run at the given time, or at once if that is past. A loop has one timer:
// the last call counts, and a zero time clears it. It may only be called on the loop.
func (l *Loop) SetTimer(at time.Time) { l.timer.setHandler(at) }

// run serves events until the server stops.
func (l *Loop) run() {
	if err := l.poller.Polling(l.onEvent); err != nil && !l.stopping {
		panic("netio: event loop failed: " + err.Error()) // a bad epoll descriptor: our bug
	}
}

// onEvent serves one event of the poller.
func (l *Loop) onEvent(fd int, event netpoll.IOEvent, _ netpoll.IOFlags) error {
	switch {
	case fd < len(l.conns) && l.conns[fd] != nil:
		l.onSocket(l.conns[fd], event)
	case fd == l.wakeFD:
		l.onWake()
	case fd == l.timer.fd:
		l.onTimer()
	default:
		for _, a := range l.acceptors {
			if a.fd == fd {
				a.accept()
			}
		}
	}
	l.settle()
	if l.stopping {
		return gneterrors.ErrEngineShutdown
	}
	return nil
}

// onSocket notes what an event says and lets the connection move. Events may be stale: a descriptor that was
// closed and accepted anew within one batch of events gets those of its predecessor. Being readable or
// writable only means that a call is tried, and a hang-up is asked for again.
func (l *Loop) onSocket(c *Conn, event netpoll.IOEvent) {
	const hangUp = unix.EPOLLERR | unix.EPOLLHUP
	if event&(unix.EPOLLIN|unix.EPOLLRDHUP|hangUp) != 0 {
		c.readable = true
	}
	if event&(unix.EPOLLOUT|hangUp) != 0 {
		c.writable = true
	}
	if event&unix.EPOLLRDHUP != 0 {
		c.finSeen = true
	}
	if event&hangUp != 0 {
		now := []unix.PollFd{{Fd: int32(c.fd)}}
		if n, err := unix.Poll(now, 0); err == nil && n == 1 && now[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			c.finSeen, c.broken = true, true
		}
	}
	l.pump(c)
}

func (l *Loop) onWake() {
	l.mu.Lock()
	tasks := l.posted
	l.posted, l.spare = l.spare[:0], nil
	l.woken = false
	l.mu.Unlock()
	for i, t := range tasks {
		tasks[i] = nil
		t.RunOnLoop(l)
	}
	l.mu.Lock()
	if cap(tasks) <= postedKeptMax {
		l.spare = tasks[:0]
	}
	l.mu.Unlock()
	l.settle()
	l.turn, l.ready = l.ready, l.turn[:0]
	for i, c := range l.turn {
		l.turn[i] = nil
		c.ready = false
		l.pump(c)
		l.settle()
	}
}

// settle pumps the connections that handlers, tasks and timers have touched.
func (l *Loop) settle() {
	for i := 0; i < len(l.dirty); i++ {
		c := l.dirty[i]
		l.dirty[i] = nil
		c.dirty = false
		l.pump(c)
	}
	l.dirty = l.dirty[:0]
}

func (l *Loop) markDirty(c *Conn) {
	if !c.dirty && !c.pumping {
		c.dirty = true
		l.dirty = append(l.dirty, c)
	}
}

func (l *Loop) markReady(c *Conn) {
	if c.ready {
		return
	}
	c.ready = true
	l.ready = append(l.ready, c)
	l.mu.Lock()
	l.wakeLocked()
	l.mu.Unlock()
}

// openConn takes over a connection that was accepted.
func (l *Loop) openConn(c *Conn) {
	if l.draining {
		_ = unix.Close(c.fd)
		l.server.left(c, CauseStop)
		return
	}
	if err := l.poller.AddReadWrite(&netpoll.PollAttachment{FD: c.fd}, true); err != nil {
		l.server.options.Logger.Warn("connection not registered", slog.Any("error", err))
		_ = unix.Close(c.fd)
		l.server.left(c, CauseIO)
		return
	}
	for c.fd >= len(l.conns) {
		l.conns = append(l.conns, nil)
	}
	l.conns[c.fd] = c
	l.count++
	l.idle.touch(&c.idle, c, l.now())
	l.timer.sweepBy(l.timer.period)
	l.server.options.Handler.OnOpen(c)
	l.markDirty(c)
}

func (l *Loop) logClose(c *Conn, reason string) {
	l.server.options.Logger.Debug("closing connection", slog.String("reason", reason),
		slog.String("remote", c.RemoteAddress()), slog.String("listener", c.listener))
}

func (l *Loop) newExchange(c *Conn) *Exchange {
	x := l.freeExchanges
	if x == nil {
		x = new(Exchange)
	} else {
		l.freeExchanges = x.next
		l.freeCount--
	}
	*x = Exchange{Conn: c, status: exchangeOpen}
	return x
}

// freeExchange takes x back with all that it holds.
func (l *Loop) freeExchange(x *Exchange) {
	if x.status == exchangeFree {
		panic("netio: exchange freed twice")
	}
	x.reply.Release()
	x.owned.Release()
	if x.Tell {
		l.server.options.Handler.OnSent(x)
	}
	*x = Exchange{}
	if l.freeCount < freeExchangesMax {
		x.next = l.freeExchanges
		l.freeExchanges = x
		l.freeCount++
	}
}
