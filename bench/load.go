package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/wire"
)

const (
	fillBytesMax     = 1 * gb   // of a topic that is read again and again
	fillRequestBytes = 8 << 20  // of a request that fills a topic
	verifyBytes      = 32 << 20 // are read back after producing
	cpuSecondsMin    = 0.5      // of the broker, below which figures per GB are coarse
	scheduleLead     = 5 * int64(time.Millisecond)
)

// loadOf is a topic and what is produced to it.
type loadOf struct {
	topic     *topic
	content   *content
	settings  Settings
	schedule  *schedule
	producers []*producer
}

// prepare makes a topic and encodes what goes there.
func (r *runner) prepare(ctx context.Context, s Settings) (*loadOf, error) {
	r.phase = "preparing"
	l := &loadOf{settings: s}
	var err error
	if l.content, err = newContent(s.Batch, s.Size, s.Codec); err != nil {
		return nil, err
	}
	configs := map[string]string{}
	if s.Flush {
		configs["flush.messages"] = "1"
	}
	if l.topic, err = r.make(ctx, s.Partitions, configs); err != nil {
		return nil, err
	}
	return l, nil
}

// connect opens the producers' connections, which pass the gate g.
func (r *runner) connect(ctx context.Context, l *loadOf, g *gate) error {
	s := l.settings
	lanes, err := l.topic.lanes(s.producers())
	if err != nil {
		return err
	}
	if s.Rate > 0 {
		l.schedule = &schedule{rate: s.Rate, connections: len(lanes)}
	}
	for i, lane := range lanes {
		if s.Role == roleEndToEnd && !lane.sole {
			return fmt.Errorf("the partitions of a broker are fewer than the connections to it: lower --connections")
		}
		p := newProducer(l.topic, lane, l.content, s)
		p.clock, p.gate, p.schedule, p.index = r.clock, g, l.schedule, i
		if l.schedule != nil {
			p.lag = newHistogram()
		}
		if s.Idempotent {
			if p.producerID, p.producerEpoch, err = r.producerID(ctx); err != nil {
				return err
			}
		}
		if p.conn, err = wire.Dial(ctx, lane.address); err != nil {
			return err
		}
		l.producers = append(l.producers, p)
	}
	if l.schedule != nil {
		l.schedule.start = r.clock.now() + scheduleLead
	}
	return nil
}

// readers opens connections that together read the whole topic from the given offsets, by partition; nil:
// from the first.
func (r *runner) readers(ctx context.Context, l *loadOf, from []int64, ends *atomic.Pointer[[]int64]) ([]*reader, error) {
	lanes, err := l.topic.lanes(l.topic.leaderCount())
	if err != nil {
		return nil, err
	}
	var all []*reader
	for _, lane := range lanes {
		offsets := make([]int64, len(lane.partitions))
		for i, p := range lane.partitions {
			if from != nil {
				offsets[i] = from[p]
			}
		}
		reader := newReader(l.topic, lane.partitions, offsets)
		reader.clock, reader.ends, reader.limits = r.clock, ends, follow()
		reader.check = checker{content: l.content, unpack: kgo.DefaultDecompressor()}
		if reader.conn, err = wire.Dial(ctx, lane.address); err != nil {
			return nil, err
		}
		all = append(all, reader)
	}
	return all, nil
}

func (t *topic) leaderCount() int {
	seen := map[string]bool{}
	for _, address := range t.leaders {
		seen[address] = true
	}
	return len(seen)
}

// workers are producers or readers.
func workers[W worker](of []W) []worker {
	all := make([]worker, len(of))
	for i, w := range of {
		all[i] = w
	}
	return all
}

// measurement begins a part that ends as the settings say.
func (r *runner) measurement(s Settings) *measurement {
	r.phase = "measuring"
	return &measurement{runner: r, gate: &gate{limit: s.Bytes}, warmup: s.Warmup, duration: s.Duration}
}

// acknowledged returns how many records the producers know to be in each partition.
func (l *loadOf) acknowledged() []int64 {
	all := make([]int64, l.topic.partitions)
	for _, p := range l.producers {
		for i, n := range p.acked {
			all[i] += n
		}
	}
	return all
}

