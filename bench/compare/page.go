package compare

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"millrace/bench"
)

//go:embed page.html
var pageText string

// page is what the template shows.
type page struct {
	Title, Subtitle string
	Banners         []string
	A, B            string // with versions
	NameA, NameB    string
	Sections        []section
	Rows            []pageRow
	Notes           []string
	Facts           []fact
	Configurations  []fact
}

// section is a group of charts.
type section struct {
	ID, Title, Text string
	Figures         []figure
}

// figure is one chart.
type figure struct {
	Name, Detail, Foot string
	SVG                template.HTML
}

type pageRow struct{ Name, Metric, A, B, Unit, Ratio, Verdict, Class string }

type fact struct{ Name, Value string }

// WritePage writes the report as one HTML file that needs no other.
func (r *Report) WritePage(file string) error {
	raw, err := r.page()
	if err != nil {
		return err
	}
	return replace(file, raw)
}

func (r *Report) page() ([]byte, error) {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, r.view()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (r *Report) view() page {
	a, b := r.Brokers[0], r.Brokers[1]
	p := page{
		Title:    fmt.Sprintf("%s against %s", a.Name, b.Name),
		Subtitle: fmt.Sprintf("%s; %s, %d CPUs, Linux %s", r.Ended.Format("2 January 2006 15:04 MST"), r.Host.CPU, r.Host.CPUs, r.Host.Kernel),
		A:        a.Name + " " + a.Version, B: b.Name + " " + b.Version, NameA: a.Name, NameB: b.Name,
		Sections: r.sections(), Facts: r.facts(),
		Configurations: []fact{{a.Name, "# " + a.Command + "\n" + a.Configuration}, {b.Name, "# " + b.Command + "\n" + b.Configuration}},
	}
	if r.Plan.Rounds < RoundsMin {
		p.Banners = append(p.Banners, fmt.Sprintf("%d rounds: too few for a verdict. The figures show the size of the difference, not that it is there.", r.Plan.Rounds))
	}
	if !r.Complete {
		p.Banners = append(p.Banners, "This comparison is not complete.")
	}
	for _, row := range r.Rows {
		class := ""
		if row.Verdict == Better || row.Verdict == Worse {
			class = string(row.Verdict)
		}
		medianA, medianB := row.Medians()
		p.Rows = append(p.Rows, pageRow{r.rowName(row), row.Metric, medianA, medianB, row.Unit, row.Ratios(), row.Says(), class})
	}
	for _, d := range r.Durability() {
		p.Notes = append(p.Notes, "Acknowledged means, "+d+".")
	}
	p.Notes = append(p.Notes, "A difference counts where the Mann-Whitney U test finds it (p below 0.05) and it is larger than what such figures differ by anyway: 10 % of processor time and memory, 15 % of the rest. Where the ratios of the pairs spread over 20 %, it counts only when all pairs say the same.")
	p.Notes = append(p.Notes, r.Notes...)
	return p
}

// rowName names a row's part, and its placement where there are several.
func (r *Report) rowName(row Row) string {
	return r.placed(part(row.Workload, row.Part), row.Placement)
}

func (r *Report) placed(name, placement string) string {
	if len(r.Plan.Placements) > 1 {
		return name + ", " + placement
	}
	return name
}

func (r *Report) sections() []section {
	bars := func(id, title, text string, wanted func(metric string) bool) section {
		s := section{ID: id, Title: title, Text: text}
		for _, row := range r.Rows {
			if !wanted(row.Metric) || len(row.A) == 0 {
				continue
			}
			detail := row.Unit
			if !charted(row.Metric) {
				detail = row.Metric + ", " + row.Unit
			}
			foot := "ratio " + row.Ratios()
			if row.Ratio == 0 {
				foot = row.Says()
			}
			s.Figures = append(s.Figures, figure{Name: r.rowName(row), Detail: detail, Foot: foot, SVG: barChart(row, r.Brokers[0].Name, r.Brokers[1].Name)})
		}
		return s
	}
	is := func(name string) func(string) bool { return func(metric string) bool { return metric == name } }
	curves := section{ID: "latency", Title: "Latency", Text: "Open loop, from when a request was due; all rounds pooled. Lower is better."}
	for _, c := range r.Latencies {
		curves.Figures = append(curves.Figures, figure{Name: r.placed(part(c.Workload, c.Part), c.Placement), Detail: c.Of, SVG: curveChart(c, r.Brokers[0].Name, r.Brokers[1].Name)})
	}
	return []section{
		bars("throughput", "Throughput", "Saturated: as fast as the broker answers. Higher is better.", is(MetricThroughput)),
		bars("cpu", "Broker CPU", "Processor time of the broker's process for the work done. Lower is better.", is(MetricCPU)),
		curves,
		bars("memory", "Memory", "Peak of the broker's anonymous and shared memory; mapped pages of files are the page cache's. Lower is better.", is(MetricMemory)),
		bars("other", "Starts, connections, partitions", "Lower is better.", func(metric string) bool { return !charted(metric) && !isPercentile(metric) }),
	}
}

func charted(metric string) bool {
	return metric == MetricThroughput || metric == MetricCPU || metric == MetricMemory
}

func isPercentile(metric string) bool {
	return strings.HasSuffix(metric, " p50") || strings.HasSuffix(metric, " p99") || strings.HasSuffix(metric, " p99.9")
}

func (r *Report) facts() []fact {
	h, p := r.Host, r.Plan
	facts := []fact{
		{"Command", r.Command},
		{"millrace", strings.TrimSpace(r.Millrace + " " + r.Commit)},
		{r.Brokers[1].Name, r.Brokers[1].Version},
		{"Workloads", strings.Join(p.Workloads, ", ")},
		{"Rounds", fmt.Sprintf("%d, in each a fresh start of each broker, %s then %s (%s)", p.Rounds, r.Brokers[0].Name, r.Brokers[1].Name, strings.Join(p.Placements, ", "))},
		{"Share of the full workloads", fmt.Sprintf("%.4g", p.Scale)},
		{"Warm-up of " + r.Brokers[1].Name, p.Warm.String()},
		{"Began", r.Began.Format(time.RFC3339)},
		{"Ended", r.Ended.Format(time.RFC3339)},
		{"Host", h.Name},
		{"Processor", fmt.Sprintf("%s, %d CPUs", h.CPU, h.CPUs)},
		{"Memory", fmt.Sprintf("%.1f GiB", float64(h.MemoryBytes)/(1<<30))},
		{"Kernel", h.Kernel},
		{"Data on", fmt.Sprintf("%s, %s (%s)", h.FileSystem, h.Device, h.Mount)},
	}
	if h.BrokerCPUs != "" {
		facts = append(facts, fact{"Pinned", fmt.Sprintf("broker on CPU %s, load on CPU %s", h.BrokerCPUs, h.LoadCPUs)})
	}
	for side, broker := range r.Brokers {
		var seconds []string
		for _, s := range r.Starts {
			if s.Side == side {
				seconds = append(seconds, fmt.Sprintf("%.0f", s.Seconds))
			}
		}
		facts = append(facts, fact{"Seconds of each start, " + broker.Name, strings.Join(seconds, ", ")})
	}
	return facts
}

// points are the percentiles of a curve.
func points(l bench.Latency) []float64 { return []float64{l.P50, l.P90, l.P99, l.P999, l.P9999} }
