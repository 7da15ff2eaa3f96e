package broker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/broker/brokertest"
)

// TestPartitionsComeAndRecordsGoUnderLoad adds partitions to a topic, and deletes the records that both groups have
// read, while producers and groups go on. New partitions are written and read, and of what is not deleted no record is
// lost or doubled.
func TestPartitionsComeAndRecordsGoUnderLoad(t *testing.T) {
	const partitions = 3
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	b := brokertest.Start(t, consumerSettings("log.segment.delete.delay.ms", "100"))
	topic := b.NewTopic(t, 1, map[string]string{"segment.bytes": "1048576"})
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin, c := kadm.NewClient(client), brokertest.Dial(t, b.Addr)

	clients, stopClients := context.WithCancel(ctx)
	defer stopClients()
	var writing, reading sync.WaitGroup
	var over atomic.Bool
	// Clients look for new partitions of what they read every five minutes by default.
	groups := []*readers{
		{name: brokertest.FreshName("classic"), protocol: []kgo.Opt{kgo.MetadataMaxAge(300 * time.Millisecond)}},
		{name: brokertest.FreshName("modern"), protocol: []kgo.Opt{kgo.MetadataMaxAge(300 * time.Millisecond), kgo.ServerSideBalancer()}},
	}
	for _, g := range groups {
		g.committed, g.seen = make([]atomic.Int64, partitions), make([]offsetSet, partitions)
		reading.Go(func() { g.member(t, clients, b, topic) })
	}
	var writers []*numbered
	for _, upTo := range []int{1, partitions} {
		if more := upTo - 1; more > 0 {
			if r, err := admin.CreatePartitions(ctx, more, topic.Name); err != nil || r.Error() != nil {
				t.Fatal(err, r.Error())
			}
		}
		for p := len(writers); p < upTo; p++ {
			n := &numbered{partition: int32(p), idempotent: true}
			writers = append(writers, n)
			writing.Go(func() { n.produce(t, ctx, b.Addr, topic.Name, &over) })
		}
		gone := kadm.Offsets{}
		for q := range writers {
			read := func() int64 { return min(groups[0].committed[q].Load(), groups[1].committed[q].Load()) }
			least := read() + 100
			brokertest.Eventually(t, "both groups read on", func() bool { return t.Failed() || read() >= least })
			gone.AddOffset(topic.Name, int32(q), read(), -1)
		}
		deleted, err := admin.DeleteRecords(ctx, gone)
		if err == nil {
			err = deleted.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		gone.Each(func(o kadm.Offset) { want(t, "log start", c.LogStart(topic, o.Partition), o.At) })
	}
	over.Store(true)
	writing.Wait()
	awaitRead(t, groups, writers)
	stopClients()
	reading.Wait()
	for p, n := range writers {
		n.check(t, b, topic)
		want(t, "log end", c.LogEnd(topic, n.partition), n.acked.Load())
		for _, g := range groups {
			want(t, "records read by "+g.name, g.seen[p].n, n.acked.Load())
		}
	}
}
