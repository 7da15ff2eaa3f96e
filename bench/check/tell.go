package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"millrace/bench/compare"
)

// suspectShare is the share by which a figure must be worse, however noisy, to be measured again.
const suspectShare = slowdownMax / 2

// suspects are the rows that may be worse: what is measured once more before it fails the check, and what was too noisy to
// say and looks bad.
func suspects(rows []compare.Row) []compare.Row {
	var all []compare.Row
	for _, r := range rows {
		if r.Verdict == compare.Worse || r.Verdict == compare.TooNoisy && r.Ratio > 1+suspectShare {
			all = append(all, r)
		}
	}
	return all
}

// twiceWorse is the second measurement with the verdict that both make together: where the test finds each to be worse by
// more than the limit, noise does not explain it, although not every pair says so.
func twiceWorse(first, second compare.Row) compare.Row {
	shown := func(r compare.Row) bool { return r.P < worseByChance && r.Ratio > 1+slowdownMax }
	if second.Verdict == compare.TooNoisy && shown(first) && shown(second) {
		second.Verdict = compare.Worse
	}
	return second
}

// worseByChance is how often the test may find a difference where there is none.
const worseByChance = 0.05

// replaced puts what was measured again in the place of what it was measured for. Of a workload or a function that was run
// for one suspect, rows that were none come along, and are left as they were: who is asked twice must not be given a second
// chance to look bad by accident.
func replaced(rows, suspected, again []compare.Row) []compare.Row {
	same := func(a, b compare.Row) bool {
		return a.Workload == b.Workload && a.Part == b.Part && a.Metric == b.Metric
	}
	all := slices.Clone(rows)
	for i, r := range all {
		if !slices.ContainsFunc(suspected, func(s compare.Row) bool { return same(s, r) }) {
			continue
		}
		if j := slices.IndexFunc(again, func(a compare.Row) bool { return same(a, r) }); j >= 0 {
			all[i] = twiceWorse(r, again[j])
		}
	}
	return all
}

// tell prints the rows and fails where one is worse.
func tell(w io.Writer, rows []compare.Row) error {
	worse, unknown := 0, 0
	var widest float64
	for _, r := range rows {
		switch r.Verdict {
		case compare.Worse:
			worse++
		case compare.TooNoisy, compare.NoFigures:
			unknown++
		}
		if r.Ratio > 0 {
			widest = max(widest, (r.RatioHigh-r.RatioLow)/r.Ratio)
		}
		fmt.Fprintf(w, "%-60s %10s %10s %-10s %-20s %s\n", strings.TrimSpace(r.Workload+" "+r.Part), compare.Number(r.MedianA), compare.Number(r.MedianB), r.Unit, r.Ratios(), r.Says())
	}
	if len(rows) == 0 {
		return errors.New("nothing was compared: name packages with benchmarks")
	}
	fmt.Fprintf(w, "\nnoise: the ratios spread over up to %.0f %% of their median\n", widest*100)
	if unknown > 0 {
		fmt.Fprintf(w, "of %d of %d figures this host is too noisy to tell: a slowdown of them was to be found only where every pair, or the test twice, shows it\n", unknown, len(rows))
	}
	if worse > 0 {
		return fmt.Errorf("%d of %d figures are worse than the base by more than %.0f %%, and were so when they were measured again", worse, len(rows), slowdownMax*100)
	}
	_, err := fmt.Fprintf(w, "none of %d figures is shown to be worse than the base by more than %.0f %%\n", len(rows), slowdownMax*100)
	return err
}
