package compare

import (
	"fmt"
	"html"
	"strings"
)

// ChartFile is the small chart that a comparison leaves beside its page.
const ChartFile = "compare.svg"

// The chart is drawn in pixels. Bars end where there is room for their value.
const (
	chartWidth    = 760.0
	chartMargin   = 16.0
	chartBars     = 236.0 // where bars begin
	chartBarMax   = 280.0
	chartBar      = 12.0
	chartRow      = 40.0
	chartHeading  = 34.0
	chartTop      = 52.0
	chartFoot     = 20.0
	chartNameMax  = 34 // letters of a name that there is room for
	chartRowsMax  = 40
	chartTextLine = 112 // letters of a line at the foot
)

// chartStyle has both colour schemes: a page that embeds the chart as an image cannot style it. The ground is opaque,
// so that it can be read where the page's scheme is not that of the browser.
const chartStyle = `<style>
.ground { fill: #ffffff; stroke: #d9dde2; } text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1a1d21; }
.soft { fill: #5c6570; font-size: 12px; } .head { font-weight: 600; font-size: 14px; } .a { fill: #1f66d1; } .b { fill: #b4590a; }
@media (prefers-color-scheme: dark) {
.ground { fill: #14171a; stroke: #363c43; } text { fill: #e8eaed; } .soft { fill: #a0a8b1; } .a { fill: #74a9ff; } .b { fill: #f2a65a; }
}
</style>
`

// Chart returns throughput, broker CPU and their ratios as one small SVG that needs nothing else and can be read on light
// and dark pages. Of several placements it shows the first.
func (r *Report) Chart() []byte {
	panels := []struct{ title, metric string }{
		{"Throughput, higher is better", MetricThroughput},
		{"Broker CPU for the same work, lower is better", MetricCPU},
	}
	var body strings.Builder
	y := chartTop
	for _, p := range panels {
		rows := r.charted(p.metric)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&body, `<text class="head" x="%.0f" y="%.0f">%s</text><text class="soft" x="%.0f" y="%.0f" text-anchor="end">ratio (range)</text>`+"\n", chartMargin, y+16, p.title, chartWidth-chartMargin, y+16)
		y += chartHeading
		for _, row := range rows {
			chartRowAt(&body, row, y)
			y += chartRow
		}
		y += 6
	}
	for _, line := range r.chartFoot() {
		fmt.Fprintf(&body, `<text class="soft" x="%.0f" y="%.0f">%s</text>`+"\n", chartMargin, y+10, escaped(line))
		y += chartFoot
	}
	height := y + 6
	a, b := r.Brokers[0], r.Brokers[1]
	title := fmt.Sprintf("%s against %s", a.Name, strings.TrimSpace(b.Name+" "+b.Version))
	var all strings.Builder
	fmt.Fprintf(&all, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`+"\n", chartWidth, height, chartWidth, height, escaped(title))
	fmt.Fprintf(&all, "<title>%s</title>\n%s", escaped(title), chartStyle)
	fmt.Fprintf(&all, `<rect class="ground" x="0.5" y="0.5" width="%.0f" height="%.0f" rx="8"></rect>`+"\n", chartWidth-1, height-1)
	fmt.Fprintf(&all, `<rect class="a" x="%.0f" y="20" width="12" height="12" rx="2"></rect><text x="%.0f" y="31">%s</text>`, chartMargin, chartMargin+18, escaped(cut(a.Name, chartNameMax)))
	fmt.Fprintf(&all, `<rect class="b" x="%.0f" y="20" width="12" height="12" rx="2"></rect><text x="%.0f" y="31">%s</text>`+"\n", chartBars, chartBars+18, escaped(cut(strings.TrimSpace(b.Name+" "+b.Version), chartNameMax)))
	return []byte(all.String() + body.String() + "</svg>\n")
}

// charted are the rows of a metric that have a ratio, of the first placement.
func (r *Report) charted(metric string) []Row {
	var rows []Row
	for _, row := range r.Rows {
		if row.Metric == metric && row.Ratio > 0 && row.Placement == r.Plan.Placements[0] && len(rows) < chartRowsMax {
			rows = append(rows, row)
		}
	}
	return rows
}

// chartRowAt draws the medians of a row as two bars. Each row has a scale of its own, since their units differ.
func chartRowAt(b *strings.Builder, row Row, y float64) {
	most := max(row.MedianA, row.MedianB)
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f">%s</text><text class="soft" x="%.0f" y="%.0f">%s</text>`, chartMargin, y+11, escaped(cut(part(row.Workload, row.Part), chartNameMax)), chartMargin, y+27, escaped(row.Unit))
	for i, side := range []struct {
		class string
		value float64
	}{{"a", row.MedianA}, {"b", row.MedianB}} {
		width := max(side.value/most*chartBarMax, 2)
		top := y + float64(i)*(chartBar+3)
		fmt.Fprintf(b, `<rect class="%s" x="%.0f" y="%.0f" width="%.1f" height="%.0f" rx="2"></rect><text class="soft" x="%.1f" y="%.0f">%s</text>`, side.class, chartBars, top, width, chartBar, chartBars+width+6, top+10.5, Number(side.value))
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="end">%s</text>`+"\n", chartWidth-chartMargin, y+18, escaped(row.Ratios()))
}

// chartFoot says what the figures are of, in lines for which there is room.
func (r *Report) chartFoot() []string {
	rounds := fmt.Sprintf("medians of %d rounds", r.Plan.Rounds)
	if r.Plan.Rounds < RoundsMin {
		rounds += ", too few for a verdict"
	}
	lines := []string{
		fmt.Sprintf("%s; %s; ratio: median of %s / %s over the pairs", r.Plan.Placements[0], rounds, r.Brokers[0].Name, r.Brokers[1].Name),
		fmt.Sprintf("%s, %d CPUs, Linux %s, %s; %s; %s", r.Host.CPU, r.Host.CPUs, r.Host.Kernel, r.Host.FileSystem, strings.TrimSpace("millrace "+r.Millrace), r.Ended.UTC().Format("2006-01-02")),
	}
	for i := range lines {
		lines[i] = cut(lines[i], chartTextLine)
	}
	return lines
}

// cut shortens a text to so many letters.
func cut(s string, letters int) string {
	if all := []rune(s); len(all) > letters {
		return string(all[:letters-1]) + "…"
	}
	return s
}

func escaped(s string) string { return html.EscapeString(s) }
