package broker_test

import (
	"context"
	"fmt"
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

// TestTopicsComeAndGoUnderLoad deletes and makes topics and changes their configs while they are written and read.
func TestTopicsComeAndGoUnderLoad(t *testing.T) {
	const span = 3 * time.Second
	b := brokertest.Start(t, map[string]string{"log.segment.delete.delay.ms": "100", "auto.create.topics.enable": "false"})
	brokertest.Dial(t, b.Addr).Alive()
	goroutines, files := goroutinesOf(t, b), openFiles(t, b)
	names := []string{"come-0", "come-1", "come-2"}
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var all sync.WaitGroup
	var produced, fetched, altered, made atomic.Int64
	for range 2 {
		all.Go(func() {
			c, _ := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.RecordRetries(2), kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(50*time.Millisecond))
			defer c.Close()
			for i := 0; ctx.Err() == nil; i++ {
				c.Produce(ctx, &kgo.Record{Topic: names[i%3], Value: make([]byte, rand.IntN(5000))}, func(_ *kgo.Record, err error) {
					if err == nil {
						produced.Add(1)
					}
				})
				if i%200 == 0 {
					c.Flush(ctx)
				}
			}
		})
		all.Go(func() {
			c, _ := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumeTopics(names...), kgo.MetadataMinAge(50*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond))
			defer c.Close()
			for ctx.Err() == nil {
				fetched.Add(int64(c.PollFetches(ctx).NumRecords()))
			}
		})
	}
	all.Go(func() {
		c, _ := kgo.NewClient(kgo.SeedBrokers(b.Addr))
		defer c.Close()
		adm := kadm.NewClient(c)
		for i := 0; ctx.Err() == nil; i++ {
			name := names[rand.IntN(3)]
			if rand.IntN(2) == 0 {
				adm.DeleteTopic(ctx, name)
			}
			if _, err := adm.CreateTopic(ctx, 1+rand.Int32N(4), 1, nil, name); err == nil {
				made.Add(1)
			}
		}
	})
	all.Go(func() {
		c, _ := kgo.NewClient(kgo.SeedBrokers(b.Addr))
		defer c.Close()
		adm := kadm.NewClient(c)
		for ctx.Err() == nil {
			set := func(k, v string) kadm.AlterConfig { return kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: &v} }
			codecs := []string{"gzip", "zstd", "lz4", "snappy", "producer", "uncompressed"}
			r, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{set("compression.type", codecs[rand.IntN(6)]),
				set("segment.bytes", fmt.Sprint(1<<20+rand.IntN(1<<20))), set("retention.ms", fmt.Sprint(1+rand.IntN(1000))), set("retention.bytes", fmt.Sprint(rand.IntN(1<<22)))}, names[rand.IntN(3)])
			if err == nil && len(r) == 1 && r[0].Err == nil {
				altered.Add(1)
			}
		}
	})
	all.Wait()
	t.Logf("%d produced, %d fetched, %d topics made, %d alterations", produced.Load(), fetched.Load(), made.Load(), altered.Load())
	if log := b.LogTail(1 << 20); strings.Contains(log, "panic") || strings.Contains(log, `"level":"ERROR"`) {
		t.Error("the log tells of a fault")
	}
	brokertest.Eventually(t, "goroutines and descriptors back", func() bool {
		return goroutinesOf(t, b) <= goroutines+4 && openFiles(t, b) <= files+30
	})
	c := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("still"))
	b.Stop(t)
	b.Restart(t)
	want(t, "after a restart", len(brokertest.Dial(t, b.Addr).Records(topic, 0, 0)), 1)
}
