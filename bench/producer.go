package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/bench/wire"
)

const (
	// Requests up to this size are gathered, so that answers that came together are followed by requests
	// that go together.
	gatherBytes = 16 << 10
	// produceTimeoutMs is how long a broker may take to replicate.
	produceTimeoutMs = 30_000
)

// producer is one connection that produces.
type producer struct {
	tally
	clock    clock
	gate     *gate
	settings Settings
	conn     *wire.Conn
	lane     lane
	encoded  []*wire.Produce // requests, taken in turn
	content  *content
	schedule *schedule // nil: as fast as answers come
	index    int       // of this connection, in the schedule

	producerID    int64
	producerEpoch int16
	sequence      []int32 // by partition of the topic
	expected      []int64 // the base offset that is due, by partition of the topic
	acked         []int64 // records, by partition of the topic
	acks          []wire.Ack
	out           []byte
}

// sent is a request in flight.
type sent struct {
	at      int64 // when it was sent, or due
	request int32
}

// newProducer encodes the requests of a lane.
func newProducer(t *topic, l lane, c *content, s Settings) *producer {
	p := &producer{settings: s, lane: l, content: c, producerID: -1, producerEpoch: -1,
		sequence: make([]int32, t.partitions), expected: make([]int64, t.partitions), acked: make([]int64, t.partitions)}
	p.latency = newHistogram()
	n, per := len(l.partitions), min(s.PerRequest, len(l.partitions))
	// Request k brings batches k*per to (k+1)*per of an endless round over the partitions; it comes around
	// after n/gcd requests.
	for k := range n / gcd(n, per) {
		partitions := make([]int32, per)
		for j := range partitions {
			partitions[j] = l.partitions[(k*per+j)%n]
		}
		p.encoded = append(p.encoded, wire.NewProduce(t.name, partitions, c.batch, int16(s.Acks), produceTimeoutMs))
	}
	return p
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// run produces until the gate closes and everything is answered.
func (p *producer) run(ctx context.Context) error {
	defer p.conn.Close()
	var err error
	switch {
	case p.settings.Acks == 0:
		err = p.runBlind(ctx)
	case p.schedule != nil:
		err = p.runPaced(ctx)
	default:
		err = p.runSaturated()
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// runSaturated keeps the window full.
func (p *producer) runSaturated() error {
	flight := make([]sent, p.settings.Window)
	var head, tail int64 // of flight: answered, sent
	for {
		for tail-head < int64(len(flight)) && p.leave(tail) {
			flight[tail%int64(len(flight))] = sent{p.clock.now(), p.turn(tail)}
			if err := p.gather(tail); err != nil {
				return err
			}
			tail++
		}
		if head == tail {
			return nil
		}
		if !p.conn.Ready() {
			if err := p.flush(); err != nil {
				return err
			}
		}
		frame, err := p.conn.Read()
		if err != nil {
			return err
		}
		if err := p.answered(frame, int32(head), flight[head%int64(len(flight))]); err != nil {
			return err
		}
		head++
	}
}

// flights are the requests of an open loop that are not answered. The receiver waits for bytes alone, and not
// for the sender too: each wait is a wake-up that the load pays for.
type flights struct {
	queue    chan sent // as long as the window
	answered atomic.Int64
	total    atomic.Int64 // requests in all; -1 until the sender has ended
}

// runPaced sends when the schedule says, and counts latency from there.
func (p *producer) runPaced(ctx context.Context) error {
	f := &flights{queue: make(chan sent, p.settings.Window)}
	f.total.Store(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	received := make(chan error, 1)
	go func() {
		err := p.receive(f)
		if err != nil {
			cancel(err) // the sender may wait for a place in the queue
		}
		received <- err
	}()
	sending := make(chan error, 1)
	go func() {
		pace := newPacer(p.clock)
		defer pace.release()
		n, err := p.send(ctx, pace, f)
		f.total.Store(n)
		if err != nil || ctx.Err() != nil {
			p.conn.Close() // what is in flight is not waited for
		} else if f.answered.Load() == n {
			p.conn.Interrupt()
		}
		sending <- err
	}()
	if err := <-received; err != nil {
		<-sending // its error, if any, is the same one's
		return err
	}
	return <-sending
}

// send returns how many requests it has sent.
func (p *producer) send(ctx context.Context, pace pacer, f *flights) (int64, error) {
	for n := int64(0); ; n++ {
		due := p.schedule.at(p.index, n)
		if !pace.until(ctx, p.gate, due) || !p.leave(n) {
			return n, nil
		}
		if p.gate.measures(due) {
			record(p.lag, p.clock.now()-due, 1)
		}
		select {
		case f.queue <- sent{due, p.turn(n)}:
		case <-ctx.Done():
			return n, nil
		}
		if err := p.conn.Write(p.prepared(n)); err != nil {
			return n + 1, err
		}
	}
}

func (p *producer) receive(f *flights) error {
	for n := int64(0); f.total.Load() != n; {
		frame, err := p.conn.Read()
		if err != nil {
			if f.total.Load() == n {
				return nil // all was answered before the sender ended
			}
			return err
		}
		select {
		case s := <-f.queue:
			if err := p.answered(frame, int32(n), s); err != nil {
				return err
			}
		default:
			return errors.New("an answer came that was not asked for")
		}
		n++
		f.answered.Store(n)
	}
	return nil
}

// runBlind sends without answers: what counts is that the kernel took it.
func (p *producer) runBlind(ctx context.Context) error {
	for n := int64(0); ctx.Err() == nil && p.leave(n); n++ {
		if err := p.gather(n); err != nil {
			return err
		}
		request := p.encoded[p.turn(n)]
		for _, partition := range request.Partitions {
			p.acked[partition] += int64(p.settings.Batch)
		}
		p.count(len(request.Partitions), len(request.Frame), 0)
	}
	return p.flush()
}

func (p *producer) turn(n int64) int32 { return int32(n % int64(len(p.encoded))) }

// leave asks the gate for the n-th request.
func (p *producer) leave(n int64) bool {
	return p.gate.take(int64(p.content.plain * len(p.encoded[p.turn(n)].Partitions)))
}

// prepared patches the n-th request.
func (p *producer) prepared(n int64) []byte {
	r := p.encoded[p.turn(n)]
	wire.SetCorrelation(r.Frame, int32(n))
	if p.settings.Idempotent {
		for i, partition := range r.Partitions {
			wire.Stamp(r.Batch(i), p.producerID, p.producerEpoch, p.sequence[partition])
			p.sequence[partition] = wire.NextSequence(p.sequence[partition], p.settings.Batch)
		}
	}
	return r.Frame
}

// gather sends the n-th request, a small one later by flush.
func (p *producer) gather(n int64) error {
	frame := p.prepared(n)
	if len(frame) <= gatherBytes {
		p.out = append(p.out, frame...)
		if len(p.out) < 4*gatherBytes {
			return nil
		}
		return p.flush()
	}
	if err := p.flush(); err != nil {
		return err
	}
	return p.conn.Write(frame)
}

func (p *producer) flush() error {
	if len(p.out) == 0 {
		return nil
	}
	err := p.conn.Write(p.out)
	p.out = p.out[:0]
	return err
}

// answered takes the answer to the oldest request in flight.
func (p *producer) answered(frame []byte, correlation int32, s sent) error {
	now := p.clock.now()
	got, err := wire.Correlation(frame)
	if err != nil {
		return err
	}
	if got != correlation {
		return fmt.Errorf("answer %d came where %d is due", got, correlation)
	}
	if p.acks, err = wire.ParseProduce(p.acks[:0], frame); err != nil {
		return fmt.Errorf("answer to a produce request: %w", err)
	}
	request := p.encoded[s.request]
	if len(p.acks) != len(request.Partitions) {
		return fmt.Errorf("a produce request for %d partitions was answered for %d", len(request.Partitions), len(p.acks))
	}
	for _, a := range p.acks {
		if err := p.acknowledged(a); err != nil {
			return err
		}
	}
	if p.gate.measures(s.at) {
		record(p.latency, now-s.at, 1)
	}
	p.count(len(request.Partitions), len(request.Frame), len(frame)+4)
	return nil
}

func (p *producer) acknowledged(a wire.Ack) error {
	if err := kerr.ErrorForCode(a.Code); err != nil {
		return fmt.Errorf("produce to partition %d: %w", a.Partition, err)
	}
	if a.Partition < 0 || int(a.Partition) >= len(p.expected) {
		return fmt.Errorf("an answer for partition %d, which the topic does not have", a.Partition)
	}
	due := p.expected[a.Partition]
	if a.BaseOffset < due || p.lane.sole && a.BaseOffset != due {
		return fmt.Errorf("partition %d: a batch was given base offset %d where %d is due", a.Partition, a.BaseOffset, due)
	}
	p.expected[a.Partition] = a.BaseOffset + int64(p.settings.Batch)
	p.acked[a.Partition] += int64(p.settings.Batch)
	return nil
}

func (p *producer) count(batches, sentBytes, receivedBytes int) {
	p.requests.Add(1)
	p.batches.Add(int64(batches))
	p.records.Add(int64(batches * p.settings.Batch))
	p.payloadBytes.Add(int64(batches * p.content.plain))
	p.sentBytes.Add(int64(sentBytes))
	p.recvBytes.Add(int64(receivedBytes))
	p.last.Store(p.clock.now())
}
