package broker_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// BenchmarkCommits sends OffsetCommit requests of 100 groups on as many connections, one request of each under way.
func BenchmarkCommits(b *testing.B) {
	for _, fsync := range []string{"false", "true"} {
		for _, partitions := range []int32{1, 10} {
			b.Run(fmt.Sprintf("fsync=%s/partitions=%d", fsync, partitions), func(b *testing.B) { benchCommits(b, fsync, partitions) })
		}
	}
}

func benchCommits(b *testing.B, fsync string, partitions int32) {
	const groups = 100
	broker := brokertest.Start(b, map[string]string{"millrace.meta.fsync": fsync})
	topic := broker.NewTopic(b, partitions, nil)
	conns := make([]*brokertest.Conn, groups)
	requests := make([]*kmsg.OffsetCommitRequest, groups)
	due := make([]int32, groups)
	for i := range groups {
		m := broker.NewMember(b, fmt.Sprint("bench-", i))
		m.Generation = -1
		conns[i], requests[i] = m.Conn, m.CommitRequest(topic, 1, nil)
		one := requests[i].Topics[0].Partitions[0]
		for p := int32(1); p < partitions; p++ {
			one.Partition = p
			requests[i].Topics[0].Partitions = append(requests[i].Topics[0].Partitions, one)
		}
	}
	b.ResetTimer()
	for n := range b.N + groups {
		i := n % groups
		if due[i] != 0 {
			r := conns[i].Receive(requests[i], due[i]).(*kmsg.OffsetCommitResponse)
			if code := r.Topics[0].Partitions[partitions-1].ErrorCode; code != 0 {
				b.Fatalf("commit: code %d", code)
			}
			due[i] = 0
		}
		if n < b.N {
			due[i] = conns[i].Send(requests[i], 8)
		}
	}
	b.ReportMetric(float64(b.N)*float64(partitions)/b.Elapsed().Seconds(), "offsets/s")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
