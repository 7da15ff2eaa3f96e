package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/bench"
	"millrace/bench/peer"
	"millrace/perf"
)

// RoundsMax bounds the rounds of a comparison.
const RoundsMax = 1000

// Options say what to compare and how.
type Options struct {
	A, B    *peer.Spec
	Plan    Plan
	Out     string // directory of the report; made where it is missing
	Dir     string // below which a directory for data is made and removed; "": Out
	Resume  bool   // go on with a comparison that Out holds, if it holds one
	Command string
	Version string // of this program
	Commit  string
	// Progress is called about twice a second while a workload runs, from one goroutine; nil: never.
	Progress func(Progress)
	// Say is called once for each thing that begins; nil: never.
	Say func(line string)
}

// Progress is how far a comparison is.
type Progress struct {
	Round, Rounds     int
	Placement, Broker string
	Run               bench.Status
	Left              time.Duration // an estimate
}

// step is one start of one broker in the plan.
type step struct {
	round, side int
	placement   string
}

// steps returns the plan in the order of execution: A B A B in each placement of each round.
func (p Plan) steps() []step {
	var all []step
	for round := 1; round <= p.Rounds; round++ {
		for _, placement := range p.Placements {
			all = append(all, step{round, 0, placement}, step{round, 1, placement})
		}
	}
	return all
}

// comparison is one that runs.
type comparison struct {
	Options
	report  *Report
	allowed []int  // processors of this process before anything was placed
	dir     string // for data, made here
	began   time.Time
	current step
}

// Run compares, and returns the report, which it has written to Out. What it refuses as senseless is a
// *bench.UsageError. When ctx ends or anything fails, the brokers that it started are ended and their data is
// removed; the report then holds the starts that were complete, and a later Run with Resume goes on from there.
func Run(ctx context.Context, o Options) (*Report, error) {
	c := &comparison{Options: o}
	if err := c.validate(); err != nil {
		return nil, &bench.UsageError{Err: err}
	}
	var err error
	if c.allowed, err = perf.AllowedCPUs(); err != nil {
		return nil, err
	}
	if slices.Contains(o.Plan.Placements, Pinned) && len(c.allowed) < 2 {
		return nil, &bench.UsageError{Err: errors.New("pinned needs two processors, one for the broker and one for the load: use --placement unpinned")}
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, err
	}
	if c.Dir == "" {
		c.Dir = o.Out
	}
	if err := c.plan(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp(c.Dir, "millrace-bench-"); err != nil {
		return nil, err
	}
	defer Place(nil, c.allowed)
	err = c.all(ctx)
	if removed := os.RemoveAll(c.dir); removed != nil {
		err = errors.Join(err, removed)
	}
	return c.report, err
}

func (c *comparison) validate() error {
	p := c.Plan
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(p.Rounds < 1 || p.Rounds > RoundsMax, "--rounds %d is not within 1 and %d", p.Rounds, RoundsMax)
	refuse(!(p.Scale > 0 && p.Scale <= 10), "the share %v of the workloads' bytes is not within 0 and 10", p.Scale)
	refuse(p.Warm < 0, "--warm %v is below 0", p.Warm)
	refuse(len(p.Workloads) == 0, "no workload is named")
	for i, id := range p.Workloads {
		w := bench.Find(id)
		refuse(w == nil, "there is no workload %q; millrace bench list tells them", id)
		if w != nil {
			if err := bench.Feasible(w); err != nil {
				errs = append(errs, fmt.Errorf("workload %s: %w", id, err))
			}
		}
		refuse(slices.Contains(p.Workloads[:i], id), "workload %s is named twice", id)
		refuse(id == "S3" && !c.B.Owned(), "S3 kills the broker: it needs one that is started here, not %s", c.B.Name)
	}
	refuse(slices.Contains(p.Placements, Pinned) && !c.B.Owned(), "the broker at %s runs already, so it cannot be placed: use --placement unpinned, and start it where it shall run", c.B.Name)
	return errors.Join(errs...)
}

// plan makes the report of what is to be done, or goes on with an earlier one.
func (c *comparison) plan() error {
	c.report = &Report{Format: Format, Command: c.Command, Millrace: c.Version, Commit: c.Commit, Began: time.Now().UTC(), Plan: c.Plan, Host: HostOf(c.Dir), Starts: []Start{}}
	if slices.Contains(c.Plan.Placements, Pinned) {
		broker, load := CPUs(Pinned, c.allowed)
		c.report.Host.BrokerCPUs, c.report.Host.LoadCPUs = cpuList(broker), cpuList(load)
	}
	for _, s := range []*peer.Spec{c.A, c.B} {
		c.report.Brokers = append(c.report.Brokers, Broker{Name: s.Name, Version: s.Version, Command: s.Command, Configuration: s.Configuration, Owned: s.Owned()})
	}
	before, err := earlier(c.Out, c.Resume)
	if err != nil || before == nil {
		return err
	}
	if err := c.report.goesOn(before); err != nil {
		return &bench.UsageError{Err: fmt.Errorf("%s holds a comparison of something else; name another --out:\n%w", c.Out, err)}
	}
	c.report.Starts, c.report.Began = before.Starts, before.Began
	c.say("going on after %d of %d starts", len(before.Starts), len(c.Plan.steps()))
	return nil
}

func (c *comparison) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(fmt.Sprintf(format, args...))
	}
}

