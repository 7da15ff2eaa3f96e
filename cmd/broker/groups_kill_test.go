package broker_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/broker/brokertest"
)

// readers is one group that reads and commits while its broker is killed.
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

// member reads until over, and commits after each poll.
func (g *readers) member(t *testing.T, ctx context.Context, b *brokertest.Broker, topic brokertest.Topic) {
	c, err := kgo.NewClient(append(g.protocol, kgo.SeedBrokers(b.Addr), kgo.ConsumerGroup(g.name), kgo.ConsumeTopics(topic.Name),
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
func (g *readers) missing(acked []atomic.Int64) (n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.seen {
		n += max(acked[p].Load()-g.seen[p].n, 0)
	}
	return n
}

// TestGroupsOutliveKills kills a broker again and again under eight idempotent producers and two groups of four, one of
// each protocol: no record that was acknowledged is lost, comes twice or out of order, each group reads all of them, and
// committed offsets never fall behind what was acknowledged. MILLRACE_TEST_KILL_MINUTES makes it as long as one likes,
// with a kill every five seconds and 1,000 records a second
// to each partition.
func TestGroupsOutliveKills(t *testing.T) {
	const partitions, members = 8, 4
	kills, pause, every := 4, 500*time.Millisecond, time.Duration(0)
	if text := os.Getenv("MILLRACE_TEST_KILL_MINUTES"); text != "" {
		minutes, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		kills, pause, every = minutes*12, 5*time.Second, time.Millisecond
	}
	b := startConsumers(t)
	topic := b.NewTopic(t, partitions, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(kills)*(pause+10*time.Second)+2*time.Minute)
	defer cancel()
	sent, acked := make([]atomic.Int64, partitions), make([]atomic.Int64, partitions)
	var over atomic.Bool
	var producers, consumers sync.WaitGroup
	for p := range int32(partitions) {
		producers.Go(func() { produceNumbered(t, ctx, b, topic, p, every, &sent[p], &acked[p], &over) })
	}
	groups := []*readers{{name: brokertest.FreshName("classic")},
		{name: brokertest.FreshName("modern"), protocol: []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}}}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	for _, g := range groups {
		g.committed = make([]atomic.Int64, partitions)
		g.seen = make([]offsetSet, partitions)
		for range members {
			consumers.Go(func() { g.member(t, reading, b, topic) })
		}
	}
	total := func(counts []atomic.Int64) (n int64) {
		for i := range counts {
			n += counts[i].Load()
		}
		return n
	}
	for range kills {
		before, commits := total(acked), total(groups[0].committed)+total(groups[1].committed)
		began := time.Now()
		brokertest.Eventually(t, "producers and groups go on", func() bool {
			return t.Failed() || time.Since(began) >= pause && total(acked) >= before+500 && total(groups[0].committed)+total(groups[1].committed) > commits
		})
		var due [][]int64
		b.Kill(t)
		for _, g := range groups { // what is acknowledged now must be there, since only the broker acknowledges
			var list []int64
			for p := range g.committed {
				list = append(list, g.committed[p].Load())
			}
			due = append(due, list)
		}
		b.Restart(t)
		checkCommitted(t, ctx, b, topic, groups, due)
	}
	over.Store(true)
	producers.Wait()
	brokertest.Eventually(t, "both groups have read all", func() bool {
		return t.Failed() || groups[0].missing(acked)+groups[1].missing(acked) == 0
	})
	stop()
	consumers.Wait()
	for p := range int32(partitions) {
		checkNumbered(t, b, topic, p, acked[p].Load())
	}
	t.Logf("%d records and %d + %d committed over %d kills", total(acked), total(groups[0].committed), total(groups[1].committed), kills)
}

// checkCommitted demands that what was acknowledged is committed.
func checkCommitted(t *testing.T, ctx context.Context, b *brokertest.Broker, topic brokertest.Topic, groups []*readers, due [][]int64) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
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
