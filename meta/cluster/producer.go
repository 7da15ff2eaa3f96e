package cluster

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// ProducerIDBlock is how many producer ids ProducerIDs takes at once. A stop loses the rest of a block,
// which 63 bits can afford.
const ProducerIDBlock = 1000

const producerIDsMax = 1_000_000 // of one AllocateProducerIDs

func (c AllocateProducerIDs) apply(t *transaction) []byte {
	switch {
	case c.Count <= 0 || c.Count > producerIDsMax:
		return AllocateProducerIDsResult{Outcome: Outcome{ErrInvalidRequest,
			fmt.Sprintf("%d producer ids were asked for, 1 to %d can be", c.Count, producerIDsMax)}}.append(nil)
	case t.next.nextProducerID > math.MaxInt64-int64(c.Count):
		return AllocateProducerIDsResult{Outcome: Outcome{ErrInvalidRequest, "producer ids are used up"}}.append(nil)
	}
	first := t.next.nextProducerID
	t.next.nextProducerID += int64(c.Count)
	return AllocateProducerIDsResult{First: first}.append(nil)
}

// ProducerIDs hands out single producer ids from blocks, so that only one in ProducerIDBlock costs a
// proposal. It is safe for concurrent use.
type ProducerIDs struct {
	client *Client
	refill chan struct{} // holds one token: who has it fetches the next block

	mu        sync.Mutex
	next, end int64
}

// NewProducerIDs returns an allocator that takes its blocks through the client.
func NewProducerIDs(client *Client) *ProducerIDs {
	p := &ProducerIDs{client: client, refill: make(chan struct{}, 1)}
	p.refill <- struct{}{}
	return p
}

// Next returns an id that nobody else ever gets. It blocks for a proposal when its block is used up; the
// errors are those of the proposal and of ctx.
func (p *ProducerIDs) Next(ctx context.Context) (int64, error) {
	if id, ok := p.take(); ok {
		return id, nil
	}
	select {
	case <-p.refill:
	case <-ctx.Done():
		return 0, fmt.Errorf("allocate producer id: %w", context.Cause(ctx))
	}
	id, err := p.takeFromNewBlock(ctx)
	p.refill <- struct{}{}
	return id, err
}

func (p *ProducerIDs) take() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == p.end {
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

// takeFromNewBlock runs with the refill token; somebody may have refilled while it was waited for.
func (p *ProducerIDs) takeFromNewBlock(ctx context.Context) (int64, error) {
	if id, ok := p.take(); ok {
		return id, nil
	}
	result, err := p.client.AllocateProducerIDs(ctx, AllocateProducerIDs{Count: ProducerIDBlock})
	if err != nil {
		return 0, err
	}
	if err := result.Err(); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.end = result.First+1, result.First+ProducerIDBlock
	return result.First, nil
}
