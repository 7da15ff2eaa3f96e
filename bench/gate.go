package bench

import (
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// clock counts nanoseconds since the run began.
type clock struct{ began time.Time }

func (c clock) now() int64 { return int64(time.Since(c.began)) }

// gate tells the workers of a part when it is measured and when it is over. It is safe for concurrent use.
type gate struct {
	marked  atomic.Int64 // when the measured part began; 0: still warming up
	stopped atomic.Bool
	limit   int64 // bytes; 0: none
	taken   atomic.Int64
}

// take asks for leave to move n more bytes. Before the mark they are free.
func (g *gate) take(n int64) bool {
	if g.stopped.Load() {
		return false
	}
	if g.limit == 0 || g.marked.Load() == 0 {
		return true
	}
	if g.taken.Add(n)-n >= g.limit {
		g.stopped.Store(true)
		return false
	}
	return true
}

// measures tells whether what began at the given time counts.
func (g *gate) measures(at int64) bool {
	m := g.marked.Load()
	return m != 0 && at >= m
}

// tally is what one worker has done. Counters may be read at any time, histograms when the worker has ended.
type tally struct {
	fetched                            bool // else produced
	requests, batches, records         atomic.Int64
	payloadBytes, sentBytes, recvBytes atomic.Int64
	last                               atomic.Int64 // when something was counted last
	latency                            *hdrhistogram.Histogram
	lag                                *hdrhistogram.Histogram // from schedule to send; nil without a schedule
	_                                  [64]byte                // workers do not share a cache line
}

// latencyMax bounds a histogram, in microseconds; what is more counts as this.
const latencyMax = int64(2 * time.Minute / time.Microsecond)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, latencyMax, 3) }

// record adds a latency of so many nanoseconds, n times.
func record(h *hdrhistogram.Histogram, nanos, n int64) {
	micros := min(max((nanos+500)/1000, 1), latencyMax)
	// Within the bounds of the histogram this cannot fail.
	_ = h.RecordValues(micros, n)
}

// counts is a sum of tallies.
type counts struct{ requests, batches, records, payloadBytes, sentBytes, recvBytes int64 }

func (t *tally) counts() counts {
	return counts{t.requests.Load(), t.batches.Load(), t.records.Load(), t.payloadBytes.Load(), t.sentBytes.Load(), t.recvBytes.Load()}
}

func (c counts) plus(o counts) counts {
	return counts{c.requests + o.requests, c.batches + o.batches, c.records + o.records, c.payloadBytes + o.payloadBytes, c.sentBytes + o.sentBytes, c.recvBytes + o.recvBytes}
}

func (c counts) minus(o counts) counts {
	return counts{c.requests - o.requests, c.batches - o.batches, c.records - o.records, c.payloadBytes - o.payloadBytes, c.sentBytes - o.sentBytes, c.recvBytes - o.recvBytes}
}
