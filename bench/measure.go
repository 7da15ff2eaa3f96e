package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"millrace/bench/proc"
)

const (
	sampleEvery   = 100 * time.Millisecond
	progressEvery = 500 * time.Millisecond
	// stallMax is how long a broker may let everything wait.
	stallMax = 30 * time.Second
)

// worker is one connection's work. run ends when the gate closes, the work is done or ctx ends.
type worker interface {
	run(ctx context.Context) error
	own() *tally
}

func (t *tally) own() *tally { return t }

// measurement runs the workers of a part and accounts for them.
type measurement struct {
	runner    *runner
	gate      *gate
	warmup    time.Duration
	duration  time.Duration // of the measured part; 0: the gate's bytes alone end it
	producers []worker
	readers   []worker
	// produced is called when all producers have ended and everything is acknowledged, before the readers
	// are waited for and before the broker's usage is read; nil: nothing to do.
	produced func(ctx context.Context) error
	// lead: the part ends when the readers have ended, not when the producers have. They begin at the mark.
	lead      bool
	fetchName string       // what the latency of readers is of; "": it is not told
	base      atomic.Int64 // payload at the mark, for the progress
}

// mark is the state of the counters at one time.
type mark struct {
	at                int64
	produced, fetched counts
	broker            proc.Usage
	self              time.Duration
}

// run returns the figures of the measured part. All workers have ended then.
func (m *measurement) run(parent context.Context) (*Figures, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	side := new(sync.WaitGroup)
	peak := new(memoryPeak)
	sideCtx, stopSide := context.WithCancel(ctx)
	side.Go(func() { m.watch(sideCtx, cancel) })
	side.Go(func() { peak.sample(sideCtx, m.runner.process) })
	defer side.Wait()
	defer stopSide()

	producers, readers := newCrew(ctx, cancel), newCrew(ctx, cancel)
	begin, err := m.begin(ctx, producers, readers)
	if err == nil {
		err = m.finish(ctx, producers, readers)
	}
	m.gate.stopped.Store(true)
	if err != nil {
		cancel(err)
	}
	producers.wait()
	readers.wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	end, err := m.mark()
	if err != nil {
		return nil, err
	}
	stopSide()
	side.Wait()
	return m.figures(begin, end, peak), nil
}

// begin starts the workers, waits for the warm-up and takes the first mark. Without a warm-up the mark is
// before the first request, so that the gate's bytes are those of the whole part.
func (m *measurement) begin(ctx context.Context, producers, readers *crew) (mark, error) {
	start := func() {
		producers.start(m.producers)
		if !m.lead {
			readers.start(m.readers)
		}
	}
	if m.warmup > 0 {
		start()
		timer := time.NewTimer(m.warmup)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return mark{}, context.Cause(ctx)
		}
	}
	begin, err := m.mark()
	if err != nil {
		return begin, err
	}
	m.base.Store(begin.produced.payloadBytes + begin.fetched.payloadBytes)
	m.gate.marked.Store(max(begin.at, 1))
	if m.warmup == 0 {
		start()
	}
	if m.lead {
		readers.start(m.readers)
	}
	return begin, nil
}

