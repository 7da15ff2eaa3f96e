package netio

import (
	"log/slog"
	"time"

	"millrace/perf"
)

// Listener is one address to accept connections on.
type Listener struct {
	Name    string // for Conn.Listener, e.g. "PLAINTEXT"
	Address string // host:port; port 0 picks one, see Server.Addresses
}

// Options configure a Server. EnsureDefaults fills what is zero, Validate reports every fault at once.
type Options struct {
	Listeners []Listener
	Loops     int // event loops; default: half of GOMAXPROCS, at least one

	FrameBytesMax    int   // a longer frame costs its sender the connection; default 100 MiB
	InflightBytesMax int64 // bytes of frames being received or answered, all connections; default 256 MiB
	OutboundBytesMax int64 // unsent reply bytes of one connection beyond which no more requests are read from it; default 4 MiB (one reply may exceed it)

	ConnectionsMax           int            // default 100,000, and never above what RLIMIT_NOFILE leaves
	ConnectionsMaxPerAddress int            // default 2^31-1; -1: none but those of ConnectionsMaxOverrides
	ConnectionsMaxOverrides  map[string]int // address -> limit

	IdleTimeout  time.Duration // no complete request and nothing owed for this long: closed; default 10 min
	SlowTimeout  time.Duration // unsent bytes and no progress for this long: cut off; default 60 s
	DrainTimeout time.Duration // Stop waits this long for answers that are due; default 5 s

	Pool    *perf.Pool
	Logger  *slog.Logger
	Handler Handler
}

// Handler receives the life of connections, always on the connection's loop. It must not block.
type Handler interface {
	// OnOpen may set Conn.State.
	OnOpen(c *Conn)
	// OnFrame is one whole frame, without its length prefix. x must be finished exactly once, now or later on the same loop, by
	// Reply, Drop or Close. x.Frame is valid until OnFrame returns, or, after x.Retain, until x is finished.
	OnFrame(x *Exchange)
	// OnSent says that the answer of x was taken by the kernel or, where the connection is closed, never will be. It
	// is called where x.Tell is set, and where the peer did not take the answer at once; of x only the fields that belong to
	// the handler, the times and Conn are there, until it returns.
	OnSent(x *Exchange)
	// OnHalfClose says that the peer sends no more, while answers are still due: it may wait for them, or be
	// gone. Exchanges that wait for something to happen should be finished now.
	OnHalfClose(c *Conn)
	// OnClose says that the connection is gone. Exchanges that are not finished must still be finished
	// (their replies go nowhere).
	OnClose(c *Conn)
	// OnTimer runs when the time given to Loop.SetTimer has come.
	OnTimer(l *Loop)
}

// Task is work for a loop. Post it from any goroutine.
type Task interface{ RunOnLoop(l *Loop) }
