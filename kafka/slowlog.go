package kafka

import (
	"log/slog"
	"sync/atomic"
	"time"

	"millrace/netio"
)

// slowLogInterval is the least time between two lines of a kind about slow requests.
const slowLogInterval = time.Second

// slowLog tells the operator of requests that took long: here, or in the hands of their clients. Of each kind it logs at
// most one each slowLogInterval: where one is slow, many are.
type slowLog struct {
	least   atomic.Int64 // nanoseconds from which on a request is slow; 0: none is
	request slowKind
	client  slowKind
}

// slowKind is what one kind of lines remembers. The zero value is ready.
type slowKind struct {
	last       atomic.Int64 // nanoseconds since the server's start; 0: never
	suppressed atomic.Int64
}

// LogSlowRequests sets from how long on a request is logged; 0: none is. It may be called at any time.
func (s *Server) LogSlowRequests(least time.Duration) { s.slow.least.Store(int64(least)) }

// phases are where the time of a request went. What it waited for records, or for its peer to read what is there before,
// lies within work's time and is taken out of it.
type phases struct{ read, queue, work, wait, send time.Duration }

// answered counts a request that is answered now, and notes its phases for when the answer has gone out.
func (s *Server) answered(e *exchange) {
	now := s.o.Now()
	s.metrics.request(e, now)
	least := time.Duration(s.slow.least.Load())
	if least <= 0 || e.api.later != nil { // what answers later waits for its group
		return
	}
	x := e.Exchange
	x.Answered = now
	x.Notes = [3]int64{int64(e.api.key)<<16 | int64(e.version), int64(e.started.Sub(x.Received)), int64(e.waited)}
	p := phasesOf(x, now)
	x.Tell = p.queue+p.work >= least || p.read >= least
}

func phasesOf(x *netio.Exchange, sent time.Time) phases {
	p := phases{read: x.Received.Sub(x.Began), queue: time.Duration(x.Notes[1]), wait: time.Duration(x.Notes[2]), send: sent.Sub(x.Answered)}
	p.work = x.Answered.Sub(x.Received) - p.queue - p.wait
	return p
}

// OnSent is called by netio: it logs what took long.
func (s *Server) OnSent(x *netio.Exchange) {
	least := time.Duration(s.slow.least.Load())
	if least <= 0 || x.Answered.IsZero() {
		return
	}
	p := phasesOf(x, s.o.Now())
	switch {
	case p.queue+p.work >= least:
		s.metrics.SlowRequests.Add(1)
		s.logSlow(&s.slow.request, "slow request", x, p)
	case p.read+p.send >= least:
		s.metrics.SlowClients.Add(1)
		s.logSlow(&s.slow.client, "slow client", x, p)
	}
}

func (s *Server) logSlow(kind *slowKind, message string, x *netio.Exchange, p phases) {
	since, last := int64(time.Since(s.started)), kind.last.Load()
	if last != 0 && since-last < int64(slowLogInterval) || !kind.last.CompareAndSwap(last, since) {
		kind.suppressed.Add(1)
		return
	}
	key, work := int16(x.Notes[0]>>16), "work_ms"
	switch key {
	case keyProduce:
		work = "append_ms"
	case keyFetch:
		work = "fetch_ms"
	}
	total := p.read + p.queue + p.work + p.wait + p.send
	s.o.Logger.Warn(message, slog.String("api", s.apiOf(key).name), slog.Int("api_version", int(int16(x.Notes[0]))),
		slog.String("client_id", x.Conn.State.(*conn).client.id), slog.String("remote", x.Conn.RemoteAddress()),
		slog.Int64("took_ms", total.Milliseconds()), slog.Int64("read_ms", p.read.Milliseconds()), slog.Int64("queue_ms", p.queue.Milliseconds()),
		slog.Int64(work, p.work.Milliseconds()), slog.Int64("wait_ms", p.wait.Milliseconds()), slog.Int64("send_ms", p.send.Milliseconds()),
		slog.Bool("client_left", x.Conn.Closed()), slog.Int64("suppressed", kind.suppressed.Swap(0)))
}
