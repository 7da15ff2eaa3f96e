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
	f("1 of 1 rows spread", false, []float64{20, 11, 9, 30}, []float64{10, 10.1, 10.2, 10.3})
	if err := tell(&strings.Builder{}, nil); err == nil {
		t.Error("nothing compared passes")
	}
}

func TestParse(t *testing.T) {
	if o, err := parse([]string{"-base", "x", "perf", "kafka"}); err != nil || o.base != "x" || len(o.packages) != 2 || !o.micro {
		t.Errorf("%+v %v", o, err)
	}
	if _, err := parse([]string{"-rounds", "3"}); err == nil {
		t.Error("three rounds pass")
	}
}
