package broker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/cmd/broker/brokertest"
)

// BenchmarkProduceBesideCommits sends 500 requests/s of ten records of 1 KB by the clock, alone and beside 1,000
// commits/s, and tells the latency from the time that each was due.
func BenchmarkProduceBesideCommits(b *testing.B) {
	for _, commits := range []int{0, 1000} {
		b.Run(fmt.Sprintf("commits=%d", commits), func(b *testing.B) {
			broker := brokertest.Start(b, nil)
			benchProduceBeside(b, broker, func(topic brokertest.Topic, end <-chan struct{}) {
				if commits == 0 {
					return
				}
				m := broker.NewMember(b, brokertest.FreshName("beside"), "t")
				m.Generation = -1
				tick := time.NewTicker(time.Second / time.Duration(commits))
				defer tick.Stop()
				for offset := int64(0); ; offset++ {
					select {
					case <-end:
						return
					case <-tick.C:
						m.Commit(8, topic, offset, nil)
					}
				}
			})
		})
	}
}

// BenchmarkProduceBesideCompaction does so alone and while 1 GB of 100-byte records of a million keys is compacted.
func BenchmarkProduceBesideCompaction(b *testing.B) {
	for _, policy := range []string{"delete", "compact"} {
		b.Run("policy="+policy, func(b *testing.B) {
			broker := brokertest.Start(b, map[string]string{"log.cleaner.backoff.ms": "20"})
			c := brokertest.Dial(b, broker.Addr)
			keyed := broker.NewTopic(b, 1, map[string]string{"segment.bytes": "67108864", "min.cleanable.dirty.ratio": "0"})
			batch := brokertest.NewBatch(make([]brokertest.Record, 9000)...)
			for range 1000 {
				for i := range batch.Records {
					r := &batch.Records[i]
					r.Key, r.Value = fmt.Appendf(r.Key[:0], "%08d", rand.IntN(1e6)), append(r.Value[:0], make([]byte, 92)...)
				}
				c.MustProduce(keyed, 0, batch)
			}
			if code := alter(c, keyed.Name, change{"cleanup.policy", 0, &policy}); code != errNone {
				b.Fatalf("alter: code %d", code)
			}
			if policy == "compact" {
				brokertest.Eventually(b, "compaction", func() bool { return metricOf(b, broker, "millrace_engine_clean_read_bytes_total") > 0 })
			}
			benchProduceBeside(b, broker, func(brokertest.Topic, <-chan struct{}) {})
			b.ReportMetric(metricOf(b, broker, "millrace_engine_clean_read_bytes_total")/1e6, "MB-read")
		})
	}
}

// benchProduceBeside measures beside what beside does until end.
func benchProduceBeside(b *testing.B, broker *brokertest.Broker, beside func(topic brokertest.Topic, end <-chan struct{})) {
	const rate = 500
	topic := broker.NewTopic(b, 1, nil)
	producer := brokertest.Dial(b, broker.Addr)
	values := make([]string, 10)
	for i := range values {
		values[i] = strings.Repeat("v", 1000)
	}
	batch := brokertest.NewBatch(brokertest.Values(1, values...)...).Encode()
	end := make(chan struct{})
	var besides sync.WaitGroup
	besides.Go(func() { beside(topic, end) })
	took := make([]time.Duration, 0, b.N)
	b.ResetTimer()
	due := time.Now()
	for range b.N {
		due = due.Add(time.Second / rate)
		time.Sleep(time.Until(due)) // an open loop
		producer.Request(brokertest.ProduceRequest(8, -1, topic, brokertest.Part{Partition: 0, Records: batch}), 8)
		took = append(took, time.Since(due))
	}
	b.StopTimer()
	close(end)
	besides.Wait()
	slices.Sort(took)
	for _, q := range []struct {
		name string
		at   float64
	}{{"ms-p50", 0.5}, {"ms-p99", 0.99}} {
		b.ReportMetric(float64(took[int(float64(len(took)-1)*q.at)].Microseconds())/1000, q.name)
	}
}
