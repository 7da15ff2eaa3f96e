package compare

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Charts are drawn in units that are pixels where a chart is as wide as its view box.
const (
	barWidth  = 340.0
	barHeight = 12.0
	barStep   = 40.0
	dotRadius = 2.5

	curveWidth, curveHeight = 340.0, 210.0
	curveLeft, curveRight   = 52.0, 14.0
	curveTop, curveBottom   = 10.0, 24.0
)

// barChart draws the medians of a row as bars with a dot for each round, on a scale that begins at 0.
func barChart(r Row, nameA, nameB string) template.HTML {
	most := max(slices.Max(r.A), slices.Max(r.B))
	if most <= 0 {
		most = 1
	}
	at := func(v float64) float64 { return dotRadius + v/most*(barWidth-2*dotRadius-2) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, barWidth, 2*barStep, html.EscapeString(fmt.Sprintf("%s %s, %s %s %s", nameA, Number(r.MedianA), nameB, Number(r.MedianB), r.Unit)))
	for i, side := range []struct {
		class, name string
		median      float64
		rounds      []float64
	}{{"a", nameA, r.MedianA, r.A}, {"b", nameB, r.MedianB, r.B}} {
		y := float64(i)*barStep + 14
		fmt.Fprintf(&b, `<text x="0" y="%.0f">%s</text><text x="%.0f" y="%.0f" text-anchor="end">%s</text>`, y, html.EscapeString(side.name), barWidth, y, html.EscapeString(Number(side.median)+" "+r.Unit))
		fmt.Fprintf(&b, `<rect class="%s" x="0" y="%.0f" width="%.1f" height="%.0f" rx="2"></rect>`, side.class, y+6, max(at(side.median), 2), barHeight)
		for round, v := range side.rounds {
			fmt.Fprintf(&b, `<circle class="run" cx="%.1f" cy="%.1f" r="%.1f"><title>round %d: %s %s</title></circle>`, at(v), y+6+barHeight/2, dotRadius, round+1, Number(v), html.EscapeString(r.Unit))
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all that is not a number was escaped
}

// curveChart draws percentiles, p50 to p99.99, over a logarithmic scale of milliseconds.
func curveChart(c Curve, nameA, nameB string) template.HTML {
	low, high := math.Inf(1), math.Inf(-1)
	for _, side := range c.Sides {
		for _, v := range points(side) {
			v = max(v, 0.001)
			low, high = min(low, v), max(high, v)
		}
	}
	low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if high <= low {
		high = low + 1
	}
	bottom := curveHeight - curveBottom
	x := func(i int) float64 { return curveLeft + 10 + float64(i)*(curveWidth-curveLeft-curveRight-20)/4 }
	y := func(v float64) float64 {
		return bottom - (math.Log10(max(v, 0.001))-low)/(high-low)*(bottom-curveTop)
	}
	var b strings.Builder
	label := fmt.Sprintf("latency from p50 to p99.99: %s %s to %s ms, %s %s to %s ms", nameA, Number(c.Sides[0].P50), Number(c.Sides[0].P9999), nameB, Number(c.Sides[1].P50), Number(c.Sides[1].P9999))
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, curveWidth, curveHeight, html.EscapeString(label))
	for d := low; d <= high; d++ {
		v := math.Pow(10, d)
		fmt.Fprintf(&b, `<line class="grid-line" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"></line><text class="axis" x="%.0f" y="%.1f" text-anchor="end">%s</text>`,
			curveLeft, curveWidth-curveRight, y(v), y(v), curveLeft-6, y(v)+4, milliseconds(v))
	}
	for i, name := range []string{"p50", "p90", "p99", "p99.9", "p99.99"} {
		fmt.Fprintf(&b, `<text class="axis" x="%.1f" y="%.0f" text-anchor="middle">%s</text>`, x(i), curveHeight-6, name)
	}
	for side, class := range []string{"a", "b"} {
		var line, dots strings.Builder
		for i, v := range points(c.Sides[side]) {
			fmt.Fprintf(&line, "%.1f,%.1f ", x(i), y(v))
			fmt.Fprintf(&dots, `<circle class="%s" cx="%.1f" cy="%.1f" r="3.5"><title>%s ms</title></circle>`, class, x(i), y(v), Number(v))
		}
		fmt.Fprintf(&b, `<polyline class="line-%s" points="%s"></polyline>%s`, class, strings.TrimSpace(line.String()), dots.String())
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all that is not a number was escaped
}

// milliseconds writes a power of ten in the unit that suits it.
func milliseconds(v float64) string {
	switch {
	case v < 0.9:
		return fmt.Sprintf("%.0f us", v*1000)
	case v < 900:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.0f s", v/1000)
}
