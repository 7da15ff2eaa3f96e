package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"millrace/bench/compare"
)

// Each benchmark is run microRuns times in each round and on each side, and its quickest run counts: what else the host
// does only ever makes one slower. They are short, so that one of them has the processor to itself.
const (
	microTime = "20ms"
	microRuns = "3"
)

// binary is the test binary of a package on one side.
type binary struct{ path, dir string }

// suite is a package with benchmarks that both sides have.
type suite struct {
	pkg   string
	sides [2]binary // this tree and the base
	skip  string
}

// suites builds the packages' benchmarks on both sides.
func suites(ctx context.Context, o options, work, this, base string) ([]suite, error) {
	var all []suite
	for _, pkg := range o.packages {
		s := suite{pkg: strings.TrimPrefix(filepath.ToSlash(filepath.Clean(pkg)), "./"), skip: o.skip}
		missing := false
		for i, root := range []string{this, base} {
			s.sides[i] = binary{filepath.Join(work, fmt.Sprintf("%s.%d.test", strings.ReplaceAll(s.pkg, "/", "_"), i)), filepath.Join(root, s.pkg)}
			if tests, _ := filepath.Glob(filepath.Join(s.sides[i].dir, "*_test.go")); len(tests) == 0 {
				missing = true
				continue
			}
			if err := build(ctx, root, "test", "-c", "-o", s.sides[i].path, "./"+s.pkg); err != nil {
				return nil, err
			}
		}
		if missing {
			fmt.Printf("%s: not on both sides\n", s.pkg)
			continue
		}
		all = append(all, s)
	}
	return all, nil
}

// micro runs the microbenchmarks of both sides in turn and returns a row for each that both have. again names those that
// are wanted, by package and name; nil: all.
func micro(ctx context.Context, rounds int, of []suite, again []compare.Row) ([]compare.Row, error) {
	var rows []compare.Row
	for _, s := range of {
		names, err := s.benchmarks(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			wanted := func(r compare.Row) bool { return r.Workload == s.pkg && topLevel(r.Part) == name }
			if again != nil && !slices.ContainsFunc(again, wanted) {
				continue
			}
			found, err := s.compare(ctx, rounds, name)
			if err != nil {
				return nil, err
			}
			rows = append(rows, found...)
		}
	}
	return rows, nil
}

// topLevel is the function of a benchmark's name like Append/4K-2.
func topLevel(name string) string {
	name, _, _ = strings.Cut(name, "/")
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i]
	}
	return name
}

// benchmarks lists the functions that this tree has.
func (s *suite) benchmarks(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, s.sides[0].path, "-test.list=^Benchmark")
	cmd.Dir = s.sides[0].dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the benchmarks of %s: %w", s.pkg, err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Benchmark"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// compare runs one function's benchmarks, one side right after the other, and who is first changes from round to round.
func (s *suite) compare(ctx context.Context, rounds int, name string) ([]compare.Row, error) {
	fmt.Printf("%s %s\n", s.pkg, name)
	var order []string
	values := [2]map[string][]float64{{}, {}}
	for round := range rounds {
		for turn := range s.sides {
			side := (turn + round) % len(s.sides)
			quickest, found, err := s.quickest(ctx, side, name)
			if err != nil {
				return nil, err
			}
			for _, n := range found {
				if side == 0 && values[0][n] == nil {
					order = append(order, n)
				}
				values[side][n] = append(values[side][n], quickest[n])
			}
		}
	}
	var rows []compare.Row
	for _, n := range order {
		a, b := values[0][n], values[1][n]
		if len(a) != len(b) {
			continue // new, or not the same in each round
		}
		r := compare.Row{Workload: s.pkg, Part: n, Metric: "time", Unit: "ns/op", Better: "lower", Noise: slowdownMax, A: a, B: b}
		r.Judge()
		rows = append(rows, r)
	}
	return rows, nil
}

// quickest runs one function on one side and returns the least time of each of its benchmarks in nanoseconds, and their
// names in order.
func (s *suite) quickest(ctx context.Context, side int, name string) (map[string]float64, []string, error) {
	cmd := exec.CommandContext(ctx, s.sides[side].path, "-test.run=^$", "-test.bench=^Benchmark"+name+"$", "-test.benchtime="+microTime, "-test.count="+microRuns, "-test.skip="+s.skip)
	cmd.Dir, cmd.Stderr = s.sides[side].dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("benchmark %s of %s: %w\n%s", name, s.sides[side].dir, err, out)
	}
	least, order := map[string]float64{}, []string{}
	err = times(bytes.NewReader(out), func(n string, seconds float64) {
		if before, ok := least[n]; !ok {
			order = append(order, n)
			least[n] = seconds * 1e9
		} else {
			least[n] = min(before, seconds*1e9)
		}
	})
	return least, order, err
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
