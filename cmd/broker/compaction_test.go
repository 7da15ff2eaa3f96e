package broker_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/broker/brokertest"
)

// compacted is a topic with keys under test, and what should be in it.
type compacted struct {
	t      *testing.T
	ctx    context.Context
	broker *brokertest.Broker
	topic  brokertest.Topic
	client *kgo.Client
	last   map[string]*kgo.Record // of each key, as it was acknowledged
	count  int
}

// put writes records of which later ones count, and waits for them.
func (c *compacted) put(records ...*kgo.Record) {
	c.t.Helper()
	for _, r := range records {
		r.Topic = c.topic.Name
	}
	if err := c.client.ProduceSync(c.ctx, records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
	for _, r := range records {
		c.last[string(r.Key)] = r
	}
	c.count += len(records)
}

// read reads the whole partition and checks that offsets rise, and that what is there of a key ends with its last
// record, whole.
func (c *compacted) read() (records int, tombstones int) {
	c.t.Helper()
	end := brokertest.Dial(c.t, c.broker.Addr).LogEnd(c.topic, 0)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.Addr), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.topic.Name: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	found := map[string]*kgo.Record{}
	next := int64(0)
	for next < end {
		fetches := client.PollFetches(c.ctx)
		if err := fetches.Err(); err != nil {
			c.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < next {
				c.t.Fatalf("offset %d after %d", r.Offset, next-1)
			}
			next = r.Offset + 1
			records++
			found[string(r.Key)] = r
			if r.Value == nil {
				tombstones++
			}
		})
	}
	for key, want := range c.last {
		got := found[key]
		if got == nil && want.Value == nil {
			continue
		}
		if got == nil || got.Offset != want.Offset || string(got.Value) != string(want.Value) || (got.Value == nil) != (want.Value == nil) ||
			got.Timestamp.UnixMilli() != want.Timestamp.UnixMilli() || fmt.Sprint(got.Headers) != fmt.Sprint(want.Headers) {
			c.t.Fatalf("key %s: %+v, want %+v", key, got, want)
		}
	}
	return records, tombstones
}

// settled waits until only the last record of each key is left, but for what the active segment holds of the key
// that makes segments roll.
func (c *compacted) settled(what string, keys int) {
	c.t.Helper()
	brokertest.Eventually(c.t, what, func() bool {
		c.put(&kgo.Record{Key: []byte("tick"), Value: []byte(what)})
		records, tombstones := c.read()
		return records <= keys+20 && tombstones == 0
	})
}

// TestCompaction writes keys over many segments, over a restart and a kill while it compacts, and reads until each
// key has its last record only and the deleted ones are gone.
func TestCompaction(t *testing.T) {
	const keys, rounds = 60, 40
	b := brokertest.Start(t, map[string]string{"log.cleaner.backoff.ms": "20", "log.segment.delete.delay.ms": "100"})
	topic := b.NewTopic(t, 1, map[string]string{"cleanup.policy": "compact", "segment.ms": "50",
		"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "200"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	c := &compacted{t: t, ctx: ctx, broker: b, topic: topic, client: client, last: map[string]*kgo.Record{}}
	for round := range rounds {
		var records []*kgo.Record
		for range 100 {
			n := random.IntN(keys)
			r := &kgo.Record{Key: fmt.Appendf(nil, "key-%d", n), Value: fmt.Appendf(nil, "%d of %d", c.count+len(records), n)}
			if random.IntN(40) == 0 {
				r.Value = append(r.Value, make([]byte, 40_000)...) // a batch of several blocks
			}
			if random.IntN(3) == 0 {
				r.Headers = []kgo.RecordHeader{{Key: "round", Value: fmt.Append(nil, round)}, {Key: "", Value: nil}}
			}
			records = append(records, r)
		}
		c.put(records...)
		switch round {
		case rounds / 3:
			b.Kill(t)
			b.Restart(t)
		case rounds / 2:
			c.read()
			b.Stop(t)
			b.Restart(t)
		}
	}
	var gone []*kgo.Record
	for n := range keys / 3 {
		gone = append(gone, &kgo.Record{Key: fmt.Appendf(nil, "key-%d", n)})
	}
	c.put(gone...)
	c.settled("deleted keys are gone", keys-len(gone)+1)
	b.Kill(t)
	b.Restart(t)
	c.settled("after a kill", keys-len(gone)+1)
	if metrics := metricsOf(t, b); metrics != "" && !strings.Contains(metrics, "millrace_engine_clean_errors_total 0\n") {
		t.Errorf("compactions failed:\n%s", metrics)
	}
	t.Logf("%d records written", c.count)
	described, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic.Name)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, e := range described[0].Configs {
		shown[e.Key] = e.MaybeValue()
	}
	for name, value := range map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "200",
		"min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "9223372036854775807"} {
		want(t, name, shown[name], value)
	}
}

// metricsOf reads the broker's metrics; "" of one from outside.
func metricsOf(t testing.TB, b *brokertest.Broker) string {
	t.Helper()
	if b.AdminAddr == "" {
		return ""
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + b.AdminAddr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// metricOf reads one of them, without labels; 0 of a broker from outside.
func metricOf(t testing.TB, b *brokertest.Broker, name string) (value float64) {
	t.Helper()
	for line := range strings.Lines(metricsOf(t, b)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	if b.AdminAddr != "" {
		t.Fatalf("no metric %s", name)
	}
	return 0
}

// TestCompactionByRequest turns compaction on for a topic that has records, some without a key.
func TestCompactionByRequest(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"log.cleaner.backoff.ms": "20"})
	topic := b.NewTopic(t, 1, map[string]string{"segment.ms": "50"})
	c := brokertest.Dial(t, b.Addr)
	for i := range 20 {
		batch := batchOf(fmt.Sprint(i), "without a key")
		batch.Records[0].Key = []byte("k")
		c.MustProduce(topic, 0, batch)
	}
	value := "compact,delete"
	ratio := "0"
	want(t, "alter", alter(c, topic.Name, change{"cleanup.policy", 0, &value}, change{"min.cleanable.dirty.ratio", 0, &ratio}), errNone)
	brokertest.Eventually(t, "compacted", func() bool {
		batch := batchOf("tick")
		batch.Records[0].Key = []byte("tick")
		c.MustProduce(topic, 0, batch)
		first := c.Records(topic, 0, 0)
		return len(first) > 0 && string(first[0].Key) == "k" && string(first[0].Value) == "19"
	})
	want(t, "earliest offset", c.ListOffset(topic, 0, -2).Offset, 0)
	refused := batchOf("without a key")
	want(t, "a record without a key", c.Produce(topic, 0, refused.Encode()).ErrorCode, errInvalidRecord)
}
