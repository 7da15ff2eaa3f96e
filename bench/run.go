package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"millrace/bench/proc"
)

// mournEvery is how often it is looked whether the broker still lives.
const mournEvery = 250 * time.Millisecond

// Options say what to run.
type Options struct {
	Workload  string   // an ID of Workloads
	Broker    string   // HOST:PORT
	BrokerPID int      // of the broker's process, when it runs on this host; 0: its usage is not measured
	Given     []string // names of the settings that Settings overrides, as flags are called
	Settings  Settings
	Version   string // of this program, for the result
	// Progress is called about twice a second from one goroutine; nil: never.
	Progress func(Status)
	// DropCaches empties the page cache of the broker's host; nil: this host's, which needs root.
	DropCaches func() error
	// Scale is the share of each part's bytes and time that is run; 0: all.
	Scale float64
	// FillBytes bounds what F1 writes to read it again and again; 0: as docs/benchmarking.md tells.
	FillBytes int64
	// Histograms keeps the histograms of latencies in the figures, to be pooled with those of other runs.
	Histograms bool
	// Restart kills the broker, which lost nothing that was acknowledged then, and starts it again at the same
	// address without waiting for it. It returns when the new process began. nil: S3 is refused.
	Restart func(ctx context.Context) (time.Time, error)
}

// Status is how far a run is.
type Status struct {
	Workload, Part string
	Number, Of     int    // of the part
	Phase          string // what is done
	Bytes, Total   int64  // payload so far, and at which the phase ends; 0: the time ends it
	Elapsed        time.Duration
	Left           time.Duration // an estimate; negative: none
	BytesPerSecond float64
}

// UsageError is a run that makes no sense.
type UsageError struct{ Err error }

// Error returns the reasons as text.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the reasons.
func (e *UsageError) Unwrap() error { return e.Err }

// runner is one run.
type runner struct {
	*admin
	options  Options
	workload *Workload
	clock    clock
	process  *proc.Process // nil: not given
	part     string
	number   int
	of       int
	phase    string
	files    func() error // drops the page cache
}

// Run runs a workload and returns its figures. It refuses what makes no sense with a *UsageError before it
// touches the broker. Topics are deleted when it returns, also when ctx ends.
func Run(parent context.Context, o Options) (*Result, error) {
	w := Find(o.Workload)
	if w == nil {
		return nil, &UsageError{fmt.Errorf("there is no workload %q", o.Workload)}
	}
	parts, err := w.partsWith(o.Given, o.Settings)
	if err != nil {
		return nil, &UsageError{err}
	}
	if w.ID == "S3" && o.Restart == nil {
		return nil, &UsageError{errors.New("S3 kills the broker and starts it again, which only bench compare can: it started it")}
	}
	for i := range parts {
		parts[i].scale(o.Scale)
	}
	r := &runner{options: o, workload: w, clock: clock{time.Now()}, of: len(parts), files: o.DropCaches}
	if r.files == nil {
		r.files = dropCaches
		if w.ID == "F2" {
			if err := canDropCaches(o.Broker); err != nil {
				return nil, &UsageError{err}
			}
		}
	}
	if err := r.open(o); err != nil {
		return nil, &UsageError{err}
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	go r.mourn(ctx, cancel)
	random := make([]byte, 4)
	rand.Read(random)
	if r.admin, err = connect(ctx, o.Broker, fmt.Sprintf("millrace-bench-%s-%s-", strings.ToLower(w.ID), hex.EncodeToString(random))); err != nil {
		return nil, err
	}
	defer r.close()
	pages, err := NewWarmPages()
	if err != nil {
		return nil, err
	}
	defer pages.Close()
	result := &Result{Workload: w.ID, Summary: w.Summary, Broker: o.Broker, Began: time.Now().UTC(), Host: r.host()}
	for i, s := range parts {
		r.part, r.number = w.partName(s), i+1
		var figures []*Figures
		if r.process != nil {
			err = pages.holdFor(ctx, s)
		}
		if err == nil {
			figures, err = w.run(ctx, r, s)
		}
		if err = errors.Join(r.explain(parent, ctx, err), r.explain(parent, ctx, r.clean(ctx))); err != nil {
			return nil, err
		}
		result.Parts = append(result.Parts, figures...)
	}
	result.Ended = time.Now().UTC()
	return result, nil
}

// Feasible says why this host cannot run a workload against a broker of its own, whatever the broker, or nil.
func Feasible(w *Workload) error {
	switch w.ID {
	case "F2":
		return canDropCaches("127.0.0.1:0")
	case "S1":
		s := w.parts[0]
		return enoughFiles(s.Connections + s.Idle + spareFiles)
	}
	return nil
}

// mourn ends the run when the broker's process ends, also where a client would go on trying for long.
func (r *runner) mourn(ctx context.Context, cancel context.CancelCauseFunc) {
	if r.process == nil {
		return
	}
	tick := time.NewTicker(mournEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := r.process.Alive(); errors.Is(err, proc.ErrGone) {
				cancel(fmt.Errorf("the broker has died: %w", err))
				return
			}
		}
	}
}

