package compare

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/perf/benchmath"
)

// RoundsMin is the number of rounds from which the test can find anything: with three of each, two samples that
// do not overlap at all come about by chance once in ten times.
const RoundsMin = 4

const (
	alpha = 0.05
	// spreadMax is how far the ratios may lie apart, as a share of their median, for the host to be quiet enough.
	spreadMax = 0.20
)

// Row compares one figure of one part.
type Row struct {
	Workload  string `json:"workload"`
	Part      string `json:"part,omitempty"`
	Placement string `json:"placement"`
	Metric    string `json:"metric"`
	Unit      string `json:"unit"`
	// Better is "lower" or "higher".
	Better string `json:"better"`
	// Noise is the share by which medians must differ to be more than what such figures differ by anyway.
	Noise     float64   `json:"noise"`
	A         []float64 `json:"a"` // by round; pairs only
	B         []float64 `json:"b"`
	MedianA   float64   `json:"median_a"`
	MedianB   float64   `json:"median_b"`
	Ratio     float64   `json:"ratio"` // the median of A/B over the pairs; 0: there is none
	RatioLow  float64   `json:"ratio_low"`
	RatioHigh float64   `json:"ratio_high"`
	P         float64   `json:"p"` // of the Mann-Whitney U test, exact for small samples
	Verdict   Verdict   `json:"verdict"`
	Noisy     bool      `json:"noisy"` // the ratios spread over more than spreadMax
}

// Verdict is what a row says.
type Verdict string

// Verdicts.
const (
	Better    Verdict = "better" // A is
	Worse     Verdict = "worse"
	Alike     Verdict = "no difference beyond noise"
	TooNoisy  Verdict = "host too noisy for a verdict"
	TooFew    Verdict = "too few rounds for a verdict"
	NoFigures Verdict = "too little to be measured"
)

// Judge fills in what follows from A and B.
//
// A difference counts where the test finds it and the medians differ by more than the noise floor. Where the
// ratios spread over more than spreadMax, it counts only when every pair says the same: then there is a
// difference, and how large it is, is uncertain.
func (r *Row) Judge() {
	r.Verdict = NoFigures
	if len(r.A) == 0 {
		return
	}
	r.MedianA, r.MedianB = median(r.A), median(r.B)
	r.P = 1
	ratios := make([]float64, len(r.A))
	for i := range r.A {
		// Nothing used is too little to be seen, and no ratio.
		if r.A[i] <= 0 || r.B[i] <= 0 {
			return
		}
		ratios[i] = r.A[i] / r.B[i]
	}
	r.Ratio, r.RatioLow, r.RatioHigh = median(ratios), slices.Min(ratios), slices.Max(ratios)
	r.Noisy = r.RatioHigh-r.RatioLow > spreadMax*r.Ratio
	sample := func(of []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(of), &benchmath.Thresholds{CompareAlpha: alpha})
	}
	r.P = benchmath.AssumeNothing.Compare(sample(r.A), sample(r.B)).P
	r.Verdict = r.verdict()
}

func (r *Row) verdict() Verdict {
	less, more := r.RatioHigh < 1-r.Noise, r.RatioLow > 1+r.Noise
	switch {
	case len(r.A) < RoundsMin:
		return TooFew
	case r.Noisy && !less && !more:
		return TooNoisy
	case r.P >= alpha || r.Ratio >= 1-r.Noise && r.Ratio <= 1+r.Noise:
		return Alike
	case (r.Ratio < 1) == (r.Better == "lower"):
		return Better
	}
	return Worse
}

// Says is the verdict in words, for a table.
func (r *Row) Says() string {
	switch r.Verdict {
	case Better, Worse:
		text := fmt.Sprintf("%s (p %.3f)", r.Verdict, r.P)
		if r.Noisy {
			text += "; host too noisy for how much"
		}
		return text
	case Alike:
		return fmt.Sprintf("%s (p %.3f)", r.Verdict, r.P)
	}
	return string(r.Verdict)
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// Number writes a figure with three digits that count.
func Number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100 || v <= -100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Medians writes both medians, "-" where no pair was measured.
func (r *Row) Medians() (a, b string) {
	if len(r.A) == 0 {
		return "-", "-"
	}
	return Number(r.MedianA), Number(r.MedianB)
}

// Ratios writes the median ratio and its range, "-" where there is none.
func (r *Row) Ratios() string {
	if r.Ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%s-%s)", Number(r.Ratio), Number(r.RatioLow), Number(r.RatioHigh))
}
