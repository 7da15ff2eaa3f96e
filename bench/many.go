package bench

import (
	"context"
	"fmt"
	"time"
)

// topicPartitionsMax bounds the partitions of one topic of S2: some brokers take no more in a request.
const topicPartitionsMax = 1000

// runMany is S2: many partitions are made and touched, then P1 and P4 run on topics of their own.
func runMany(ctx context.Context, r *runner, s Settings) ([]*Figures, error) {
	before, err := r.restingMemory(ctx)
	if err != nil {
		return nil, err
	}
	extras, _, err := r.makeMany(ctx, s.Partitions)
	if err != nil {
		return nil, err
	}
	after, err := r.restingMemory(ctx)
	if err != nil {
		return nil, err
	}
	if r.process != nil {
		extras = append(extras, Extra{"memory with them", float64(after) / mb, "MB"}, Extra{"memory of a partition", float64(after-before) / float64(s.Partitions), "B"})
	}
	var all []*Figures
	for _, beside := range []struct {
		name string
		load Settings
	}{{"P1", saturated()}, {"P4", many()}} {
		load := beside.load
		load.Bytes, load.Duration, load.Warmup = s.Bytes, s.Duration, s.Warmup
		load.Many = s.Partitions
		r.part = fmt.Sprintf("%s beside %d partitions", beside.name, s.Partitions)
		f, err := runProduce(ctx, r, load)
		if err != nil {
			return nil, err
		}
		f[0].Extras = append(f[0].Extras, extras...)
		extras = nil
		all = append(all, f...)
	}
	return all, nil
}

// makeMany makes topics of so many partitions in all, and brings a record to each partition.
func (r *runner) makeMany(ctx context.Context, partitions int) ([]Extra, []*topic, error) {
	load := with(small(), func(s *Settings) { s.Connections = 1 })
	c, err := newContent(load.Batch, load.Size, load.Codec)
	if err != nil {
		return nil, nil, err
	}
	r.phase = "making partitions"
	var topics []*topic
	began := time.Now()
	for left := partitions; left > 0; left -= topicPartitionsMax {
		t, err := r.make(ctx, min(left, topicPartitionsMax), nil)
		if err != nil {
			return nil, nil, err
		}
		topics = append(topics, t)
	}
	made := time.Since(began)
	for _, t := range topics {
		load.Partitions = t.partitions
		if _, err := r.fill(ctx, &loadOf{topic: t, content: c, settings: load}, int64(c.plain*t.partitions)); err != nil {
			return nil, nil, err
		}
	}
	return []Extra{{"partitions made in", made.Seconds(), "s"}, {"made and touched in", time.Since(began).Seconds(), "s"}}, topics, nil
}
