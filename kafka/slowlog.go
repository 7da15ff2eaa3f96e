package kafka

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// slowLogInterval is the least time between two lines about slow requests.
const slowLogInterval = time.Second

// slowLog tells the operator of requests that took long, at most one each slowLogInterval: where one is slow, many are.
// The zero value is ready.
type slowLog struct {
	last       atomic.Int64 // nanoseconds since the server's start; 0: never
	suppressed atomic.Int64
}

// answered counts a request that is answered now, and logs it where it took long. Time in which it waited for records, or for
// its peer to read what is there, does not count.
func (s *Server) answered(e *exchange) {
	now := s.o.Now()
	s.metrics.request(e, now)
	most := s.o.Config.SlowRequest
	if most <= 0 || now.Sub(e.Received)-e.waited < most || e.api.later != nil { // what answers later waits for its group
		return
	}
	s.metrics.SlowRequests.Add(1)
	since, last := int64(time.Since(s.started)), s.slow.last.Load()
	if last != 0 && since-last < int64(slowLogInterval) || !s.slow.last.CompareAndSwap(last, since) {
		s.slow.suppressed.Add(1)
		return
	}
	work := "work_ms"
	switch e.api.key {
	case keyProduce:
		work = "append_ms"
	case keyFetch:
		work = "read_ms"
	}
	s.o.Logger.Warn("slow request", slog.String("api", e.api.name), slog.Int("api_version", int(e.version)),
		slog.String("client_id", e.conn.client.id), slog.String("remote", e.conn.net.RemoteAddress()),
		slog.Int64("took_ms", now.Sub(e.Received).Milliseconds()), slog.Int64("queue_ms", e.started.Sub(e.Received).Milliseconds()),
		slog.Int64(work, (now.Sub(e.started)-e.waited).Milliseconds()), slog.Int64("wait_ms", e.waited.Milliseconds()),
		slog.Int64("suppressed", s.slow.suppressed.Swap(0)))
}
