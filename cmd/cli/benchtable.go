package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"millrace/bench"
	"millrace/bench/compare"
)

// benchRow is a line of the table: a name, and what each part has there; empty where it has nothing.
type benchRow struct {
	name  string
	value func(f *bench.Figures) string
}

// printBench writes the parts of a result side by side, and below what there is to say of them.
func (a *App) printBench(r *bench.Result) error {
	if _, err := fmt.Fprintf(a.Out, "%s: %s\n%s\n\n", r.Workload, r.Summary, hostLine(r)); err != nil {
		return err
	}
	err := a.table(func(w *tabwriter.Writer) {
		if len(r.Parts) > 1 || r.Parts[0].Part != "" {
			names := make([]string, len(r.Parts))
			for i, f := range r.Parts {
				names[i] = f.Part
			}
			fmt.Fprintf(w, "\t%s\n", strings.Join(names, "\t"))
		}
		for _, row := range benchRows(r) {
			cells := make([]string, len(r.Parts))
			some := false
			for i, f := range r.Parts {
				cells[i] = row.value(f)
				some = some || cells[i] != ""
				cells[i] = shown(cells[i])
			}
			if some {
				fmt.Fprintf(w, "%s\t%s\n", row.name, strings.Join(cells, "\t"))
			}
		}
	})
	if err != nil {
		return err
	}
	for _, line := range benchNotes(r) {
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// benchNotes are the lines below the table; what holds for several parts is said once.
func benchNotes(r *bench.Result) []string {
	var lines []string
	add := func(line string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, f := range r.Parts {
		if f.Durability != "" {
			add("acknowledged means: " + f.Durability)
		}
	}
	for _, f := range r.Parts {
		for _, n := range f.Notes {
			if f.Part != "" {
				n = f.Part + ": " + n
			}
			add("note: " + n)
		}
	}
	return lines
}

func hostLine(r *bench.Result) string {
	h := r.Host
	line := fmt.Sprintf("broker %s", r.Broker)
	if h.BrokerPID != 0 {
		line += fmt.Sprintf(" (process %d on CPUs %s)", h.BrokerPID, h.BrokerCPUs)
	}
	return line + fmt.Sprintf("; load on CPUs %s of %d, %s, Linux %s", h.LoadCPUs, h.CPUs, h.CPU, h.Kernel)
}

func benchRows(r *bench.Result) []benchRow {
	rows := []benchRow{{"time", func(f *bench.Figures) string { return fmt.Sprintf("%.1f s", f.Seconds) }}}
	flow := func(verb string, which func(f *bench.Figures) *bench.Flow) {
		add := func(name string, value func(f *bench.Flow) string) {
			rows = append(rows, benchRow{verb + name, func(f *bench.Figures) string {
				if which(f) == nil {
					return ""
				}
				return value(which(f))
			}})
		}
		add(" payload", func(f *bench.Flow) string { return size(f.PayloadBytes) })
		add(" on the wire, out and in", func(f *bench.Flow) string { return size(f.SentBytes) + ", " + size(f.ReceivedBytes) })
		add(" payload a second", func(f *bench.Flow) string { return fmt.Sprintf("%.1f MB", f.PayloadMBPerSec) })
		add(" records a second", func(f *bench.Flow) string { return fmt.Sprintf("%.0f", f.RecordsPerSecond) })
		add(" requests a second", func(f *bench.Flow) string { return fmt.Sprintf("%.0f", f.RequestsPerSecond) })
		add(" batches", func(f *bench.Flow) string { return fmt.Sprint(f.Batches) })
	}
	flow("produced", func(f *bench.Figures) *bench.Flow { return f.Produced })
	flow("fetched", func(f *bench.Figures) *bench.Flow { return f.Fetched })
	rows = append(rows, latencyRows(r)...)
	rows = append(rows, usageRows()...)
	rows = append(rows, extraRows(r)...)
	rows = append(rows, benchRow{"load CPU per GB", func(f *bench.Figures) string { return unlessZero("%.2f s", f.LoadPerGB) }},
		benchRow{"read back and verified", func(f *bench.Figures) string {
			if f.Verified == 0 {
				return ""
			}
			return count(f.Verified, "record")
		}})
	return rows
}

// unlessZero writes what there is to divide by; a workload without records has none.
func unlessZero(format string, v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

func usageRows() []benchRow {
	usage := func(name string, value func(u *bench.Usage) string) benchRow {
		return benchRow{name, func(f *bench.Figures) string {
			if f.Broker == nil {
				return ""
			}
			return value(f.Broker)
		}}
	}
	return []benchRow{
		usage("broker CPU", func(u *bench.Usage) string { return fmt.Sprintf("%.2f s", u.CPUSeconds) }),
		usage("broker CPU per GB", func(u *bench.Usage) string { return unlessZero("%.2f s", u.CPUSecondsPerGB) }),
		usage("broker CPU per record", func(u *bench.Usage) string { return unlessZero("%.0f ns", u.CPUNanosPerRec) }),
		usage("broker CPU per request", func(u *bench.Usage) string { return fmt.Sprintf("%.1f us", u.CPUMicrosPerReq) }),
		usage("broker memory, peak", func(u *bench.Usage) string { return size(u.MemoryPeakBytes) }),
		usage("broker mapped files, peak", func(u *bench.Usage) string { return size(u.MappedPeakBytes) }),
		usage("broker disk, written and read", func(u *bench.Usage) string {
			if !u.HasIO {
				return ""
			}
			return size(u.DiskWrittenBytes) + ", " + size(u.DiskReadBytes)
		}),
	}
}

// latencyRows has a row for each latency that a part tells.
func latencyRows(r *bench.Result) []benchRow {
	var rows []benchRow
	seen := map[string]bool{}
	for _, f := range r.Parts {
		for _, l := range f.Latencies {
			if seen[l.Of] {
				continue
			}
			seen[l.Of] = true
			for _, p := range percentiles(l.Of) {
				rows = append(rows, benchRow{l.Of + " " + p.name, func(f *bench.Figures) string {
					for _, other := range f.Latencies {
						if other.Of == l.Of {
							return fmt.Sprintf("%.2f ms", p.value(other))
						}
					}
					return ""
				}})
			}
		}
	}
	return rows
}

// percentile is one column of a latency.
type percentile struct {
	name  string
	value func(l bench.Latency) float64
}

// percentiles are those worth a row: of how late the load itself was, the ends do.
func percentiles(of string) []percentile {
	all := []percentile{
		{"p50", func(l bench.Latency) float64 { return l.P50 }},
		{"p99", func(l bench.Latency) float64 { return l.P99 }},
		{"p99.9", func(l bench.Latency) float64 { return l.P999 }},
		{"p99.99", func(l bench.Latency) float64 { return l.P9999 }},
		{"max", func(l bench.Latency) float64 { return l.Max }},
	}
	if of == bench.SendAfterDue {
		return []percentile{all[0], all[1]}
	}
	return all
}

func extraRows(r *bench.Result) []benchRow {
	var rows []benchRow
	for _, part := range r.Parts {
		for _, e := range part.Extras {
			rows = append(rows, benchRow{e.Name, func(f *bench.Figures) string {
				for _, other := range f.Extras {
					if other.Name == e.Name {
						return strings.TrimSpace(compare.Number(other.Value) + " " + other.Unit)
					}
				}
				return ""
			}})
		}
	}
	return rows
}
