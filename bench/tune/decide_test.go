package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/bench/compare"
)

// made are figures of one workload: a deciding one, where more is better, and one that is shown.
func made(throughput, cpu float64) []Measured {
	return []Measured{
		{"P3", "", compare.Metric{Name: compare.MetricThroughput, Unit: "MB/s", Better: "higher", Noise: 0.15, Value: throughput}, true},
		{"P3", "", compare.Metric{Name: compare.MetricCPU, Unit: "s/GB", Better: "lower", Noise: 0.1, Value: cpu}, false},
	}
}

func roundsOf(values ...float64) [][]Measured {
	var all [][]Measured
	for _, v := range values {
		all = append(all, made(v, 1))
	}
	return all
}

func TestTrial(t *testing.T) {
	f := func(want Verdict, gain float64, variant, defaults []float64) {
		t.Helper()
		got := newTrial(Variant{Name: "x=1"}, roundsOf(variant...), roundsOf(defaults...))
		if got.Verdict != want || got.Gain < gain*0.999 || got.Gain > gain*1.001 {
			t.Errorf("%v against %v: %s, gain %v; want %s, %v", variant, defaults, got.Verdict, got.Gain, want, gain)
		}
	}
	f(Better, 1.3, []float64{130, 131, 129, 130}, []float64{100, 101, 99, 100})
	f(Worse, 0.7, []float64{70, 71, 69, 70}, []float64{100, 101.4, 98.6, 100})
	f(Alike, 1, []float64{100, 101, 99, 100}, []float64{100, 101, 99, 100})
	f(Alike, 1.1, []float64{110, 111, 109, 110}, []float64{100, 101, 99, 100}) // below the noise floor
	f(TooNoisy, 1, []float64{130, 80, 100, 100}, []float64{100, 100, 100, 100})
	f(Better, 2, []float64{150, 250, 200, 200}, []float64{100, 100, 100, 100}) // noisy, and every pair says so
	f(Worse, 0.8, []float64{120, 80, 80, 60}, []float64{100, 100, 100, 100})   // too noisy to be let pass
	f(TooFew, 1.5, []float64{150, 150, 150}, []float64{100, 100, 100})
	if got := newTrial(Variant{}, nil, nil); got.Verdict != TooFew {
		t.Errorf("nothing measured: %s", got.Verdict)
	}
}

// TestTrialOfSeveral holds that one figure for the worse outweighs others for the better, and that one which only is
// shown does not.
func TestTrialOfSeveral(t *testing.T) {
	rows := func(first, second float64, decides bool) Trial {
		var variant, defaults [][]Measured
		for _, jitter := range []float64{1, 1.01, 0.99, 1} {
			variant = append(variant, slices.Concat(made(first*jitter, 1), made(second*jitter, 1)))
			defaults = append(defaults, slices.Concat(made(100*jitter, 1), made(100*jitter, 1)))
			variant[len(variant)-1][2].Decides = decides
		}
		return newTrial(Variant{Name: "x=1"}, variant, defaults)
	}
	if got := rows(200, 50, true); got.Verdict != Worse || got.Gain < 0.99 || got.Gain > 1.01 {
		t.Errorf("%s, %v", got.Verdict, got.Gain)
	}
	if got := rows(200, 50, false); got.Verdict != Better {
		t.Errorf("%s", got.Verdict)
	}
	if got := rows(200, 100, true); got.Verdict != Better || got.Gain < 1.41 || got.Gain > 1.42 {
		t.Errorf("%s, %v", got.Verdict, got.Gain)
	}
}

func TestTunables(t *testing.T) {
	f := func(facts Facts, loops, backends string) {
		t.Helper()
		got := Tunables(facts)
		if l, b := fmt.Sprint(got[0].Default, got[0].Values), fmt.Sprint(got[1].Values); l != loops || b != backends {
			t.Errorf("%+v: %s %s, want %s %s", facts, l, b, loops, backends)
		}
		for _, tunable := range got {
			if len(tunable.Values) == 0 && tunable.Reason == "" {
				t.Errorf("%+v: %s is left out without a word", facts, tunable.Setting)
			}
		}
	}
	f(Facts{CPUs: 1, RingReason: "no"}, "1[]", "[]")
	f(Facts{CPUs: 2, Ring: true}, "1[2]", "[ring posix]")
	f(Facts{CPUs: 4, Ring: true}, "2[1 3 4]", "[ring posix]")
	f(Facts{CPUs: 64, Ring: true}, "32[1 16 48 64]", "[ring posix]")
}

// host measures made-up figures: a factor by setting, and noise by round.
type host struct {
	factors map[string]float64 // by KEY=VALUE
	noise   []float64          // by start
	starts  []string
	fails   map[string]error // by variant
	again   map[string]float64
}

func (h *host) measure(_ context.Context, v Variant, at Progress) ([]Measured, error) {
	h.starts = append(h.starts, v.Name)
	if err := h.fails[v.Name]; err != nil {
		return nil, err
	}
	value := 100.0
	for _, s := range v.Settings {
		value *= h.factors[s]
		if again := h.again[s]; at.Phase == "confirming" && again != 0 {
			value *= again
		}
	}
	if len(h.noise) > 0 {
		value *= h.noise[len(h.starts)%len(h.noise)]
	}
	return made(value, 1), nil
}

