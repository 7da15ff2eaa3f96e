package broker_test

import (
	"testing"
	"time"

	"millrace/bench/proc"
	"millrace/cmd/broker/brokertest"
)

// BenchmarkManyPartitions makes ten topics of 1,000 partitions each, writes a record to each partition, reads the
// metrics, and kills the broker. It tells the time until the topics were made, the anonymous memory, the processor time
// of a read of the metrics, and the time until the broker was ready again, also when it was killed right after the topics were
// deleted.
func BenchmarkManyPartitions(b *testing.B) {
	if brokertest.Outside() != "" {
		b.Skip("kills a broker of its own")
	}
	const topics, partitions = 10, 1000
	sum := map[string]float64{}
	for range b.N {
		broker := brokertest.Start(b, nil)
		began := time.Now()
		made := make([]brokertest.Topic, topics)
		for i := range made {
			made[i] = broker.NewTopic(b, partitions, nil)
		}
		sum["s-made"] += time.Since(began).Seconds()
		c := brokertest.Dial(b, broker.Addr)
		for _, topic := range made {
			fillPartitions(b, c, topic, partitions)
		}
		used := func() time.Duration {
			p, err := proc.Open(broker.Pid)
			if err != nil {
				b.Fatal(err)
			}
			u, err := p.Usage()
			if err != nil {
				b.Fatal(err)
			}
			return u.CPU
		}
		const reads = 10
		before := used()
		for range reads {
			metricsOf(b, broker)
		}
		sum["cpu-ms/metrics"] += float64((used() - before).Milliseconds()) / reads
		sum["MiB"] += float64(residentBytes(b, broker)) / (1 << 20)
		restart := func() float64 {
			broker.Kill(b)
			began := time.Now()
			broker.Restart(b)
			return time.Since(began).Seconds()
		}
		sum["s-ready"] += restart()
		names := make([]string, topics)
		for i, topic := range made {
			names[i] = topic.Name
		}
		brokertest.Dial(b, broker.Addr).Request(brokertest.DeleteTopicsRequest(names...), 5)
		sum["s-ready-deleted"] += restart()
		broker.End()
	}
	for unit, total := range sum {
		b.ReportMetric(total/float64(b.N), unit)
	}
}
