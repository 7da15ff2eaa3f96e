package tune

import (
	"slices"
	"time"

	"millrace/bench"
	"millrace/bench/compare"
)

// Goal is what the settings shall be best for.
type Goal string

// Goals.
const (
	Throughput Goal = "throughput"
	Latency    Goal = "latency"
	Durability Goal = "durability"
)

// Goals are all of them.
func Goals() []Goal { return []Goal{Throughput, Latency, Durability} }

// load is a workload of bench with what it is changed by.
type load struct {
	workload string
	given    []string
	settings bench.Settings
	decides  []string // metrics of compare that decide; others are shown
}

// loads returns what is run on each start of a broker. bytes bounds what a saturated one writes.
func (g Goal) loads(seconds time.Duration, bytes int64) []load {
	base := bench.Settings{Duration: seconds, Warmup: seconds / warmupShare, Bytes: bytes}
	timed, bounded := []string{"duration", "warmup"}, []string{"duration", "warmup", "bytes"}
	with := func(of []string, names ...string) []string { return slices.Concat(of, names) }
	reading := base
	reading.Size, reading.Batch, reading.Readers = 1024, 100, 8
	behind := base
	behind.Readers = 1
	switch g {
	case Latency:
		return []load{
			{"L1", timed, base, []string{"produce p50", "produce p99"}},
			{"L2", with(timed, "readers"), behind, []string{"due to received p50", "due to received p99"}},
		}
	case Durability:
		return []load{{"P7", bounded, base, []string{compare.MetricThroughput}}}
	}
	saturated := []string{compare.MetricThroughput}
	return []load{
		{"P3", with(bounded, "rate"), base, saturated}, // a rate of 0: saturated only
		{"P4", bounded, base, saturated},
		{"F1", with(bounded, "size", "batch", "readers"), reading, saturated},
	}
}

// Measured is a figure of one start.
type Measured struct {
	Workload, Part string
	compare.Metric
	Decides bool
}

// shown are metrics that decide nothing but are worth knowing.
func shown(metric string) bool { return metric == compare.MetricCPU || metric == compare.MetricMemory }

// pick returns the figures of a result that decide or are shown.
func (l *load) pick(r *bench.Result) []Measured {
	var all []Measured
	for _, part := range r.Parts {
		for _, m := range compare.MetricsOf(part) {
			if decides := slices.Contains(l.decides, m.Name); decides || shown(m.Name) {
				all = append(all, Measured{r.Workload, part.Part, m, decides})
			}
		}
	}
	return all
}
