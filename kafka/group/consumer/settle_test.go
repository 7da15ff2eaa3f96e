package consumer

import (
	"fmt"
	"testing"
	"time"
)

// settleAll lets members join a group of one topic and heartbeat in rounds until all is assigned. It returns
// the rounds that it took after the joins.
func settleAll(w *world, members int) int {
	epochs := make([]int32, members)
	held := make([][]int32, members)
	take := func(i int, reset bool) {
		req := beat(fmt.Sprintf("m%04d", i), epochs[i])
		if !reset {
			delta(req)
			owns(w, "t", held[i]...)(req)
		}
		resp, o, err := w.g.Heartbeat(w.now, Client{ID: "client", Host: "/1"}, req)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range o.Changes {
			if err := w.stored.Apply(c); err != nil {
				w.t.Fatal(err)
			}
		}
		epochs[i] = resp.MemberEpoch
		if resp.Assignment != nil {
			held[i] = nil
			for _, t := range resp.Assignment.Topics {
				held[i] = t.Partitions
			}
		}
	}
	for i := range members {
		take(i, true)
	}
	for round := 1; ; round++ {
		w.now = w.now.Add(time.Second)
		for i := range members {
			take(i, false)
		}
		if w.g.Phase() == PhaseStable {
			return round
		}
		if round > 10 {
			w.t.Fatalf("%s after %d rounds", w.g.Phase(), round)
		}
	}
}

func TestSettlesWithinThreeHeartbeats(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Second} {
		w := newWorld(t, newTopics("t", 1000), func(c *Config) { c.AssignmentInterval = interval })
		if rounds := settleAll(w, 100); rounds > 3 {
			t.Errorf("100 members with 1000 partitions took %d heartbeats", rounds)
		}
		w.compare()
	}
}

// BenchmarkSettle is a group from its first join to the end of all revocations.
func BenchmarkSettle(b *testing.B) {
	for _, interval := range []time.Duration{0, time.Second} {
		b.Run(fmt.Sprintf("members=100/partitions=1000/interval=%v", interval), func(b *testing.B) {
			for b.Loop() {
				settleAll(newWorld(b, newTopics("t", 1000), func(c *Config) { c.AssignmentInterval = interval }), 100)
			}
		})
	}
}

// BenchmarkHeartbeat is what the members of a settled group cost.
func BenchmarkHeartbeat(b *testing.B) {
	for _, members := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			w := newWorld(b, newTopics("t", members), func(c *Config) { c.AssignmentInterval = time.Second })
			settleAll(w, members)
			req := beat("m0000", w.g.state.members["m0000"].Epoch, delta)
			client := Client{ID: "client", Host: "/1"}
			b.ReportAllocs()
			for b.Loop() {
				if _, o, err := w.g.Heartbeat(w.now, client, req); err != nil || len(o.Changes) > 0 {
					b.Fatal(err, o.Changes)
				}
			}
		})
	}
}
