package admin

import (
	"os"
	"sync"
	"time"

	"millrace/bench/proc"
	"millrace/engine"
	"millrace/kafka"
)

// The charts reach back so far, in steps so long.
const (
	historyStep   = 2 * time.Second
	historyPoints = 600
)

// columns name the figures of a point; -1 there is one that is not known. Rates are over the step that ends at time.
var columns = [...]string{
	"time", // Unix milliseconds
	"produced_bytes_per_second", "fetched_bytes_per_second", "records_in_per_second", "records_out_per_second",
	"requests_per_second", "produce_p50_seconds", "produce_p99_seconds", "sync_seconds",
	"cpus", "memory_bytes", "mapped_bytes", "connections",
}

type point [len(columns)]float64

// history is a ring of points.
type history struct {
	mu     sync.Mutex
	points []point // oldest first
}

// totals are what points are the differences of.
type totals struct {
	at                           time.Time
	produced, fetched, recordsIn int64
	recordsOut, requests         int64
	syncs, syncMicros            int64
	produceBelow                 []int64
	cpu                          time.Duration
	own, mapped, connections     int64
}

func (v *view) totals(self *proc.Process) totals {
	m := v.Kafka.Metrics()
	t := totals{at: time.Now(), produced: m.ProducedBytes.Load(), fetched: m.FetchedBytes.Load(), recordsOut: m.FetchedRecords.Load(),
		recordsIn:   v.engine(func(m *engine.Metrics) int64 { return m.Records.Load() }),
		syncs:       v.engine(func(m *engine.Metrics) int64 { return m.SyncDuration.Count() }),
		syncMicros:  v.engine(func(m *engine.Metrics) int64 { return m.SyncDuration.Sum.Load() }),
		connections: v.Net.ConnectionsOpen.Load()}
	for i := range m.Requests {
		t.requests += m.Requests[i].Count.Load()
	}
	produce := &m.Requests[0]
	for i := range produce.Below {
		t.produceBelow = append(t.produceBelow, produce.Below[i].Load())
	}
	if self != nil {
		usage, _ := self.Usage() // what cannot be read stays 0
		memory, _ := self.Memory()
		t.cpu, t.own, t.mapped = usage.CPU, memory.Own, memory.MappedFile
	}
	return t
}

// record adds a point each step until stop is closed.
func (v *view) record(stop <-chan struct{}) {
	self, _ := proc.Open(os.Getpid()) // without /proc there are no figures of it
	tick := time.NewTicker(historyStep)
	defer tick.Stop()
	before := v.totals(self)
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now := v.totals(self)
		v.history.add(pointOf(&before, &now))
		before = now
	}
}

func pointOf(before, now *totals) point {
	seconds := max(now.at.Sub(before.at).Seconds(), 1e-3)
	per := func(a, b int64) float64 { return float64(b-a) / seconds }
	sync := float64(-1)
	if n := now.syncs - before.syncs; n > 0 {
		sync = float64(now.syncMicros-before.syncMicros) / float64(n) * microsecond
	}
	below := make([]int64, len(now.produceBelow))
	for i := range below {
		below[i] = now.produceBelow[i] - before.produceBelow[i]
	}
	return point{
		float64(now.at.UnixMilli()),
		per(before.produced, now.produced), per(before.fetched, now.fetched), per(before.recordsIn, now.recordsIn), per(before.recordsOut, now.recordsOut),
		per(before.requests, now.requests), quantile(below, 0.5), quantile(below, 0.99), sync,
		(now.cpu - before.cpu).Seconds() / seconds, float64(now.own), float64(now.mapped), float64(now.connections),
	}
}

// quantile estimates one from a histogram of kafka.RequestMetrics in seconds: within its bucket values are taken to lie
// evenly. -1 where there are none.
func quantile(below []int64, q float64) float64 {
	var count int64
	for _, n := range below {
		count += n
	}
	rank := q * float64(count)
	for i, n := range below {
		if n > 0 && float64(n) >= rank {
			high, low := kafka.LatencyBound(i).Seconds(), 0.0
			if i > 0 {
				low = kafka.LatencyBound(i - 1).Seconds()
			}
			return low + (high-low)*rank/float64(n)
		}
		rank -= float64(n)
	}
	return -1
}

func (h *history) add(p point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) == historyPoints {
		h.points = h.points[:copy(h.points, h.points[1:])]
	}
	h.points = append(h.points, p)
}

// after returns the points later than a time in Unix milliseconds, oldest first.
func (h *history) after(ms int64) [][]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := [][]float64{}
	for _, p := range h.points {
		if int64(p[0]) > ms {
			list = append(list, p[:])
		}
	}
	return list
}

// History is what /api/history answers: rows of figures, oldest first, in the order of the columns. -1 is not known.
type History struct {
	Columns []string    `json:"columns"`
	Rows    [][]float64 `json:"rows"`
}

func (v *view) chartHistory(p *parameters) (any, error) {
	return History{columns[:], v.history.after(p.number("after", 0, 0, 1<<53))}, nil
}
