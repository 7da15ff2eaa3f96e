package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Roles of parts that run in a way of their own.
const (
	roleLatency  = "latency"  // L1: at a fixed rate only
	roleIdle     = "idle"     // S1: most connections are idle
	roleEndToEnd = "end2end"  // L2: readers measure from the schedule
	roleCold     = "cold"     // F2: the cold reader alone
	roleAlone    = "producer" // F2: the producer alone
	roleBeside   = "beside"   // F2: both
	roleFew      = "few"      // S3: a broker with much data
	roleMany     = "many"     // S3: a broker with many partitions
	roleGroup    = "group"    // G1: connections are members
)

// Workload is one kind of load.
type Workload struct {
	ID      string
	Summary string
	parts   []Settings
	name    func(s Settings) string // names a part; nil: there is one without a name
	accepts []string                // flags that mean something here
	run     func(ctx context.Context, r *runner, s Settings) ([]*Figures, error)
}

// Find returns the workload, or nil.
func Find(id string) *Workload {
	all := Workloads()
	if i := slices.IndexFunc(all, func(w Workload) bool { return w.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}

// partsWith returns the parts after what was given is taken over; parts that became alike are one.
func (w *Workload) partsWith(names []string, given Settings) ([]Settings, error) {
	for _, n := range names {
		if !slices.Contains(w.accepts, n) {
			return nil, fmt.Errorf("--%s means nothing for %s (%s); it takes %v", n, w.ID, w.Summary, w.accepts)
		}
	}
	var parts []Settings
	for _, p := range w.parts {
		p.override(names, given)
		if err := p.validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", w.ID, err)
		}
		// Parts differ in what their names tell; where that was overridden they are one.
		alike := func(o Settings) bool { return o == p || w.partName(o) == w.partName(p) }
		if !slices.ContainsFunc(parts, alike) {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// Parts returns what the workload runs with at the given scale, see Options.
func (w *Workload) Parts(scale float64) []Settings {
	parts := slices.Clone(w.parts)
	for i := range parts {
		parts[i].scale(scale)
	}
	return parts
}

func (w *Workload) partName(s Settings) string {
	if w.name == nil {
		return ""
	}
	return w.name(s)
}

const (
	kilobyte = 1024
	gb       = 1_000_000_000
	mb       = 1_000_000
	warm     = 2 * time.Second
)

// with returns base changed.
func with(base Settings, change func(s *Settings)) Settings {
	change(&base)
	return base
}

// saturated is the load of P1, on which the others are built.
func saturated() Settings {
	return Settings{Partitions: 1, Connections: 1, PerRequest: 1, Window: 4, Batch: 100, Size: kilobyte, Bytes: 4 * gb, Warmup: warm, Acks: -1, Codec: "none"}
}

// small is the load of P3.
func small() Settings {
	return Settings{Partitions: 8, Connections: 8, PerRequest: 1, Window: 1, Batch: 1, Size: 100, Bytes: 100 * mb, Duration: time.Minute, Warmup: warm, Acks: -1, Codec: "none"}
}

// paced is the load of L1.
func paced() Settings {
	return Settings{Partitions: 4, Connections: 4, PerRequest: 1, Window: 1000, Batch: 10, Size: kilobyte, Rate: 2000, Duration: 30 * time.Second, Warmup: warm, Acks: -1, Codec: "none"}
}

// many is the load of P4.
func many() Settings {
	return with(saturated(), func(s *Settings) { s.Partitions, s.Connections, s.PerRequest, s.Batch = 100, 2, 50, 16 })
}

// Workloads returns all workloads in the order of the documentation.
func Workloads() []Workload {
	return slices.Concat(produceWorkloads(), latencyWorkloads(), fetchWorkloads(), scaleWorkloads(), groupWorkloads())
}

// producing are the flags of workloads that only produce.
func producing() []string {
	return []string{"partitions", "connections", "per-request", "window", "batch", "size", "rate", "bytes", "duration", "warmup", "acks", "codec", "idempotent"}
}

func without(flags []string, names ...string) []string {
	return slices.DeleteFunc(flags, func(f string) bool { return slices.Contains(names, f) })
}

func produceWorkloads() []Workload {
	ways := func(s Settings) string {
		if s.Rate > 0 {
			return fmt.Sprintf("%.0f/s", s.Rate)
		}
		return "saturated"
	}
	codec := func(s Settings) string { return s.Codec }
	partitions := func(s Settings) string { return plural(s.Partitions, "partition") }
	durable := with(saturated(), func(s *Settings) {
		s.Batch, s.Bytes, s.Duration, s.Flush = 10, 100*mb, time.Minute, true
	})
	return []Workload{
		{ID: "P1", Summary: "produce, saturated, 1 KB x 100 a batch, 1 partition, window 4", parts: []Settings{saturated()}, accepts: producing(), run: runProduce},
		{ID: "P2", Summary: "produce, saturated, 100 B x 1000 a batch, 16 partitions, 2 connections", accepts: producing(), run: runProduce, parts: []Settings{
			with(saturated(), func(s *Settings) {
				s.Partitions, s.Connections, s.PerRequest, s.Batch, s.Size = 16, 2, 8, 1000, 100
			})}},
		{ID: "P3", Summary: "produce one record of 100 B a request, 8 connections, saturated and at 20,000/s", name: ways, accepts: producing(), run: runProduce, parts: []Settings{
			small(),
			with(small(), func(s *Settings) { s.Rate, s.Bytes, s.Duration, s.Window = 20_000, 0, 30*time.Second, 1000 })}},
		{ID: "P4", Summary: "produce, saturated, 1 KB, 16 KB a batch, 100 partitions", parts: []Settings{many()}, accepts: producing(), run: runProduce},
		{ID: "P5", Summary: "produce lz4 and zstd batches of 1 KB x 100, 1 partition", name: codec, accepts: producing(), run: runProduce, parts: []Settings{
			with(saturated(), func(s *Settings) { s.Codec = "lz4" }),
			with(saturated(), func(s *Settings) { s.Codec = "zstd" })}},
		{ID: "P6", Summary: "idempotent producers: as P1, batches numbered", accepts: without(producing(), "idempotent", "acks"), run: runProduce, parts: []Settings{
			with(saturated(), func(s *Settings) { s.Idempotent = true })}},
		{ID: "P7", Summary: "durable: fsync before each acknowledgement, 1 KB x 10, 1 and 100 partitions", name: partitions, accepts: producing(), run: runProduce, parts: []Settings{
			durable,
			with(durable, func(s *Settings) { s.Partitions, s.Connections, s.Bytes = 100, 10, 200*mb })}},
	}
}

func latencyWorkloads() []Workload {
	groups := func(s Settings) string { return plural(s.Readers, "reader") }
	return []Workload{
		{ID: "L1", Summary: "latency of producing at a fixed rate: 2,000 requests/s of 1 KB x 10", parts: []Settings{with(paced(), func(s *Settings) { s.Role = roleLatency })}, accepts: producing(), run: runProduce},
		{ID: "L2", Summary: "latency from producer to reader at 20 MB/s, 1 and 4 independent readers", name: groups, accepts: append(producing(), "readers"), run: runTail, parts: []Settings{
			endToEnd(1), endToEnd(4)}},
	}
}

func endToEnd(readers int) Settings {
	return with(paced(), func(s *Settings) { s.Connections, s.Rate, s.Readers, s.Role = 2, 1953, readers, roleEndToEnd })
}

func fetchWorkloads() []Workload {
	fetching := []string{"partitions", "batch", "size", "bytes", "duration", "warmup", "codec", "readers"}
	reads := func(size, batch, readers int) Settings {
		return with(saturated(), func(s *Settings) { s.Size, s.Batch, s.Readers = size, batch, readers })
	}
	f1 := func(s Settings) string { return fmt.Sprintf("%s, %s", byteCount(s.Size), plural(s.Readers, "reader")) }
	cold := func(s Settings) string {
		return map[string]string{roleCold: "cold reader alone", roleAlone: "producer alone", roleBeside: "producer beside cold reader"}[s.Role]
	}
	return []Workload{
		{ID: "F1", Summary: "catch-up fetch from page cache, 1 MiB a fetch, 1 and 8 readers, 100 B and 1 KB", name: f1, accepts: fetching, run: runFetch, parts: []Settings{
			reads(100, 1000, 1), reads(100, 1000, 8), reads(kilobyte, 100, 1), reads(kilobyte, 100, 8)}},
		{ID: "F2", Summary: "cold fetch, page cache dropped (root, on the broker's host), alone and beside L1", name: cold, accepts: []string{"bytes", "duration", "warmup", "rate", "connections"}, run: runCold, parts: []Settings{
			with(paced(), func(s *Settings) { s.Role, s.Readers, s.Bytes, s.Duration = roleCold, 1, 4*gb, 0 }),
			with(paced(), func(s *Settings) { s.Role, s.Bytes = roleAlone, 4*gb }),
			with(paced(), func(s *Settings) { s.Role, s.Readers, s.Bytes, s.Duration = roleBeside, 1, 4*gb, 0 })}},
		{ID: "F3", Summary: "tail fan-out: 4 readers behind one saturated producer of 1 KB x 100", accepts: append(producing(), "readers"), run: runTail, parts: []Settings{
			with(saturated(), func(s *Settings) { s.Readers, s.Bytes = 4, 2*gb })}},
		{ID: "M1", Summary: "half produce, half fetch, together at 70 % of the bytes/s that P1 reaches first", accepts: append(producing(), "readers"), run: runMixed, parts: []Settings{
			with(saturated(), func(s *Settings) { s.Window, s.Readers, s.Bytes, s.Duration = 4, 1, 1*gb, 30*time.Second })}},
	}
}

func scaleWorkloads() []Workload {
	recovery := func(s Settings) string {
		if s.Role == roleMany {
			return plural(s.Partitions, "partition")
		}
		return fmt.Sprintf("%.3g GB", float64(s.Bytes)/gb)
	}
	return []Workload{
		{ID: "S1", Summary: "1,000 connections of which 100 produce as P3 does; then 10,000 idle ones: bytes each", accepts: append(producing(), "idle"), run: runIdle, parts: []Settings{
			with(small(), func(s *Settings) { s.Role, s.Connections, s.Partitions, s.Idle = roleIdle, 1000, 100, 10_000 })}},
		{ID: "S2", Summary: "10,000 partitions: time to make and touch them, memory, P1 and P4 beside them", accepts: []string{"partitions", "bytes", "duration", "warmup"}, run: runMany, parts: []Settings{
			with(saturated(), func(s *Settings) { s.Partitions, s.Bytes = 10_000, 2*gb })}},
		{ID: "S3", Summary: "ready after SIGKILL, with 5 GB and with 10,000 partitions (bench compare only)", name: recovery, accepts: []string{"bytes", "partitions"}, run: runRecovery, parts: []Settings{
			with(saturated(), func(s *Settings) { s.Role, s.Bytes = roleFew, 5*gb }),
			with(saturated(), func(s *Settings) { s.Role, s.Partitions, s.Bytes = roleMany, 10_000, 1*gb })}},
	}
}

func groupWorkloads() []Workload {
	return []Workload{
		{ID: "G1", Summary: "group of 100 members: last join to last assignment, 20 times; then offset commits", accepts: []string{"partitions", "connections", "duration", "warmup"}, run: runGroup, parts: []Settings{
			with(small(), func(s *Settings) {
				s.Role, s.Connections, s.Partitions, s.Bytes, s.Duration = roleGroup, 100, 100, 0, 15*time.Second
			})}},
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func byteCount(n int) string {
	if n%kilobyte == 0 {
		return fmt.Sprintf("%d KB", n/kilobyte)
	}
	return fmt.Sprintf("%d B", n)
}
