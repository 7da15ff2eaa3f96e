package kafka

import (
	"sync/atomic"
	"time"
)

// Metrics counts what the server does. All fields may be read at any time.
type Metrics struct {
	Requests [keyMax]RequestMetrics // by API key

	Refused         atomic.Int64 // requests that cost their connection
	ProducedBytes   atomic.Int64 // bytes of batches accepted, as on the wire
	ProducesLeft    atomic.Int64 // produces that were too much work for an event loop
	FetchedBytes    atomic.Int64 // bytes of batches sent
	FetchedRecords  atomic.Int64
	FetchesBlocking atomic.Int64 // fetches that had to leave the event loop
	FetchesWaited   atomic.Int64 // fetches that became long polls
	SlowRequests    atomic.Int64 // took longer here than millrace.log.slow.request.ms
	SlowClients     atomic.Int64 // were not, but their clients took longer to send them and to take the answer
	CorruptReads    atomic.Int64 // reads that met stored bytes which are damaged or cannot be read
}

// RequestMetrics counts the requests of one API.
type RequestMetrics struct {
	Count  atomic.Int64
	Micros atomic.Int64                 // time from the last byte of the request to the answer, in all
	Below  [latencyBuckets]atomic.Int64 // requests answered within 2^i times 64 us, the last: any time
}

// latencyBuckets reaches from 64 us to about 17 minutes.
const latencyBuckets = 25

// LatencyBound returns the upper bound of a bucket of RequestMetrics.Below.
func LatencyBound(bucket int) time.Duration { return 64 * time.Microsecond << bucket }

// Metrics returns the server's counters.
func (s *Server) Metrics() *Metrics { return &s.metrics }

// SessionCount returns the number of incremental fetch sessions.
func (s *Server) SessionCount() int { return s.sessions.Len() }

// APIName returns the name of an API that is answered, and whether there is one of this key.
func (s *Server) APIName(key int) (string, bool) {
	a := s.apiOf(int16(key))
	if a == nil {
		return "", false
	}
	return a.name, true
}

func (m *Metrics) request(e *exchange, now time.Time) {
	r := &m.Requests[e.api.key]
	took := now.Sub(e.Received)
	r.Count.Add(1)
	r.Micros.Add(took.Microseconds())
	bucket := 0
	for bucket < latencyBuckets-1 && took > LatencyBound(bucket) {
		bucket++
	}
	r.Below[bucket].Add(1)
}
