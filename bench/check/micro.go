package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/perf/benchfmt"

	"millrace/bench/compare"
)

const microTime = "100ms" // of each benchmark in each round

// binary is the test binary of a package on one side.
type binary struct{ path, dir string }

// micro runs the microbenchmarks of both sides in turn and returns a row for each that both have.
func micro(ctx context.Context, o options, work, this, base string) ([]compare.Row, error) {
	var rows []compare.Row
	for _, pkg := range o.packages {
		pkg = strings.TrimPrefix(filepath.ToSlash(filepath.Clean(pkg)), "./")
		var sides [2]binary
		missing := false
		for i, root := range []string{this, base} {
			sides[i] = binary{filepath.Join(work, fmt.Sprintf("%s.%d.test", strings.ReplaceAll(pkg, "/", "_"), i)), filepath.Join(root, pkg)}
			if tests, _ := filepath.Glob(filepath.Join(sides[i].dir, "*_test.go")); len(tests) == 0 {
				missing = true
				continue
			}
			if err := build(ctx, root, "test", "-c", "-o", sides[i].path, "./"+pkg); err != nil {
				return nil, err
			}
		}
		if missing {
			fmt.Printf("%s: not on both sides\n", pkg)
			continue
		}
		fmt.Printf("%s\n", pkg)
		found, err := microOf(ctx, o, pkg, sides)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

func microOf(ctx context.Context, o options, pkg string, sides [2]binary) ([]compare.Row, error) {
	var order []string
	values := [2]map[string][]float64{{}, {}}
	for range o.rounds {
		for i, side := range sides {
			cmd := exec.CommandContext(ctx, side.path, "-test.run=^$", "-test.bench=.", "-test.benchtime="+microTime, "-test.skip="+o.skip)
			cmd.Dir, cmd.Stderr = side.dir, os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("benchmarks of %s: %w\n%s", side.dir, err, out)
			}
			err = times(bytes.NewReader(out), func(name string, seconds float64) {
				if i == 0 && values[0][name] == nil {
					order = append(order, name)
				}
				values[i][name] = append(values[i][name], seconds*1e9)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	var rows []compare.Row
	for _, name := range order {
		a, b := values[0][name], values[1][name]
		if len(a) != len(b) {
			continue // new, or not the same in each round
		}
		r := compare.Row{Workload: pkg, Part: name, Metric: "time", Unit: "ns/op", Better: "lower", Noise: slowdownMax, A: a, B: b}
		r.Judge()
		rows = append(rows, r)
	}
	return rows, nil
}

// times calls f for each benchmark's time in the output of a test binary.
func times(out io.Reader, f func(name string, seconds float64)) error {
	reader := benchfmt.NewReader(out, "benchmarks")
	for reader.Scan() {
		if result, ok := reader.Result().(*benchfmt.Result); ok {
			if seconds, ok := result.Value("sec/op"); ok {
				f(string(result.Name), seconds)
			}
		}
	}
	return reader.Err()
}

// tell prints the rows and fails where one is worse.
func tell(w io.Writer, rows []compare.Row) error {
	worse, noisy := 0, 0
	var widest float64
	for _, r := range rows {
		if r.Verdict == compare.Worse {
			worse++
		}
		if r.Noisy {
			noisy++
		}
		if r.Ratio > 0 {
			widest = max(widest, (r.RatioHigh-r.RatioLow)/r.Ratio)
		}
		fmt.Fprintf(w, "%-60s %10s %10s %-10s %-20s %s\n", strings.TrimSpace(r.Workload+" "+r.Part), compare.Number(r.MedianA), compare.Number(r.MedianB), r.Unit, r.Ratios(), r.Says())
	}
	fmt.Fprintf(w, "noise: the ratios of %d of %d rows spread over 20 %%, the widest over %.0f %%\n", noisy, len(rows), widest*100)
	switch {
	case len(rows) == 0:
		return fmt.Errorf("nothing was compared: name packages with benchmarks")
	case worse > 0:
		return fmt.Errorf("%d of %d figures are worse than the base by more than %.0f %%", worse, len(rows), slowdownMax*100)
	}
	_, err := fmt.Fprintf(w, "none of %d figures is worse than the base by more than %.0f %%\n", len(rows), slowdownMax*100)
	return err
}