// settle waits, where nothing is acknowledged, for what was sent to be in the log.
func (r *runner) settle(ctx context.Context, l *loadOf) error {
	if l.settings.Acks != 0 {
		return nil
	}
	want := l.acknowledged()
	var before []int64
	for moved := time.Now(); ; {
		ends, err := r.ends(ctx, l.topic)
		if err != nil {
			return err
		}
		now := r.clock.now()
		if slices.Equal(ends, want) {
			l.producers[0].last.Store(now)
			return nil
		}
		if !slices.Equal(ends, before) {
			before, moved = ends, time.Now()
		} else if time.Since(moved) > reachTimeout {
			return missing(l.topic, ends, want)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

func missing(t *topic, ends, want []int64) error {
	for i := range ends {
		if ends[i] != want[i] {
			return fmt.Errorf("%s partition %d ends at offset %d; %d records were produced", t.name, i, ends[i], want[i])
		}
	}
	return nil
}

// verify holds that the topic has what was acknowledged, and reads its last part back.
func (r *runner) verify(ctx context.Context, l *loadOf) (int64, error) {
	ends, err := r.ends(ctx, l.topic)
	if err != nil {
		return 0, err
	}
	if err := missing(l.topic, ends, l.acknowledged()); err != nil {
		return 0, err
	}
	from := slices.Clone(ends)
	records := int64(verifyBytes / l.topic.partitions / (l.settings.Size + 1))
	for i := range from {
		from[i] = max(from[i]-records, 0)
	}
	var known atomic.Pointer[[]int64]
	known.Store(&ends)
	readers, err := r.readers(ctx, l, from, &known)
	if err != nil {
		return 0, err
	}
	for _, reader := range readers {
		reader.check.whole = true
	}
	r.phase = "reading back"
	m := &measurement{runner: r, gate: new(gate), readers: workers(readers)}
	f, err := m.run(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading back: %w", err)
	}
	return f.Fetched.Records, nil
}

// fill produces so many bytes without measuring and returns the end offsets.
func (r *runner) fill(ctx context.Context, l *loadOf, bytes int64) ([]int64, error) {
	f := &loadOf{topic: l.topic, content: l.content, settings: l.settings}
	s := &f.settings
	s.Connections, s.Window, s.Rate, s.Acks, s.Role = l.topic.leaderCount(), 4, 0, -1, ""
	s.PerRequest = max(min(s.Partitions/s.Connections, fillRequestBytes/l.content.plain), 1)
	m := &measurement{runner: r, gate: &gate{limit: bytes}}
	if err := r.connect(ctx, f, m.gate); err != nil {
		return nil, err
	}
	m.producers = workers(f.producers)
	r.phase = "filling the topic"
	if _, err := m.run(ctx); err != nil {
		return nil, fmt.Errorf("filling the topic: %w", err)
	}
	ends := f.acknowledged()
	return ends, nil
}

// runProduce is the run of all workloads that only produce.
func runProduce(ctx context.Context, r *runner, s Settings) ([]*Figures, error) {
	l, err := r.prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	f, err := r.produce(ctx, l)
	if err != nil {
		return nil, err
	}
	return []*Figures{f}, nil
}

// produce measures producing alone and verifies what came of it.
func (r *runner) produce(ctx context.Context, l *loadOf) (*Figures, error) {
	m := r.measurement(l.settings)
	if err := r.connect(ctx, l, m.gate); err != nil {
		return nil, err
	}
	m.producers = workers(l.producers)
	m.produced = func(ctx context.Context) error { return r.settle(ctx, l) }
	f, err := m.run(ctx)
	if err != nil {
		return nil, err
	}
	f.describe(r.part, l.settings)
	f.Verified, err = r.verify(ctx, l)
	return f, err
}

// describe adds what the figures are of, and warns where they do not mean what they seem to.
func (f *Figures) describe(part string, s Settings) {
	f.Part, f.Settings = part, s
	if u := f.Broker; u != nil {
		if u.CPUSeconds < cpuSecondsMin {
			f.Notes = append(f.Notes, fmt.Sprintf("processor time is counted in steps of 10 ms: %.2f s of the broker's say little of it", u.CPUSeconds))
		} else if s.Rate == 0 && f.LoadCPU > u.CPUSeconds {
			f.Notes = append(f.Notes, "the load used more processor time than the broker: what was reached a second may be the load's limit")
		}
	}
	if f.Produced == nil {
		return
	}
	f.Durability = s.durability()
	if s.Rate > 0 && f.Produced.RequestsPerSecond < 0.98*s.Rate {
		f.Notes = append(f.Notes, fmt.Sprintf("the rate of %.0f requests/s was not reached: latencies are those of a queue that grows", s.Rate))
	}
	for _, l := range f.Latencies {
		if l.Of == SendAfterDue && l.P99 > 1 {
			f.Notes = append(f.Notes, fmt.Sprintf("1 %% of the requests were sent %.1f ms or more after they were due: this host is too busy, or the window too small, for latencies below that", l.P99))
		}
	}
}

// runFetch reads a filled topic again and again.
func runFetch(ctx context.Context, r *runner, s Settings) ([]*Figures, error) {
	l, err := r.prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	bytes := int64(fillBytesMax)
	if s.Bytes > 0 {
		bytes = min(bytes, s.Bytes)
	}
	if r.options.FillBytes > 0 {
		bytes = min(bytes, r.options.FillBytes)
	}
	ends, err := r.fill(ctx, l, bytes)
	if err != nil {
		return nil, err
	}
	m := r.measurement(s)
	m.fetchName = "fetch"
	var known atomic.Pointer[[]int64]
	known.Store(&ends)
	for range s.Readers {
		readers, err := r.readers(ctx, l, nil, &known)
		if err != nil {
			return nil, err
		}
		for _, reader := range readers {
			reader.gate, reader.again, reader.roundTrips, reader.limits = m.gate, true, true, catchUp()
		}
		m.readers = append(m.readers, workers(readers)...)
	}
	f, err := m.run(ctx)
	if err != nil {
		return nil, err
	}
	f.describe(r.part, s)
	return []*Figures{f}, nil
}

// runTail reads behind producers.
func runTail(ctx context.Context, r *runner, s Settings) ([]*Figures, error) {
	l, err := r.prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	f, err := r.tail(ctx, l)
	if err != nil {
		return nil, err
	}
	return []*Figures{f}, nil
}

// tail measures producers with readers behind them. All that is produced is read by each of the readers.
func (r *runner) tail(ctx context.Context, l *loadOf) (*Figures, error) {
	s := l.settings
	m := r.measurement(s)
	if err := r.connect(ctx, l, m.gate); err != nil {
		return nil, err
	}
	m.producers = workers(l.producers)
	var known atomic.Pointer[[]int64]
	for range s.Readers {
		readers, err := r.readers(ctx, l, nil, &known)
		if err != nil {
			return nil, err
		}
		if s.Role == roleEndToEnd {
			m.fetchName = "due to received"
			for _, reader := range readers {
				reader.gate, reader.schedule, reader.producers = m.gate, l.schedule, l.lanesByPartition()
			}
		}
		m.readers = append(m.readers, workers(readers)...)
	}
	m.produced = func(ctx context.Context) error {
		if err := r.settle(ctx, l); err != nil {
			return err
		}
		ends := l.acknowledged()
		known.Store(&ends)
		return nil
	}
	f, err := m.run(ctx)
	if err != nil {
		return nil, err
	}
	f.describe(r.part, s)
	f.Verified, err = r.verify(ctx, l)
	return f, err
}

func (l *loadOf) lanesByPartition() []laneOf {
	all := make([]laneOf, l.topic.partitions)
	for c, p := range l.producers {
		for i, partition := range p.lane.partitions {
			all[partition] = laneOf{connection: c, place: i, partitions: len(p.lane.partitions)}
		}
	}
	return all
}