// finish waits for the end of the measured part.
func (m *measurement) finish(ctx context.Context, producers, readers *crew) error {
	over := make(<-chan time.Time)
	if m.duration > 0 {
		timer := time.NewTimer(m.duration)
		defer timer.Stop()
		over = timer.C
	}
	lead := producers
	if m.lead || len(m.producers) == 0 {
		lead = readers
	}
	select {
	case <-lead.done():
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.gate.stopped.Store(true)
	producers.wait()
	if m.produced != nil && ctx.Err() == nil {
		if err := m.produced(ctx); err != nil {
			return err
		}
	}
	readers.wait()
	return context.Cause(ctx)
}

func (m *measurement) mark() (mark, error) {
	k := mark{at: m.runner.clock.now(), produced: sum(m.producers), fetched: sum(m.readers), self: ownCPU()}
	if m.runner.process == nil {
		return k, nil
	}
	var err error
	k.broker, err = m.runner.process.Usage()
	return k, err
}

func sum(workers []worker) counts {
	var all counts
	for _, w := range workers {
		all = all.plus(w.own().counts())
	}
	return all
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func (m *measurement) figures(begin, end mark, peak *memoryPeak) *Figures {
	last := begin.at
	for _, w := range slices.Concat(m.producers, m.readers) {
		last = max(last, w.own().last.Load())
	}
	f := &Figures{Seconds: float64(last-begin.at) / 1e9, LoadCPU: (end.self - begin.self).Seconds()}
	produced, fetched := end.produced.minus(begin.produced), end.fetched.minus(begin.fetched)
	all := produced.plus(fetched)
	if len(m.producers) > 0 {
		f.Produced = newFlow(produced, f.Seconds)
		m.addLatency(f, "produce", m.producers, func(t *tally) *hdrhistogram.Histogram { return t.latency })
		m.addLatency(f, SendAfterDue, m.producers, func(t *tally) *hdrhistogram.Histogram { return t.lag })
	}
	if len(m.readers) > 0 {
		f.Fetched = newFlow(fetched, f.Seconds)
		if m.fetchName != "" {
			m.addLatency(f, m.fetchName, m.readers, func(t *tally) *hdrhistogram.Histogram { return t.latency })
		}
	}
	f.LoadPerGB = ratio(f.LoadCPU, float64(all.payloadBytes)/gb)
	if m.runner.process != nil {
		u := &Usage{CPUSeconds: (end.broker.CPU - begin.broker.CPU).Seconds(), HasIO: end.broker.HasIO && begin.broker.HasIO,
			DiskReadBytes: end.broker.ReadBytes - begin.broker.ReadBytes, DiskWrittenBytes: end.broker.WrittenBytes - begin.broker.WrittenBytes}
		u.MemoryPeakBytes, u.MappedPeakBytes = peak.own.Load(), peak.mapped.Load()
		u.per(all)
		f.Broker = u
	}
	return f
}

// addLatency pools the histograms of the workers.
func (m *measurement) addLatency(f *Figures, of string, workers []worker, which func(*tally) *hdrhistogram.Histogram) {
	var all *hdrhistogram.Histogram
	for _, w := range workers {
		h := which(w.own())
		if h == nil {
			continue
		}
		if all == nil {
			all = newHistogram()
		}
		all.Merge(h)
	}
	if all != nil && all.TotalCount() > 0 {
		l := newLatency(of, all)
		if m.runner.options.Histograms && of != SendAfterDue {
			// Fails only where memory cannot be written to.
			encoded, _ := all.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
			l.Histogram = string(encoded)
		}
		f.Latencies = append(f.Latencies, l)
	}
}

// watch shows progress and ends a run in which nothing goes on.
func (m *measurement) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var before counts
	moved := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			all := sum(m.producers).plus(sum(m.readers))
			marked := m.gate.marked.Load()
			m.runner.status(m, all.payloadBytes-m.base.Load(), marked)
			if all.requests != before.requests {
				before, moved = all, now
			} else if now.Sub(moved) > stallMax {
				cancel(fmt.Errorf("the broker has not answered for %v", stallMax))
				return
			}
		}
	}
}

// memoryPeak is the largest memory that was seen.
type memoryPeak struct{ own, mapped atomic.Int64 }

// sample looks until ctx ends. Failures are left to those who read the usage.
func (p *memoryPeak) sample(ctx context.Context, process *proc.Process) {
	if process == nil {
		return
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if m, err := process.Memory(); err == nil {
			p.own.Store(max(p.own.Load(), m.Own))
			p.mapped.Store(max(p.mapped.Load(), m.MappedFile))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// crew is a number of workers that run.
type crew struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
	ended  chan struct{}
}

func newCrew(ctx context.Context, cancel context.CancelCauseFunc) *crew {
	return &crew{ctx: ctx, cancel: cancel}
}

func (c *crew) start(workers []worker) {
	for _, w := range workers {
		c.group.Go(func() {
			if err := w.run(c.ctx); err != nil {
				c.cancel(err)
			}
		})
	}
}

// done is closed when all workers that were started have ended.
func (c *crew) done() <-chan struct{} {
	c.ended = make(chan struct{})
	go func() {
		c.group.Wait()
		close(c.ended)
	}()
	return c.ended
}

func (c *crew) wait() { c.group.Wait() }

// errInterrupted ends a run whose context was cancelled from outside.
var errInterrupted = errors.New("interrupted")
