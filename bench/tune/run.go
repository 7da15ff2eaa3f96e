package tune

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
	"millrace/bench/compare"
	"millrace/bench/peer"
)

// Bounds of Options.
const (
	RoundsMax   = 100
	DurationMin = 100 * time.Millisecond
	DurationMax = 5 * time.Minute
	warmupShare = 4 // of the measured time is the time before it, one part in so many

	bytesMax   = 2_000_000_000 // that one workload writes
	bytesMin   = 50_000_000
	roomShare  = 8 // one part in so many of the free room: deleted topics keep their files for a while
	fillBytes  = 256_000_000
	dirPattern = "millrace-tune-"
)

// Options say what to tune and how.
type Options struct {
	DataDirs []string // one on each file system that is meant, at least one; they exist
	Goal     Goal
	Rounds   int           // of each candidate beside the defaults, 1 to RoundsMax; compare.RoundsMin for a verdict
	Duration time.Duration // that each workload is measured in each round
	Binary   string        // millrace
	Version  string
	Command  string
	Facts    Facts
	// Tunables replaces what Tunables(Facts) says; nil: it does not.
	Tunables []Tunable
	// Progress is called about twice a second while a workload runs, from one goroutine; nil: never.
	Progress func(Progress)
	// Say is called once for each thing that begins; nil: never.
	Say func(line string)
}

// Progress is how far a run is.
type Progress struct {
	Phase         string // "sweep" or "confirming"
	Round, Rounds int
	Variant       string
	Run           bench.Status
	Left          time.Duration // an estimate
}

// Validate returns what is senseless, as a *bench.UsageError, or nil. It does not touch the directory.
func (o *Options) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(!slices.Contains(Goals(), o.Goal), "--for %q is none of %v", o.Goal, Goals())
	refuse(o.Rounds < 1 || o.Rounds > RoundsMax, "--rounds %d is not within 1 and %d", o.Rounds, RoundsMax)
	refuse(o.Duration < DurationMin || o.Duration > DurationMax, "--seconds %v is not within %v and %v", o.Duration.Seconds(), DurationMin.Seconds(), DurationMax.Seconds())
	if err := errors.Join(errs...); err != nil {
		return &bench.UsageError{Err: err}
	}
	return nil
}

// Run tunes and returns what it found. What it refuses as senseless is a *bench.UsageError. It works in a directory
// of its own below each of DataDirs and removes it, and ends the brokers that it started, also when ctx ends.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := Refuse(o.DataDirs); err != nil {
		return nil, err
	}
	if o.Tunables == nil {
		o.Tunables = Tunables(o.Facts)
	}
	bytes := int64(bytesMax)
	for _, dir := range o.DataDirs {
		if bytes = min(bytes, compare.FreeRoom(dir)/roomShare); bytes < bytesMin {
			return nil, &bench.UsageError{Err: fmt.Errorf("--data-dir %s: there is too little room on its file system: %d MB are needed", dir, bytesMin*roomShare/1_000_000)}
		}
	}
	dirs, remove, err := fresh(o.DataDirs, dirPattern)
	if err != nil {
		return nil, err
	}
	m := &machine{options: o, dirs: dirs, loads: o.Goal.loads(o.Duration, bytes)}
	s := &search{options: o, measure: m.measure, say: m.say}
	m.left = s.left
	report, err := s.run(ctx)
	return report, errors.Join(err, remove())
}

// fresh makes a directory below each.
func fresh(below []string, pattern string) (dirs []string, remove func() error, err error) {
	remove = func() error {
		var errs []error
		for _, dir := range dirs {
			errs = append(errs, os.RemoveAll(dir))
		}
		return errors.Join(errs...)
	}
	for _, at := range below {
		dir, err := os.MkdirTemp(at, pattern)
		if err != nil {
			return nil, nil, errors.Join(err, remove())
		}
		dirs = append(dirs, dir)
	}
	return dirs, remove, nil
}

// machine measures variants on brokers that it starts.
type machine struct {
	options Options
	dirs    []string
	loads   []load
	left    func() time.Duration
}

func (m *machine) say(format string, args ...any) {
	if m.options.Say != nil {
		m.options.Say(fmt.Sprintf(format, args...))
	}
}

// errCannotStart tells that a broker does not come up with a variant's settings.
var errCannotStart = errors.New("it does not start")

// measure starts a broker with the variant's settings on a fresh directory, runs the loads and ends it.
func (m *machine) measure(ctx context.Context, v Variant, at Progress) ([]Measured, error) {
	dirs, remove, err := fresh(m.dirs, "start-")
	if err != nil {
		return nil, err
	}
	defer remove()
	dir, settings := dirs[0], v.Settings
	if len(dirs) > 1 {
		settings = append(slices.Clone(settings), "log.dirs="+strings.Join(dirs, "/data,")+"/data")
	}
	spec := peer.Millrace("millrace", m.options.Binary, m.options.Version, settings)
	p, err := spec.Start(ctx, dir, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		return nil, fmt.Errorf("%w: %w", errCannotStart, err)
	}
	// Its data is thrown away, so it need not stop in order.
	defer p.Kill()
	var all []Measured
	for _, l := range m.loads {
		m.say("running %s with %s", l.workload, v.Name)
		figures, err := m.run(ctx, p, l, at)
		if err != nil {
			return nil, m.explain(ctx, p, err)
		}
		all = append(all, figures...)
	}
	return all, nil
}

func (m *machine) run(ctx context.Context, p *peer.Process, l load, at Progress) ([]Measured, error) {
	result, err := bench.Run(ctx, bench.Options{
		Workload: l.workload, Broker: p.Address, BrokerPID: p.PID, Version: m.options.Version, Given: l.given, Settings: l.settings, FillBytes: fillBytes,
		Progress: func(s bench.Status) {
			if m.options.Progress != nil {
				at.Run, at.Left = s, m.left()
				m.options.Progress(at)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return l.pick(result), nil
}

func (m *machine) explain(ctx context.Context, p *peer.Process, err error) error {
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case !p.Alive():
		return p.Blame(fmt.Errorf("the broker has died under load: %w", err))
	}
	return p.Blame(err)
}

// Refuse returns a *bench.UsageError where a broker works in one of the directories, or in one that it lies in, and nil
// elsewhere.
func Refuse(dirs []string) error {
	for _, dir := range dirs {
		if err := inUse(dir); err != nil {
			return &bench.UsageError{Err: err}
		}
	}
	return nil
}

func inUse(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	for {
		if slices.ContainsFunc(lockNames(), func(name string) bool { return locked(filepath.Join(path, name)) }) {
			return fmt.Errorf("--data-dir %s: a broker works in %s now; what is measured beside it is wrong, and disturbs it: stop it, or name another directory on the same disk", dir, path)
		}
		above := filepath.Dir(path)
		if above == path {
			return nil
		}
		path = above
	}
}

// names joins the names of variants for a line.
func names(of []Variant) string {
	var all []string
	for _, v := range of {
		all = append(all, v.Name)
	}
	return strings.Join(all, ", ")
}