// explain says which part failed, and what ended the run in place of the error of a call that was cancelled or of
// a connection that was closed for that. Where a broker fails whose process is known, it gives mourn the time to see
// whether it has died.
func (r *runner) explain(parent, ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && r.process != nil {
		select {
		case <-ctx.Done():
		case <-time.After(2 * mournEvery):
		}
	}
	switch ended := errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed); {
	case ended && parent.Err() != nil:
		err = errInterrupted
	case ended && ctx.Err() != nil:
		err = context.Cause(ctx)
	case ctx.Err() != nil && parent.Err() == nil && !errors.Is(err, context.Cause(ctx)):
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if r.part != "" {
		return fmt.Errorf("%s, %s: %w", r.workload.ID, r.part, err)
	}
	return fmt.Errorf("%s: %w", r.workload.ID, err)
}

// open finds the broker's process.
func (r *runner) open(o Options) error {
	if o.BrokerPID == 0 || r.workload.ID == "S3" {
		return nil // its process ends and another begins
	}
	if o.BrokerPID < 0 || o.BrokerPID == os.Getpid() {
		return fmt.Errorf("--broker-pid %d is no process of a broker", o.BrokerPID)
	}
	if err := isLocal(o.Broker); err != nil {
		return fmt.Errorf("--broker-pid: %w", err)
	}
	var err error
	if r.process, err = proc.Open(o.BrokerPID); err != nil {
		return fmt.Errorf("--broker-pid: %w", err)
	}
	return nil
}

// isLocal tells that an address may be one of this host.
func isLocal(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT", address)
	}
	ips, err := net.LookupIP(host)
	if err != nil {
		return fmt.Errorf("look up %s: %w", host, err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, ip := range ips {
		if ip.IsLoopback() {
			return nil
		}
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return nil
			}
		}
	}
	return fmt.Errorf("the broker at %s does not run on this host, so its process cannot be looked at from here", address)
}

func (r *runner) host() Host {
	h := Host{Millrace: r.options.Version, CPUs: runtime.NumCPU(), BrokerPID: r.options.BrokerPID}
	if raw, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.Kernel = strings.TrimSpace(string(raw))
	}
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				h.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if self, err := proc.Open(os.Getpid()); err == nil {
		h.LoadCPUs = self.CPUs()
	}
	if r.process != nil {
		h.BrokerCPUs = r.process.CPUs()
	}
	return h
}

// status reports progress of a measurement.
func (r *runner) status(m *measurement, bytes, marked int64) {
	if r.options.Progress == nil {
		return
	}
	s := Status{Workload: r.workload.ID, Part: r.part, Number: r.number, Of: r.of, Phase: r.phase, Total: m.gate.limit, Left: -1}
	if marked == 0 {
		s.Phase = "warming up"
		r.options.Progress(s)
		return
	}
	s.Bytes, s.Elapsed = bytes, time.Duration(r.clock.now()-marked)
	s.BytesPerSecond = ratio(float64(bytes), s.Elapsed.Seconds())
	if m.duration > 0 {
		s.Left = max(m.duration-s.Elapsed, 0)
	}
	if s.Total > 0 && s.BytesPerSecond > 0 {
		byBytes := max(time.Duration(float64(s.Total-bytes)/s.BytesPerSecond*1e9), 0)
		if s.Left < 0 || byBytes < s.Left {
			s.Left = byBytes
		}
	}
	r.options.Progress(s)
}
