package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/bench/wire"
)

// Fetches of catching up and of following the tail.
func catchUp() wire.FetchLimits {
	return wire.FetchLimits{WaitMs: 500, MinBytes: 1, MaxBytes: 1 << 20, MaxPartitionBytes: 1 << 20}
}

func follow() wire.FetchLimits {
	return wire.FetchLimits{WaitMs: 500, MinBytes: 1, MaxBytes: 50 << 20, MaxPartitionBytes: 1 << 20}
}

// reader is one connection that fetches all its partitions and checks what comes.
type reader struct {
	tally
	clock  clock
	gate   *gate // asked for leave before each fetch; nil: none needed
	conn   *wire.Conn
	topic  string
	limits wire.FetchLimits
	check  checker
	// ends are the offsets, by partition of the topic, at which all is read; nil: not known yet.
	ends *atomic.Pointer[[]int64]
	// again: at the end it begins anew, until the gate closes.
	again bool
	// roundTrips: the latency is that of a fetch. schedule: it is that of each batch, from when it was due.
	roundTrips bool
	schedule   *schedule
	producers  []laneOf // by partition, with a schedule

	at      []wire.Position // of its partitions
	slot    []int           // in at, by partition of the topic; -1: not of this reader
	pending []wire.Position
	parts   []wire.Fetched
	out     []byte
}

// laneOf finds the schedule of a partition's batches: its producer, and its place among that one's partitions.
type laneOf struct{ connection, place, partitions int }

// newReader reads the partitions from the given offsets.
func newReader(t *topic, partitions []int32, from []int64) *reader {
	r := &reader{topic: t.name, slot: make([]int, t.partitions)}
	r.fetched, r.latency = true, newHistogram()
	for i := range r.slot {
		r.slot[i] = -1
	}
	for i, p := range partitions {
		r.slot[p] = i
		r.at = append(r.at, wire.Position{Partition: p, Offset: from[i]})
	}
	return r
}

// run reads until all is read or the gate closes.
func (r *reader) run(ctx context.Context) error {
	defer r.conn.Close()
	err := r.read(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (r *reader) read(ctx context.Context) error {
	for correlation := int32(0); ctx.Err() == nil; correlation++ {
		if r.gate != nil && r.gate.stopped.Load() || !r.wants() {
			return nil
		}
		began := r.clock.now()
		r.out = wire.AppendFetch(r.out[:0], correlation, r.topic, r.pending, r.limits)
		if err := r.conn.Write(r.out); err != nil {
			return err
		}
		frame, err := r.conn.Read()
		if err != nil {
			return err
		}
		now := r.clock.now()
		plain, err := r.take(frame, correlation, now)
		if err != nil {
			return err
		}
		if r.roundTrips && r.gate.measures(began) {
			record(r.latency, now-began, 1)
		}
		if r.gate != nil {
			r.gate.take(int64(plain))
		}
	}
	return nil
}

// wants fills pending with the partitions that are to be fetched, and returns false when all is read.
func (r *reader) wants() bool {
	var ends []int64
	if known := r.ends.Load(); known != nil {
		ends = *known
	}
	for range 2 {
		r.pending = r.pending[:0]
		for _, p := range r.at {
			if ends == nil || p.Offset < ends[p.Partition] {
				r.pending = append(r.pending, p)
			}
		}
		if len(r.pending) > 0 || !r.again {
			break
		}
		for i := range r.at {
			r.at[i].Offset = 0
		}
	}
	return len(r.pending) > 0
}

// take checks and counts one answer and returns the bytes of its batches before compression.
func (r *reader) take(frame []byte, correlation int32, now int64) (int, error) {
	got, err := wire.Correlation(frame)
	if err != nil {
		return 0, err
	}
	if got != correlation {
		return 0, fmt.Errorf("answer %d came where %d is due", got, correlation)
	}
	var code int16
	if r.parts, code, err = wire.ParseFetch(r.parts[:0], frame); err != nil {
		return 0, fmt.Errorf("answer to a fetch: %w", err)
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return 0, fmt.Errorf("fetch: %w", err)
	}
	plain, bytes, fresh := 0, 0, int64(0)
	for _, part := range r.parts {
		n, records, err := r.takePartition(part, now)
		if err != nil {
			return 0, fmt.Errorf("fetch of partition %d: %w", part.Partition, err)
		}
		plain += n
		fresh += records
		bytes += len(part.Records)
	}
	if bytes > 0 && fresh == 0 {
		return 0, fmt.Errorf("a fetch brought %d bytes but no record", bytes)
	}
	r.requests.Add(1)
	r.records.Add(fresh)
	r.payloadBytes.Add(int64(plain))
	r.sentBytes.Add(int64(len(r.out)))
	r.recvBytes.Add(int64(len(frame) + 4))
	if fresh > 0 {
		r.last.Store(now)
	}
	return plain, nil
}

func (r *reader) takePartition(part wire.Fetched, now int64) (plain int, records int64, err error) {
	if err := kerr.ErrorForCode(part.Code); err != nil {
		return 0, 0, err
	}
	if part.Partition < 0 || int(part.Partition) >= len(r.slot) || r.slot[part.Partition] < 0 {
		return 0, 0, fmt.Errorf("it was not asked for")
	}
	at := &r.at[r.slot[part.Partition]]
	for left := part.Records; len(left) > 0; {
		size, fresh, bytes, err := r.check.batch(left, at.Offset)
		if err != nil {
			return 0, 0, err
		}
		if size == 0 {
			break // cut off by the limit of the fetch
		}
		r.batches.Add(1)
		if r.schedule != nil {
			r.arrived(part.Partition, at.Offset, fresh, now)
		}
		at.Offset += fresh
		records += fresh
		plain += bytes
		left = left[size:]
	}
	return plain, records, nil
}

// arrived records for each of the producer's batches how long after it was due its records are here.
func (r *reader) arrived(partition int32, from, records, now int64) {
	per := int64(len(r.check.content.values))
	l := r.producers[partition]
	for offset := from; offset < from+records; {
		batch := offset / per
		n := min((batch+1)*per, from+records) - offset
		due := r.schedule.at(l.connection, batch*int64(l.partitions)+int64(l.place))
		if r.gate.measures(due) {
			record(r.latency, now-due, n)
		}
		offset += n
	}
}
