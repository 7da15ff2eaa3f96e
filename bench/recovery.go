package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	recoveryMax  = 15 * time.Minute // some brokers open 10,000 partitions slowly
	recoveryPoll = 5 * time.Millisecond
)

// runRecovery is S3: a broker with much data or many partitions is killed and started again. It is ready when
// it tells the end of each partition, which must be what was acknowledged before.
func runRecovery(ctx context.Context, r *runner, s Settings) ([]*Figures, error) {
	held, err := r.load(ctx, s)
	if err != nil {
		return nil, err
	}
	r.phase = "killing and starting the broker"
	began, err := r.options.Restart(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recoveryMax, fmt.Errorf("the broker is not ready %v after it was killed", recoveryMax))
	defer cancel()
	for _, h := range held {
		if err := r.await(ctx, h); err != nil {
			return nil, err
		}
	}
	took := time.Since(began)
	if err := r.revive(ctx); err != nil {
		return nil, err
	}
	f := &Figures{Part: r.part, Settings: s, Seconds: took.Seconds(), Extras: []Extra{{"ready after SIGKILL", took.Seconds(), "s"}}}
	return []*Figures{f}, nil
}

// holding is a topic and where its partitions end.
type holding struct {
	topic *topic
	ends  []int64
}

// load fills a broker with what it is to recover.
func (r *runner) load(ctx context.Context, s Settings) ([]holding, error) {
	if s.Role != roleMany {
		l, err := r.prepare(ctx, s)
		if err != nil {
			return nil, err
		}
		ends, err := r.fill(ctx, l, s.Bytes)
		return []holding{{l.topic, ends}}, err
	}
	_, topics, err := r.makeMany(ctx, s.Partitions)
	if err != nil {
		return nil, err
	}
	var held []holding
	for _, t := range topics {
		ends, err := r.ends(ctx, t)
		if err != nil {
			return nil, err
		}
		held = append(held, holding{t, ends})
	}
	return held, nil
}

// await asks, over fresh connections, until the broker tells the ends that it told before.
func (r *runner) await(ctx context.Context, h holding) error {
	for {
		ends, err := r.askEnds(ctx, h.topic)
		if err == nil && slices.Equal(ends, h.ends) {
			return nil
		}
		if err == nil {
			return fmt.Errorf("after SIGKILL: %w", missing(h.topic, ends, h.ends))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%v)", context.Cause(ctx), err)
		case <-time.After(recoveryPoll):
		}
	}
}

// revive makes the client notice that its connections ended with the broker that was killed.
func (r *runner) revive(ctx context.Context) error {
	for {
		err := r.client.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%v)", context.Cause(ctx), err)
		case <-time.After(recoveryPoll):
		}
	}
}

func (r *runner) askEnds(ctx context.Context, t *topic) ([]int64, error) {
	retry := func(int) time.Duration { return recoveryPoll }
	a, err := connect(ctx, r.options.Broker, "", kgo.RetryBackoffFn(retry))
	if err != nil {
		return nil, err
	}
	defer a.close()
	return a.ends(ctx, t)
}
