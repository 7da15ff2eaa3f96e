package broker_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/broker/brokertest"
)

// numbered is a producer of rising numbers to a partition of its own, with acks=all.
type numbered struct {
	partition  int32
	idempotent bool
	acked      atomic.Int64
	mu         sync.Mutex
	numbers    offsetSet // that were acknowledged
}

// value is what a record says of itself: its partition, its number, and a checksum of both and of what fills it.
func (n *numbered) value(number int64) []byte {
	size := number % 400
	if number%64 == 0 {
		size = 30_000
	}
	text := fmt.Appendf(nil, "%d %d %s", n.partition, number, strings.Repeat("x", int(size)))
	return fmt.Appendf(text, " %08x", crc32.ChecksumIEEE(text))
}

// numberIn checks a value and returns its number.
func (n *numbered) numberIn(value []byte) (number int64, err error) {
	at := max(len(value)-9, 0)
	var partition int32
	if _, err := fmt.Sscan(string(value[:at]), &partition, &number); err != nil || partition != n.partition {
		return 0, fmt.Errorf("value %.40q of %d bytes in partition %d: %v", value, len(value), n.partition, err)
	}
	if sum := fmt.Sprintf(" %08x", crc32.ChecksumIEEE(value[:at])); sum != string(value[at:]) {
		return 0, fmt.Errorf("record %d of partition %d: checksum %s, it says %s", number, partition, sum, value[at:])
	}
	return number, nil
}

// produce sends some 500 records a second until over.
func (n *numbered) produce(t *testing.T, ctx context.Context, addr, topic string, over *atomic.Bool) {
	opts := []kgo.Opt{kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(500), kgo.AlwaysRetryEOF(),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond })}
	if !n.idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	var failed atomic.Bool
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for number := int64(0); !over.Load() && ctx.Err() == nil; <-tick.C {
		for range rand.IntN(3) {
			sent := number
			number++
			c.Produce(ctx, &kgo.Record{Topic: topic, Partition: n.partition, Value: n.value(sent)}, func(_ *kgo.Record, err error) {
				if err != nil {
					if failed.CompareAndSwap(false, true) { // it fails those behind it, too
						t.Errorf("partition %d record %d: %v", n.partition, sent, err)
					}
					return
				}
				n.mu.Lock()
				n.numbers.add(sent)
				n.mu.Unlock()
				n.acked.Add(1)
			})
		}
	}
	if err := c.Flush(ctx); err != nil {
		t.Error(err)
	}
}

// check reads all of the partition: every value is whole and none is missing that was acknowledged; of an idempotent
// producer each comes once and in order.
func (n *numbered) check(t *testing.T, b *brokertest.Broker, topic brokertest.Topic) {
	t.Helper()
	var seen offsetSet
	c := brokertest.Dial(t, b.Addr)
	next := c.LogStart(topic, n.partition)
	for gone := range next { // by retention, where there is one
		seen.add(gone)
	}
	for end := c.LogEnd(topic, n.partition); next < end; {
		answer := c.Fetch(topic, n.partition, next)
		batches, err := brokertest.DecodeBatches(answer.RecordBatches)
		if err != nil || answer.ErrorCode != errNone || len(batches) == 0 {
			t.Fatalf("partition %d at %d of %d: code %d, %d batches, %v", n.partition, next, end, answer.ErrorCode, len(batches), err)
		}
		for _, batch := range batches {
			for _, r := range batch.Records {
				if r.Offset < next {
					continue
				}
				number, err := n.numberIn(r.Value)
				if err != nil || r.Offset != next || n.idempotent && number != next {
					t.Fatalf("partition %d offset %d (expected %d) holds number %d, %v", n.partition, r.Offset, next, number, err)
				}
				seen.add(number)
				next++
			}
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, missing := n.numbers.without(&seen); missing > 0 {
		t.Errorf("partition %d: %d of %d acknowledged records are missing, number %d first", n.partition, missing, n.acked.Load(), number)
	}
}

// comings makes topics and deletes them again, no name twice.
type comings struct {
	mu   sync.Mutex
	made []string        // acknowledged, oldest first
	gone map[string]bool // asked to be deleted: false, acknowledged: true
}

func (k *comings) run(t *testing.T, ctx context.Context, addr string) {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AlwaysRetryEOF(), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	adm := kadm.NewClient(c)
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprint("comes-and-goes-", i)
		_, err := adm.CreateTopic(ctx, 3, 1, nil, name)
		k.mu.Lock()
		if err == nil {
			k.made = append(k.made, name)
		}
		oldest := ""
		if len(k.made) > 5 {
			oldest, k.made = k.made[0], k.made[1:]
			k.gone[oldest] = false
		}
		k.mu.Unlock()
		if oldest == "" {
			continue
		}
		if r, err := adm.DeleteTopics(ctx, oldest); err == nil && r[oldest].Err == nil {
			k.mu.Lock()
			k.gone[oldest] = true
			k.mu.Unlock()
		}
	}
}

// due lists the topics that must be there and those that must not.
func (k *comings) due() (made, gone []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, acknowledged := range k.gone {
		if acknowledged {
			gone = append(gone, name)
		}
	}
	return append(made, k.made...), gone
}

func (k *comings) check(t *testing.T, ctx context.Context, addr string, made, gone []string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AlwaysRetryEOF())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	have, err := kadm.NewClient(c).ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range made {
		if _, asked := k.gone[name]; !asked && len(have[name].Partitions) != 3 {
			t.Errorf("topic %s was made and has %d partitions", name, len(have[name].Partitions))
		}
	}
	for _, name := range gone {
		if have.Has(name) {
			t.Errorf("topic %s was deleted and is there", name)
		}
	}
}
