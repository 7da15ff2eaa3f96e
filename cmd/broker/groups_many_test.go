package broker_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// listed counts the groups whose id begins so, by type and state.
func listed(c *brokertest.Conn, prefix string) map[string]int {
	counts := map[string]int{}
	for _, g := range c.Request(kmsg.NewPtrListGroupsRequest(), 5).(*kmsg.ListGroupsResponse).Groups {
		if strings.HasPrefix(g.Group, prefix) {
			counts[g.GroupType+" "+g.GroupState]++
		}
	}
	return counts
}

// inParallel calls f for 0 to n-1 on so many goroutines.
func inParallel(n, workers int, f func(worker, i int)) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				f(w, i)
			}
		})
	}
	all.Wait()
}

// Ten thousand groups of one member, half of them of each protocol, are held, also over a kill.
func TestManyGroups(t *testing.T) {
	const groups, workers = 10_000, 50
	b := startConsumers(t)
	topic := b.NewTopic(t, 1, nil)
	w := watchMemory(t, b)
	classic, modern := make([]*brokertest.Member, workers), make([]*brokertest.Consumer, workers)
	for i := range workers {
		classic[i], modern[i] = b.NewMember(t, "many", topic.Name), b.NewConsumer(t, "many", topic.Name)
		classic[i].Session = 600_000
	}
	inParallel(groups/2, workers, func(worker, i int) {
		m := classic[worker]
		m.Group, m.ID = fmt.Sprintf("many-classic-%d", i), ""
		if m.Join(); m.ID == "" || m.Join().ErrorCode != errNone || m.Sync(map[string]string{m.ID: "all"}).ErrorCode != errNone {
			t.Errorf("group %s: no member", m.Group)
		}
	})
	inParallel(groups/2, workers, func(worker, i int) {
		m := modern[worker]
		m.Group = fmt.Sprintf("many-modern-%d", i)
		if r := m.Join(); r.ErrorCode != errNone || m.Partitions() != 1 {
			t.Errorf("group %s: code %d, %d partitions", m.Group, r.ErrorCode, m.Partitions())
		}
	})
	if t.Failed() {
		return
	}
	w.grown(fmt.Sprint(groups, " groups"), 96<<20)
	whole := func() {
		t.Helper()
		counts := listed(brokertest.Dial(t, b.Addr), "many-")
		want(t, "classic groups", counts["classic Stable"], groups/2)
		want(t, "consumer groups", counts["consumer Stable"], groups/2)
	}
	whole()
	last := modern[0]
	want(t, "heartbeat", last.Beat().ErrorCode, errNone)
	if brokertest.Outside() != "" {
		return
	}
	b.Kill(t)
	b.Restart(t)
	whole()
	last.Conn = brokertest.Dial(t, b.Addr)
	want(t, "heartbeat after a kill", last.Beat().ErrorCode, errNone)
}

// One group of a thousand members of each protocol settles.
func TestGroupsOfAThousand(t *testing.T) {
	const members = 1000
	b := startConsumers(t)
	topic := b.NewTopic(t, members, nil)
	modern := make([]*brokertest.Consumer, 20)
	all := make([]*brokertest.Consumer, members)
	for i := range modern {
		modern[i] = b.NewConsumer(t, "thousand-modern", topic.Name)
	}
	inParallel(members, len(modern), func(worker, i int) {
		m := *modern[worker] // a member of its own on the same connection
		m.ID, m.Rebalance = brokertest.FreshName("member"), 600_000
		if r := m.Join(); r.ErrorCode != errNone {
			t.Errorf("join: code %d", r.ErrorCode)
		}
		all[i] = &m
	})
	if t.Failed() {
		return
	}
	settle(t, members, all...)
	for _, m := range all {
		if m.Partitions() != 1 {
			t.Fatalf("a member has %d partitions", m.Partitions())
		}
	}

	classic := make([]*brokertest.Member, members)
	waits := make([]func() *kmsg.JoinGroupResponse, members)
	for i := range classic {
		classic[i] = b.NewMember(t, "thousand-classic", topic.Name)
		classic[i].Session, classic[i].Rebalance = 600_000, 600_000
	}
	// The first one's generation begins at once. It joins again when the others wait, and all are in the next one.
	alone(t, classic[0])
	for i := 1; i < members; i++ {
		waits[i] = classic[i].Enter()
	}
	waits[0] = classic[0].Enter()
	generation := int32(0)
	for i, wait := range waits {
		r := wait()
		want(t, "join", r.ErrorCode, errNone)
		if generation = max(generation, r.Generation); r.Generation != generation {
			t.Fatalf("member %d is in generation %d of %d", i, r.Generation, generation)
		}
	}
	d := classic[0].DescribeGroup(6, "thousand-classic")
	want(t, "members", len(d.Members), members)
}
