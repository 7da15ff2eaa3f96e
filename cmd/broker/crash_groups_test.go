package broker_test

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/broker/brokertest"
)

// readers is one group that reads and commits while its broker is ended.
type readers struct {
	name      string
	protocol  []kgo.Opt
	committed []atomic.Int64 // acknowledged, by partition
	mu        sync.Mutex
	seen      []offsetSet // by partition
}

// offsetSet is a set of offsets from 0 on, a bit each.
type offsetSet struct {
	bits []uint64
	n    int64
}

func (s *offsetSet) add(offset int64) {
	for int64(len(s.bits))*64 <= offset {
		s.bits = append(s.bits, 0)
	}
	if word, bit := &s.bits[offset/64], uint64(1)<<(offset%64); *word&bit == 0 {
		*word |= bit
		s.n++
	}
}

// without counts what the set has and the other has not, and returns the first of it.
func (s *offsetSet) without(other *offsetSet) (first, n int64) {
	for i, word := range s.bits {
		if i < len(other.bits) {
			word &^= other.bits[i]
		}
		if word != 0 && n == 0 {
			first = int64(i*64 + bits.TrailingZeros64(word))
		}
		n += int64(bits.OnesCount64(word))
	}
	return first, n
}

// member reads until over, and commits after each poll.
func (g *readers) member(t *testing.T, ctx context.Context, b *brokertest.Broker, topic brokertest.Topic) {
	c, err := kgo.NewClient(append(g.protocol, kgo.SeedBrokers(b.Addr), kgo.AlwaysRetryEOF(), kgo.ConsumerGroup(g.name), kgo.ConsumeTopics(topic.Name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.SessionTimeout(6*time.Second), kgo.MetadataMinAge(100*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))...)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.CloseAllowingRebalance()
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		fetches := c.PollFetches(poll)
		cancel()
		last := map[int32]int64{}
		g.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			g.seen[r.Partition].add(r.Offset)
			last[r.Partition] = r.Offset + 1
		})
		g.mu.Unlock()
		commit, cancel := context.WithTimeout(ctx, 5*time.Second)
		if len(last) > 0 && c.CommitRecords(commit, fetches.Records()...) == nil {
			for p, offset := range last {
				for was := g.committed[p].Load(); was < offset && !g.committed[p].CompareAndSwap(was, offset); was = g.committed[p].Load() {
				}
			}
		}
		cancel()
		c.AllowRebalance()
	}
}

// missing counts what the group has not read of the first acked records of each partition.
func (g *readers) missing(writers []*numbered) (n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.seen {
		n += max(writers[p].acked.Load()-g.seen[p].n, 0)
	}
	return n
}

// acknowledged lists what is committed of each partition, as far as its members know.
func (g *readers) acknowledged() []int64 {
	offsets := make([]int64, len(g.committed))
	for p := range g.committed {
		offsets[p] = g.committed[p].Load()
	}
	return offsets
}

// checkCommitted demands that what was acknowledged is committed.
func checkCommitted(t *testing.T, ctx context.Context, b *brokertest.Broker, topic brokertest.Topic, groups []*readers, due [][]int64) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.AlwaysRetryEOF())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, g := range groups {
		offsets, err := kadm.NewClient(c).FetchOffsets(ctx, g.name)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		for p, want := range due[i] {
			if got, ok := offsets.Lookup(topic.Name, int32(p)); want > 0 && (!ok || got.At < want) {
				t.Errorf("%s partition %d: %d is committed, %d was acknowledged", g.name, p, got.At, want)
			}
		}
	}
}