// all does the steps that are left, and writes the report after each.
func (c *comparison) all(ctx context.Context) error {
	for _, s := range c.Plan.steps() {
		if c.report.has(s) {
			continue
		}
		c.current, c.began = s, time.Now()
		start, err := c.start(ctx, s)
		if err != nil {
			if ctx.Err() != nil && !errors.Is(err, errDied) {
				err = errors.New("interrupted")
			}
			return fmt.Errorf("round %d, %s, %s: %w%s", s.round, s.placement, c.spec(s).Name, err, c.hint())
		}
		c.report.Starts = append(c.report.Starts, *start)
		if err := c.save(); err != nil {
			return err
		}
	}
	return c.save()
}

func (c *comparison) hint() string {
	if n := len(c.report.Starts); n > 0 {
		return fmt.Sprintf("\n%d of %d starts are in %s: the same command with --resume goes on", n, len(c.Plan.steps()), filepath.Join(c.Out, ReportFile))
	}
	return ""
}

func (c *comparison) save() error {
	r := c.report
	r.Ended, r.Complete = time.Now().UTC(), len(r.Starts) == len(r.Plan.steps())
	if err := r.evaluate(); err != nil {
		return err
	}
	r.Notes = r.notes()
	if err := r.write(filepath.Join(c.Out, ReportFile)); err != nil {
		return err
	}
	if err := replace(filepath.Join(c.Out, ChartFile), r.Chart()); err != nil {
		return err
	}
	return r.WritePage(filepath.Join(c.Out, PageFile))
}

func (c *comparison) spec(s step) *peer.Spec { return []*peer.Spec{c.A, c.B}[s.side] }

// errDied tells that a broker ended by itself.
var errDied = errors.New("the broker has died under load")

// start does all workloads on one start of one broker.
func (c *comparison) start(ctx context.Context, s step) (*Start, error) {
	dir, err := os.MkdirTemp(c.dir, fmt.Sprintf("round-%d-%d-", s.round, s.side))
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	broker, load := CPUs(s.placement, c.allowed)
	if err := Place(load, c.allowed); err != nil {
		return nil, err
	}
	if broker == nil {
		broker = c.allowed
	}
	began := time.Now()
	c.say("round %d of %d, %s: starting %s%s", s.round, c.Plan.Rounds, s.placement, c.spec(s).Name, c.leftText())
	p, err := c.spec(s).Start(ctx, dir, broker)
	if err != nil {
		return nil, err
	}
	// Its data is thrown away, so a broker is given time to stop only where all went well.
	defer p.Kill()
	start := &Start{Round: s.round, Placement: s.placement, Side: s.side, Began: began.UTC(), ReadySeconds: p.Ready.Seconds()}
	if err := c.workloads(ctx, p, s, start); err != nil {
		if !p.Alive() {
			err = fmt.Errorf("%w: %w", errDied, err)
		}
		if ctx.Err() == nil {
			err = p.Blame(err)
		}
		return nil, err
	}
	p.Stop()
	start.Seconds = time.Since(began).Seconds()
	return start, nil
}

func (c *comparison) workloads(ctx context.Context, p *peer.Process, s step, start *Start) error {
	if s.side == 1 && c.Plan.Warm > 0 {
		if err := c.warmUp(ctx, p); err != nil {
			return fmt.Errorf("warming up: %w", err)
		}
	}
	for _, id := range c.Plan.Workloads {
		c.say("round %d of %d, %s: %s %s%s", s.round, c.Plan.Rounds, s.placement, c.spec(s).Name, id, c.leftText())
		result, err := bench.Run(ctx, c.options(id, p))
		if err != nil {
			return err
		}
		start.Results = append(start.Results, result)
	}
	return nil
}

// options are those of one run of a workload.
func (c *comparison) options(id string, p *peer.Process) bench.Options {
	return bench.Options{
		Workload: id, Broker: p.Address, BrokerPID: p.PID, Version: c.Version, Scale: c.Plan.Scale, Histograms: true, Progress: c.progress,
		Restart: func(ctx context.Context) (time.Time, error) {
			p.Kill()
			err := p.Launch(ctx)
			return p.Began, err
		},
	}
}

// warmFillRate keeps what a warm-up writes to be read in proportion to its time, in bytes a second.
const warmFillRate = 50e6

// warmUp loads a broker in the ways that compile its code and size its buffers, before it is measured.
func (c *comparison) warmUp(ctx context.Context, p *peer.Process) error {
	c.say("warming up %s for %v", c.spec(c.current).Name, c.Plan.Warm)
	each := c.Plan.Warm / 3
	for _, id := range []string{"P1", "P3", "F1"} {
		o := c.options(id, p)
		o.Scale, o.Histograms = 0, false
		o.BrokerPID = 0 // nothing is measured, so no memory need be held for it
		o.Given = []string{"duration", "warmup"}
		o.Settings = bench.Settings{Duration: each}
		switch id {
		case "P3": // one part of two
			o.Given, o.Settings.Rate = append(o.Given, "rate"), 0
		case "F1": // one part of four
			o.Given = append(o.Given, "size", "batch", "readers")
			o.Settings.Size, o.Settings.Batch, o.Settings.Readers = 1024, 100, 1
			o.FillBytes = int64(each.Seconds() * warmFillRate)
		}
		if _, err := bench.Run(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) progress(s bench.Status) {
	if c.Progress != nil {
		c.Progress(Progress{Round: c.current.round, Rounds: c.Plan.Rounds, Placement: c.current.placement, Broker: c.spec(c.current).Name, Run: s, Left: c.left()})
	}
}

func (c *comparison) leftText() string {
	return fmt.Sprintf(" (about %s left)", strings.TrimSuffix(max(c.left().Round(time.Minute), time.Minute).String(), "0s"))
}
