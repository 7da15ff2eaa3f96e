package compare

import (
	"cmp"
	"slices"

	"millrace/bench"
)

const (
	noiseCPU   = 0.10 // of processor time and memory
	noiseOther = 0.15 // of what the clock measures
	mib        = 1 << 20
)

// Names of metrics that charts are made of.
const (
	MetricThroughput = "throughput"
	MetricCPU        = "broker CPU"
	MetricMemory     = "memory, peak"
	metricReady      = "start to ready, empty"
)

// Metric is one figure of a part that is worth comparing.
type Metric struct {
	Name, Unit string
	Better     string  // "lower" or "higher"
	Noise      float64 // see Row.Noise
	Value      float64
}

// MetricsOf returns what a part's figures say, in the order of the table.
func MetricsOf(f *bench.Figures) []Metric {
	var all []Metric
	paced := f.Settings.Rate > 0
	if flow := sumOf(f); !paced && (f.Produced != nil || f.Fetched != nil) {
		unit, value := "MB/s", flow.PayloadMBPerSec
		if f.Produced != nil && (f.Settings.Batch == 1 || f.Settings.Flush) {
			unit, value = "requests/s", flow.RequestsPerSecond
		}
		all = append(all, Metric{MetricThroughput, unit, "higher", noiseOther, value})
	}
	if u := f.Broker; u != nil {
		unit, value := "s/GB", u.CPUSecondsPerGB
		switch {
		case f.Produced != nil && f.Settings.Batch == 1, f.Produced == nil && f.Fetched == nil:
			unit, value = "us/request", u.CPUMicrosPerReq
		case f.Produced != nil && f.Settings.Size <= 100:
			unit, value = "ns/record", u.CPUNanosPerRec
		}
		all = append(all, Metric{MetricCPU, unit, "lower", noiseCPU, value})
	}
	for _, l := range f.Latencies {
		if !paced || l.Of == bench.SendAfterDue {
			continue
		}
		for _, p := range []struct {
			name  string
			value float64
		}{{"p50", l.P50}, {"p99", l.P99}, {"p99.9", l.P999}} {
			all = append(all, Metric{l.Of + " " + p.name, "ms", "lower", noiseOther, p.value})
		}
	}
	if u := f.Broker; u != nil {
		all = append(all, Metric{MetricMemory, "MiB", "lower", noiseCPU, float64(u.MemoryPeakBytes) / mib})
	}
	for _, e := range f.Extras {
		// What has no unit counts something that is the same for both.
		if e.Unit == "" {
			continue
		}
		better := "lower"
		if e.Unit == bench.UnitPerSecond {
			better = "higher"
		}
		all = append(all, Metric{e.Name, e.Unit, better, noiseOther, e.Value})
	}
	return all
}

// sumOf is what went both ways.
func sumOf(f *bench.Figures) bench.Flow {
	var all bench.Flow
	for _, flow := range []*bench.Flow{f.Produced, f.Fetched} {
		if flow != nil {
			all.PayloadMBPerSec += flow.PayloadMBPerSec
			all.RequestsPerSecond += flow.RequestsPerSecond
		}
	}
	return all
}

// key names a row.
type key struct{ placement, workload, part, metric string }

// measured are one key's figures by round, for both sides.
type measured struct {
	metric Metric
	sides  [2]map[int]float64
}

// evaluate works out rows and latencies from the starts.
func (r *Report) evaluate() error {
	var order []key
	found := map[key]*measured{}
	add := func(k key, s Start, m Metric) {
		if found[k] == nil {
			order = append(order, k)
			found[k] = &measured{metric: m, sides: [2]map[int]float64{{}, {}}}
		}
		found[k].sides[s.Side][s.Round] = m.Value
	}
	starts := slices.Clone(r.Starts)
	slices.SortStableFunc(starts, func(a, b Start) int {
		return cmp.Or(cmp.Compare(slices.Index(r.Plan.Placements, a.Placement), slices.Index(r.Plan.Placements, b.Placement)), cmp.Compare(a.Round, b.Round), cmp.Compare(a.Side, b.Side))
	})
	for _, s := range starts {
		for _, result := range s.Results {
			for _, f := range result.Parts {
				for _, m := range MetricsOf(f) {
					add(key{s.Placement, result.Workload, f.Part, m.Name}, s, m)
				}
			}
		}
		if s.ReadySeconds > 0 {
			add(key{s.Placement, "start", "", metricReady}, s, Metric{metricReady, "s", "lower", noiseOther, s.ReadySeconds})
		}
	}
	r.Rows = []Row{}
	for _, k := range order {
		m := found[k]
		row := Row{Workload: k.workload, Part: k.part, Placement: k.placement, Metric: k.metric, Unit: m.metric.Unit, Better: m.metric.Better, Noise: m.metric.Noise}
		for round := 1; round <= r.Plan.Rounds; round++ {
			a, okA := m.sides[0][round]
			b, okB := m.sides[1][round]
			if okA && okB {
				row.A, row.B = append(row.A, a), append(row.B, b)
			}
		}
		row.Judge()
		r.Rows = append(r.Rows, row)
	}
	r.order()
	return r.pool(starts)
}

// order puts what is of no workload last in each placement.
func (r *Report) order() {
	rank := func(row Row) int {
		i := slices.Index(r.Plan.Workloads, row.Workload)
		if i < 0 {
			i = len(r.Plan.Workloads)
		}
		return slices.Index(r.Plan.Placements, row.Placement)*1000 + i
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int { return cmp.Compare(rank(a), rank(b)) })
}

// pool makes the latency curves of parts at a fixed rate.
func (r *Report) pool(starts []Start) error {
	type curve struct{ placement, workload, part, of string }
	var order []curve
	found := map[curve]*[2][]bench.Latency{}
	for _, s := range starts {
		for _, result := range s.Results {
			for _, f := range result.Parts {
				for _, l := range f.Latencies {
					k := curve{s.Placement, result.Workload, f.Part, l.Of}
					if f.Settings.Rate == 0 || l.Of == bench.SendAfterDue {
						continue
					}
					if found[k] == nil {
						order = append(order, k)
						found[k] = new([2][]bench.Latency)
					}
					found[k][s.Side] = append(found[k][s.Side], l)
				}
			}
		}
	}
	r.Latencies = []Curve{}
	for _, k := range order {
		c := Curve{Workload: k.workload, Part: k.part, Placement: k.placement, Of: k.of}
		for side := range found[k] {
			pooled, ok, err := bench.PoolLatencies(k.of, found[k][side])
			if err != nil {
				return err
			}
			if ok {
				c.Sides = append(c.Sides, pooled)
			}
		}
		if len(c.Sides) == len(found[k]) {
			r.Latencies = append(r.Latencies, c)
		}
	}
	return nil
}
