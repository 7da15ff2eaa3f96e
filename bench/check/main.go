package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"millrace/bench/compare"
	"millrace/bench/peer"
)

// slowdownMax is the share by which this tree may be worse.
const slowdownMax = 0.15

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench-check:", err)
		os.Exit(1)
	}
}

// checkScale is the share of each workload that is run: processor time comes in steps of 10 ms, which are some 6 % of
// what the least of them uses then.
const checkScale = 0.1

// options are those of the command line.
type options struct {
	base, skip    string
	rounds        int
	micro, broker bool
	packages      []string
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.StringVar(&o.base, "base", "", "commit to compare with; HEAD where the tree has changes, else the one before")
	flags.StringVar(&o.skip, "skip", "", "pattern of microbenchmarks that are left out")
	flags.IntVar(&o.rounds, "rounds", 5, "runs of each side")
	flags.BoolVar(&o.micro, "micro", true, "run the microbenchmarks")
	flags.BoolVar(&o.broker, "broker", true, "run P1, P3 and F1")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.packages = flags.Args(); o.rounds < compare.RoundsMin {
		return o, fmt.Errorf("-rounds %d: %d are the least for a verdict", o.rounds, compare.RoundsMin)
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "millrace-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if o.base == "" {
		o.base = defaultBase(ctx)
	}
	commit, err := git(ctx, "rev-parse", "--short", "--verify", o.base+"^{commit}")
	if err != nil {
		return fmt.Errorf("base %s: %w", o.base, err)
	}
	fmt.Printf("this tree against %s (%s), %d rounds, %d CPUs\n", o.base, commit, o.rounds, runtime.NumCPU())
	base := filepath.Join(work, "base")
	if err := checkout(ctx, o.base, base); err != nil {
		return err
	}
	var rows []compare.Row
	if o.micro {
		built, err := suites(ctx, o, work, ".", base)
		if err != nil {
			return err
		}
		found, err := twice(func(again []compare.Row) ([]compare.Row, error) { return micro(ctx, o.rounds, built, again) })
		if err != nil {
			return err
		}
		rows = append(rows, found...)
	}
	if o.broker {
		binaries, err := buildBrokers(ctx, work, base)
		if err != nil {
			return err
		}
		found, err := twice(func(again []compare.Row) ([]compare.Row, error) { return brokers(ctx, o, work, binaries, again) })
		if err != nil {
			return err
		}
		rows = append(rows, found...)
	}
	return tell(os.Stdout, rows)
}

// twice measures everything, and what is suspected once more; the second measurement counts for that. measure is called
// with nil for everything.
func twice(measure func(again []compare.Row) ([]compare.Row, error)) ([]compare.Row, error) {
	rows, err := measure(nil)
	if err != nil {
		return nil, err
	}
	suspected := suspects(rows)
	if len(suspected) == 0 {
		return rows, nil
	}
	fmt.Printf("measuring %d suspects of %d figures again\n", len(suspected), len(rows))
	again, err := measure(suspected)
	if err != nil {
		return nil, err
	}
	return replaced(rows, suspected, again), nil
}

// buildBrokers builds this tree and the base.
func buildBrokers(ctx context.Context, work, base string) (map[string]string, error) {
	binaries := map[string]string{}
	for name, dir := range map[string]string{"this": ".", "base": base} {
		binaries[name] = filepath.Join(work, "millrace-"+name)
		if err := build(ctx, dir, "build", "-o", binaries[name], "./cmd/millrace"); err != nil {
			return nil, err
		}
	}
	return binaries, nil
}

// brokers runs short workloads against both and returns the rows of processor time: what the clock measures is
// too noisy in short runs. again are rows of an earlier call whose workloads are wanted; nil: all.
func brokers(ctx context.Context, o options, work string, binaries map[string]string, again []compare.Row) ([]compare.Row, error) {
	out, err := os.MkdirTemp(work, "compare-")
	if err != nil {
		return nil, err
	}
	var workloads []string
	for _, id := range []string{"P1", "P3", "F1"} {
		if again == nil || slices.ContainsFunc(again, func(r compare.Row) bool { return r.Workload == id }) {
			workloads = append(workloads, id)
		}
	}
	placement := compare.Pinned
	if runtime.NumCPU() < 2 {
		placement = compare.Unpinned
	}
	report, err := compare.Run(ctx, compare.Options{
		A:   peer.Millrace("this tree", binaries["this"], "", nil),
		B:   peer.Millrace("base", binaries["base"], "", nil),
		Out: out, Command: "bench/check",
		Plan: compare.Plan{Workloads: workloads, Rounds: o.rounds, Placements: []string{placement}, Scale: checkScale},
		Say:  func(line string) { fmt.Println(line) },
	})
	if err != nil {
		return nil, err
	}
	var rows []compare.Row
	for _, r := range report.Rows {
		if r.Metric == compare.MetricCPU {
			r.Noise = slowdownMax
			r.Judge()
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// defaultBase is what is compared with where nothing was named.
func defaultBase(ctx context.Context) string {
	if changed, err := git(ctx, "status", "--porcelain", "--untracked-files=no"); err == nil && changed != "" {
		return "HEAD"
	}
	return "HEAD~1"
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("git %s: %s", strings.Join(args, " "), strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// checkout puts the files of a commit into a new directory, without a trace in the repository.
func checkout(ctx context.Context, commit, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	archive := dir + ".tar"
	if _, err := git(ctx, "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", commit, err, out)
	}
	return nil
}

// build runs go in a directory, as the releases are built.
func build(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, out)
	}
	return nil
}
