package main

import (
	"fmt"
	"strings"
	"testing"

	"millrace/bench/compare"
)

func TestTimes(t *testing.T) {
	const out = `goos: linux
pkg: millrace/perf
BenchmarkA-2   	 1000	      1234 ns/op	   0 B/op	       0 allocs/op
BenchmarkB/x=1-2   	 10	      2.5 ns/op
PASS
`
	var got []string
	if err := times(strings.NewReader(out), func(name string, seconds float64) { got = append(got, fmt.Sprintf("%s %.3g", name, seconds)) }); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "[A-2 1.23e-06 B/x=1-2 2.5e-09]" {
		t.Errorf("%q", got)
	}
}

// TestTell holds that only what is worse by more than 15 % and by more than chance fails.
func TestTell(t *testing.T) {
	f := func(want string, fails bool, a, b []float64) {
		t.Helper()
		r := compare.Row{Workload: "perf", Part: "A", Unit: "ns/op", Better: "lower", Noise: slowdownMax, A: a, B: b}
		r.Judge()
		var out strings.Builder
		err := tell(&out, []compare.Row{r})
		if (err != nil) != fails || !strings.Contains(out.String(), want) {
			t.Errorf("%v against %v: %v\n%s, want %q", a, b, err, out.String(), want)
		}
	}
	f("worse", true, []float64{12, 12.1, 12.2, 12.3}, []float64{10, 10.1, 10.2, 10.3})
	f("no difference", false, []float64{11, 11.1, 11.2, 11.3}, []float64{10, 10.1, 10.2, 10.3})
	f("better", false, []float64{8, 8.1, 8.2, 8.3}, []float64{10, 10.1, 10.2, 10.3})
	f("too noisy", false, []float64{20, 11, 9, 30}, []float64{10, 10.1, 10.2, 10.3})
	f("of 1 of 1 figures this host is too noisy", false, []float64{20, 11, 9, 30}, []float64{10, 10.1, 10.2, 10.3})
	if err := tell(&strings.Builder{}, nil); err == nil {
		t.Error("nothing compared passes")
	}
}

// row is a figure that was so many times the base's, by round.
func row(part string, ratios ...float64) compare.Row {
	r := compare.Row{Workload: "perf", Part: part, Metric: "time", Unit: "ns/op", Better: "lower", Noise: slowdownMax}
	for i, ratio := range ratios {
		base := 10 + float64(i)/100
		r.A, r.B = append(r.A, base*ratio), append(r.B, base)
	}
	r.Judge()
	return r
}

// TestTwice holds that what looks bad is measured once more, that the second time counts, and that nothing else is judged
// by it.
func TestTwice(t *testing.T) {
	f := func(name string, first, second []compare.Row, asked int, fails bool) {
		t.Helper()
		var seen []compare.Row
		rows, err := twice(func(again []compare.Row) ([]compare.Row, error) {
			if again == nil {
				return first, nil
			}
			seen = again
			return second, nil
		})
		if err != nil || len(rows) != len(first) || len(seen) != asked {
			t.Errorf("%s: %v, %d rows of %d, %d were measured again; want %d", name, err, len(rows), len(first), len(seen), asked)
		}
		if err := tell(&strings.Builder{}, rows); (err != nil) != fails {
			t.Errorf("%s: %v", name, err)
		}
	}
	even, slow, noisy, noisyBad := []float64{1, 1.01, 0.99, 1}, []float64{1.5, 1.51, 1.49, 1.5}, []float64{0.8, 1.2, 1, 1}, []float64{0.9, 1.4, 1.3, 1.2}
	f("nothing", []compare.Row{row("A", even...), row("B", noisy...)}, nil, 0, false)
	f("an accident", []compare.Row{row("A", slow...), row("B", even...)}, []compare.Row{row("A", even...)}, 1, false)
	f("a slowdown", []compare.Row{row("A", slow...), row("B", even...)}, []compare.Row{row("A", slow...)}, 1, true)
	f("one that noise hid", []compare.Row{row("A", noisyBad...)}, []compare.Row{row("A", slow...)}, 1, true)
	f("noise twice", []compare.Row{row("A", noisyBad...)}, []compare.Row{row("A", noisyBad...)}, 1, false)
	spread := []float64{1.1, 1.6, 1.9, 1.5, 1.7} // not every pair is beyond the limit, and the test finds it
	f("spread, and slower twice", []compare.Row{row("A", spread...)}, []compare.Row{row("A", spread...)}, 1, true)
	f("spread, and slower once", []compare.Row{row("A", spread...)}, []compare.Row{row("A", 0.8, 1.2, 1, 1, 1)}, 1, false)
	f("one that only came along", []compare.Row{row("A", slow...), row("B", even...)}, []compare.Row{row("A", even...), row("B", slow...)}, 1, false)
	f("one that is gone", []compare.Row{row("A", slow...)}, nil, 1, true)
}

func TestTopLevel(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if got := topLevel(name); got != want {
			t.Errorf("%s is of %s, want %s", name, got, want)
		}
	}
	f("Append/4K/posix-2", "Append")
	f("Idempotence-16", "Idempotence")
	f("Alone", "Alone")
}

func TestParse(t *testing.T) {
	if o, err := parse([]string{"-base", "x", "perf", "kafka"}); err != nil || o.base != "x" || len(o.packages) != 2 || !o.micro {
		t.Errorf("%+v %v", o, err)
	}
	if _, err := parse([]string{"-rounds", "3"}); err == nil {
		t.Error("three rounds pass")
	}
}
