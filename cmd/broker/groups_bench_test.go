package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

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

// BenchmarkRebalance has a group of 100 classic members join again, and tells how long it takes from the last join to
// the last assignment.
func BenchmarkRebalance(b *testing.B) {
	const members = 100
	broker := brokertest.Start(b, map[string]string{"group.initial.rebalance.delay.ms": "0"})
	group := brokertest.FreshName("rebalance")
	all := make([]*brokertest.Member, members)
	for i := range all {
		all[i] = broker.NewMember(b, group, "t")
	}
	var took []time.Duration
	// The first generation is the first member's alone; it joins again with the rest.
	join := func(first int) {
		waits := make([]func() *kmsg.JoinGroupResponse, members)
		for i := first; i < members; i++ {
			waits[i] = all[i].Enter()
			for i == 0 && all[1].Heartbeat() == 0 {
			} // until the generation has ended: who joins before is told of it again
		}
		for i := range first {
			waits[i] = all[i].Enter()
		}
		last := time.Now()
		var leader *brokertest.Member
		for i, wait := range waits {
			r := wait()
			if r.ErrorCode != 0 {
				b.Fatalf("join: code %d", r.ErrorCode)
			}
			if r.LeaderID == r.MemberID {
				leader = all[i]
			}
		}
		assignments := map[string]string{}
		for _, m := range all {
			assignments[m.ID] = "part"
		}
		requests, correlations := make([]*kmsg.SyncGroupRequest, members), make([]int32, members)
		for i, m := range all {
			requests[i] = m.SyncRequest(nil)
			if m == leader {
				requests[i] = m.SyncRequest(assignments)
			}
			correlations[i] = m.Send(requests[i], 3)
		}
		for i, m := range all {
			if r := m.Receive(requests[i], correlations[i]).(*kmsg.SyncGroupResponse); r.ErrorCode != 0 || string(r.MemberAssignment) != "part" {
				b.Fatalf("sync: code %d, %q", r.ErrorCode, r.MemberAssignment)
			}
		}
		took = append(took, time.Since(last))
	}
	if r := all[0].Enter()(); r.ErrorCode != 0 {
		b.Fatalf("join: code %d", r.ErrorCode)
	}
	join(1)
	took = took[:0]
	b.ResetTimer()
	for range b.N {
		// Metadata that changed makes the first join begin a generation.
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Topics, meta.UserData = []string{"t"}, fmt.Append(nil, len(took))
		all[0].Metadata = meta.AppendTo(nil)
		join(0)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/rebalance")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms/slowest")
}

// BenchmarkConsumerGroupSettles has 100 members of the consumer protocol come to 1,000 partitions at once, and tells in
// how many heartbeats each has its part.
func BenchmarkConsumerGroupSettles(b *testing.B) {
	const members, partitions = 100, 1000
	broker := brokertest.Start(b, map[string]string{"group.consumer.assignment.interval.ms": "0"})
	topic := broker.NewTopic(b, partitions, nil)
	rounds, began := 0, time.Now()
	for range b.N {
		group := brokertest.FreshName("settles")
		all := make([]*brokertest.Consumer, members)
		for i := range all {
			all[i] = broker.NewConsumer(b, group, topic.Name)
			if r := all[i].Join(); r.ErrorCode != 0 {
				b.Fatalf("join: code %d", r.ErrorCode)
			}
		}
		for settled := false; !settled; rounds++ {
			settled = true
			for _, m := range all {
				if r := m.Own(); r.ErrorCode != 0 {
					b.Fatalf("heartbeat: code %d", r.ErrorCode)
				}
				settled = settled && m.Partitions() == partitions/members
			}
		}
	}
	b.ReportMetric(float64(rounds)/float64(b.N), "heartbeats/member")
	b.ReportMetric(float64(time.Since(began).Milliseconds())/float64(b.N), "ms/group")
}
