package broker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/broker/brokertest"
)

// TestG25ChainedGroups lets three groups of three consumers hand records on from topic to topic, while members come
// and go: each record arrives, and everything that a group reads is committed in the end.
func TestG25ChainedGroups(t *testing.T) {
	const records, stages, members = 600, 3, 3
	b := startGroups(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var topics []brokertest.Topic
	for range stages + 1 {
		topics = append(topics, b.NewTopic(t, 6, nil))
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for i := range records {
		producer.Produce(ctx, &kgo.Record{Topic: topics[0].Name, Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for stage := range stages {
		for range members {
			all.Go(func() { handOn(t, running, b, topics[stage].Name, topics[stage+1].Name, true) })
			all.Go(func() { handOn(t, running, b, topics[stage].Name, topics[stage+1].Name, false) })
		}
	}
	seen := map[string]bool{}
	last, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumeTopics(topics[stages].Name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	for len(seen) < records && ctx.Err() == nil {
		last.PollFetches(ctx).EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
	}
	stop()
	all.Wait()
	want(t, "records at the end of the chain", len(seen), records)
}

// handOn is a member of the group named by its input. One that is fleeting leaves after some records.
func handOn(t *testing.T, ctx context.Context, b *brokertest.Broker, from, to string, fleeting bool) {
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumerGroup("group-"+from), kgo.ConsumeTopics(from), kgo.DefaultProduceTopic(to),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.HeartbeatInterval(100*time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.CloseAllowingRebalance()
	for n := 0; ctx.Err() == nil && (!fleeting || n < 20); {
		fetches := c.PollRecords(ctx, 20)
		var batch []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) { batch = append(batch, &kgo.Record{Value: r.Value}) })
		if err := c.ProduceSync(ctx, batch...).FirstErr(); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		if err := c.CommitRecords(ctx, fetches.Records()...); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		c.AllowRebalance()
		n += len(batch)
	}
}

// A broker that stops does not wait for the group that a member waits for.
func TestStopAnswersWhoWaitsForAGroup(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"group.initial.rebalance.delay.ms": "60000"})
	m := b.NewMember(t, "stops", "t")
	m.Rebalance = 300_000
	wait := m.Enter()
	other := brokertest.Dial(t, b.Addr)
	brokertest.Eventually(t, "the member waits", func() bool { return other.DescribeGroup(5, "stops").State == "PreparingRebalance" })
	b.Stop(t)
	want(t, "the waiting join", wait().ErrorCode, errNotCoordinator)
}
