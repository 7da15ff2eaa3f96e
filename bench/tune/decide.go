package tune

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"millrace/bench/compare"
)

// Row compares one figure of a variant with the defaults. A is the variant.
type Row struct {
	compare.Row
	Decides bool `json:"decides"` // whether the goal asks for it
}

// Trial is a variant beside the defaults.
type Trial struct {
	Variant Variant `json:"variant"`
	Rows    []Row   `json:"rows"`
	// Gain is how much better the deciding figures are, as the geometric mean of their ratios turned so that more
	// is better: 1.1 is 10 %. 0: there is none.
	Gain    float64 `json:"gain"`
	Verdict Verdict `json:"verdict"`
}

// Verdict is what a trial says.
type Verdict string

// Verdicts of a trial.
const (
	Better   Verdict = "better" // in at least one deciding figure, worse in none
	Worse    Verdict = "worse"  // in at least one
	Alike    Verdict = "no difference beyond noise"
	TooNoisy Verdict = "host too noisy for a verdict"
	TooFew   Verdict = "too few rounds for a verdict"
)

// newTrial compares the rounds of a variant with those of the defaults, in pairs.
func newTrial(v Variant, variant, defaults [][]Measured) Trial {
	t := Trial{Variant: v}
	if len(variant) == 0 {
		t.Verdict = TooFew
		return t
	}
	for i, m := range variant[0] {
		row := Row{Decides: m.Decides, Row: compare.Row{Workload: m.Workload, Part: m.Part, Placement: compare.Unpinned, Metric: m.Name, Unit: m.Unit, Better: m.Better, Noise: m.Noise}}
		for round := range variant {
			row.A, row.B = append(row.A, variant[round][i].Value), append(row.B, defaults[round][i].Value)
		}
		row.Judge()
		t.Rows = append(t.Rows, row)
	}
	t.judge()
	return t
}

// judge fills in what follows from the deciding rows.
func (t *Trial) judge() {
	found := map[compare.Verdict]int{}
	var sum float64
	n := 0
	for _, r := range t.Rows {
		if !r.Decides {
			continue
		}
		found[r.Verdict]++
		if improved := r.improvement(); improved > 0 {
			sum += math.Log(improved)
			n++
			// Too noisy to say that it is worse, and too bad to say that it is not.
			if r.Verdict == compare.TooNoisy && improved < 1-r.Noise {
				found[compare.Worse]++
			}
		}
	}
	if n > 0 {
		t.Gain = math.Exp(sum / float64(n))
	}
	switch {
	case found[compare.TooFew] > 0 || n == 0:
		t.Verdict = TooFew
	case found[compare.Worse] > 0:
		t.Verdict = Worse
	case found[compare.Better] > 0:
		t.Verdict = Better
	case found[compare.TooNoisy] > 0:
		t.Verdict = TooNoisy
	default:
		t.Verdict = Alike
	}
}

// improvement is the ratio turned so that more is better; 0: there is none.
func (r *Row) improvement() float64 {
	if r.Ratio > 0 && r.Better == "lower" {
		return 1 / r.Ratio
	}
	return r.Ratio
}

// spread is how far the ratios of the deciding rows lie apart at most, as a share of their median.
func (t *Trial) spread() float64 {
	var widest float64
	for _, r := range t.Rows {
		if r.Decides && r.Ratio > 0 {
			widest = max(widest, (r.RatioHigh-r.RatioLow)/r.Ratio)
		}
	}
	return widest
}

// choose returns the best value of each tunable that was better than the default, put together; ok is false where
// there is none, or where the control says that nothing can be believed.
func choose(tunables []Tunable, control Trial, trials []Trial) (together Variant, ok bool) {
	if !quiet(control) {
		return Variant{}, false
	}
	for _, tunable := range tunables {
		var best *Trial
		for i, t := range trials {
			of := strings.HasPrefix(t.Variant.Name, tunable.Setting+"=")
			if of && t.Verdict == Better && (best == nil || t.Gain > best.Gain) {
				best = &trials[i]
			}
		}
		if best != nil {
			together.Settings = append(together.Settings, best.Variant.Settings...)
		}
	}
	together.Name = strings.Join(together.Settings, ", ")
	return together, len(together.Settings) > 0
}

// quiet tells that the defaults were found to be as good as themselves.
func quiet(control Trial) bool { return control.Verdict == Alike || control.Verdict == TooNoisy }

// Outcome is what a run comes to.
type Outcome string

// Outcomes.
const (
	Recommended Outcome = "recommended" // the settings of the report
	Defaults    Outcome = "defaults"    // nothing that was tried is better
	Noisy       Outcome = "noisy"       // the host is too noisy for a verdict
	Unconfirmed Outcome = "unconfirmed" // what seemed better was not when it was measured again
	FewRounds   Outcome = "few rounds"
)

// conclude says what the trials come to. confirmed is nil where there was nothing to confirm.
func conclude(control Trial, trials []Trial, confirmed *Trial) Outcome {
	switch {
	case control.Verdict == TooFew:
		return FewRounds
	case !quiet(control):
		return Noisy
	case confirmed != nil && confirmed.Verdict == Better:
		return Recommended
	case confirmed != nil && confirmed.Verdict == TooNoisy:
		return Noisy
	case confirmed != nil:
		return Unconfirmed
	case slices.ContainsFunc(trials, func(t Trial) bool { return t.Verdict == TooNoisy }):
		return Noisy
	}
	return Defaults
}

// Says is the outcome in words.
func (r *Report) Says() string {
	noise := fmt.Sprintf("the defaults beside themselves differed by up to %.0f %% from round to round", r.Control.spread()*100)
	switch r.Outcome {
	case Recommended:
		return fmt.Sprintf("better than the defaults for %s: %s", r.Goal, r.Confirmed.Variant.Name)
	case Defaults:
		return fmt.Sprintf("the defaults are as good for %s as anything that was tried, within noise", r.Goal)
	case Unconfirmed:
		return fmt.Sprintf("%s seemed better and was not when it was measured again: the defaults stay", r.Confirmed.Variant.Name)
	case FewRounds:
		return fmt.Sprintf("%d rounds are too few for a verdict; %d are the least", r.Rounds, compare.RoundsMin)
	}
	return "this host is too noisy for a verdict: " + noise + "; the defaults stay. Try again when it is quieter, or with more --rounds and --seconds"
}