func (h *host) search(t *testing.T, rounds int) (*Report, error) {
	t.Helper()
	if h.noise == nil {
		h.noise = []float64{1, 1.01, 0.99, 1.005, 0.995, 1.002}
	}
	tunables := []Tunable{{Setting: "a", Default: "0", Values: []string{"1", "2"}}, {Setting: "b", Default: "0", Values: []string{"1"}}}
	s := &search{options: Options{DataDirs: []string{t.TempDir()}, Goal: Throughput, Rounds: rounds, Duration: time.Second, Tunables: tunables}, measure: h.measure, say: func(string, ...any) {}}
	return s.run(t.Context())
}

func TestSearch(t *testing.T) {
	f := func(h host, want Outcome, settings ...string) {
		t.Helper()
		r, err := h.search(t, 5)
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != want || !slices.Equal(r.Settings, settings) {
			t.Errorf("%v: %s %v; want %s %v: %s", h.factors, r.Outcome, r.Settings, want, settings, r.Says())
		}
		if got := r.Config(); strings.Count(got, "\n") != len(settings)+strings.Count(got, "\n#")+1 || !strings.HasPrefix(got, "#") {
			t.Errorf("config:\n%s", got)
		}
	}
	same := map[string]float64{"a=1": 1, "a=2": 1, "b=1": 1}
	f(host{factors: same}, Defaults)
	f(host{factors: map[string]float64{"a=1": 1.3, "a=2": 1.6, "b=1": 1}}, Recommended, "a=2")
	f(host{factors: map[string]float64{"a=1": 1.4, "a=2": 0.5, "b=1": 1.3}}, Recommended, "a=1", "b=1")
	f(host{factors: map[string]float64{"a=1": 0.6, "a=2": 0.5, "b=1": 0.9}}, Defaults)
	f(host{factors: map[string]float64{"a=1": 1.4, "a=2": 1, "b=1": 1}, again: map[string]float64{"a=1": 0.7}}, Unconfirmed)
	f(host{factors: same, noise: []float64{1, 1.3, 0.8, 1.5, 0.7, 1, 0.9}}, Noisy)
	f(host{factors: same, fails: map[string]error{"a=1": errCannotStart}}, Defaults)
}

// TestSearchOrder holds that no variant is always the first, and that what cannot start is tried once and told.
func TestSearchOrder(t *testing.T) {
	h := host{factors: map[string]float64{"a=1": 1, "a=2": 1, "b=1": 1}, fails: map[string]error{"a=2": fmt.Errorf("%w: no such ring", errCannotStart)}}
	r, err := h.search(t, 4)
	if err != nil {
		t.Fatal(err)
	}
	if want := "defaults|defaults again|a=1|a=2|b=1|defaults again|a=1|b=1|defaults|a=1|b=1|defaults|defaults again|b=1|defaults|defaults again|a=1"; strings.Join(h.starts, "|") != want {
		t.Errorf("%s", strings.Join(h.starts, "|"))
	}
	if len(r.Trials) != 2 || len(r.Starts) != 1 || r.Starts[0].Variant != "a=2" || !strings.Contains(r.Starts[0].Reason, "no such ring") {
		t.Errorf("%d trials, %+v", len(r.Trials), r.Starts)
	}
	h = host{fails: map[string]error{"defaults": errCannotStart}}
	if _, err = h.search(t, 4); err == nil || !strings.Contains(err.Error(), "sweep, round 1, defaults: it does not start") {
		t.Errorf("%v", err)
	}
	h = host{factors: map[string]float64{"a=1": 1}, fails: map[string]error{"a=1": errors.New("died")}}
	if _, err = h.search(t, 4); err == nil || !strings.Contains(err.Error(), "a=1: died") {
		t.Errorf("%v", err)
	}
	if r, err = (&host{factors: map[string]float64{"a=1": 2, "a=2": 2, "b=1": 2}}).search(t, 2); err != nil || r.Outcome != FewRounds || len(r.Settings) != 0 {
		t.Errorf("%v %+v", err, r)
	}
}

// TestControl holds that nothing is believed where the defaults seem to differ from themselves.
func TestControl(t *testing.T) {
	better := newTrial(Variant{Name: "a=1", Settings: []string{"a=1"}}, roundsOf(130, 131, 129, 130), roundsOf(100, 101, 99, 100))
	control := better
	if _, ok := choose([]Tunable{{Setting: "a"}}, control, []Trial{better}); ok {
		t.Error("chosen")
	}
	if got := conclude(control, []Trial{better}, nil); got != Noisy {
		t.Errorf("%s", got)
	}
}

func TestOptions(t *testing.T) {
	f := func(want string, change func(o *Options)) {
		t.Helper()
		o := Options{Goal: Latency, Rounds: 5, Duration: time.Second}
		change(&o)
		if err := o.Validate(); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("", func(*Options) {})
	f(`--for "speed" is none of`, func(o *Options) { o.Goal = "speed" })
	f("--rounds 0", func(o *Options) { o.Rounds = 0 })
	f("--seconds 0.05", func(o *Options) { o.Duration = 50 * time.Millisecond })
}
