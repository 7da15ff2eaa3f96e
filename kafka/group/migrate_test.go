package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
	"millrace/kafka/group/consumer"
)

// mixedHistories is how many lives of a group of both protocols TestMixedHistories runs.
const mixedHistories = 10_000

// oneTopic is a view with one topic that grows.
type oneTopic struct{ partitions int32 }

func (o *oneTopic) Topic(name string) (consumer.Topic, bool) {
	return consumer.Topic{ID: historyTopic, Name: "t", Partitions: o.partitions}, name == "t"
}

func (o *oneTopic) TopicByID(id model.TopicID) (consumer.Topic, bool) {
	return consumer.Topic{ID: historyTopic, Name: "t", Partitions: o.partitions}, id == historyTopic
}

// mixed is a coordinator with clients of both protocols in one group: members come, go, pause, crash and lose answers,
// proposals fail, the broker starts again, the topic grows. It demands at all times that no partition is in the hands
// of two members, that nothing is told that is not kept, that acknowledged offsets are kept; and in the end, left in
// peace, that each partition is in the hands of one.
type mixed struct {
	seed    uint64
	rnd     *rand.Rand
	topics  *oneTopic
	store   *Store
	c       *Coordinator
	now     Now
	ids     int
	failing bool
	clients []*mixedClient
	command []byte
	upTo    uint64
	last    int64
	moved   int // how often the group changed its protocol
	modern  bool
	fault   string
}

// mixedClient is a member as its user sees it.
type mixedClient struct {
	w      *mixed
	modern bool
	life   int
	id     string
	epoch  int32 // or generation
	waits  bool  // for an answer
	in     bool
	lost   bool           // an answer: it says everything again
	told   map[int32]bool // what it is assigned
	held   map[int32]bool // what it works on: what it was told, and what it has not given up yet
	paused int
	next   func() // what it does with its next turn
}

func newMixed(seed uint64) *mixed {
	w := &mixed{seed: seed, rnd: rand.New(rand.NewPCG(seed, 2)), topics: &oneTopic{partitions: 3}, store: NewStore(), failing: true,
		now: Now{Unix: 1_000_000}}
	config := consumer.DefaultConfig()
	config.SessionTimeout, config.HeartbeatInterval, config.AssignmentInterval = 10*time.Second, time.Second, time.Duration(w.rnd.IntN(2))*time.Second
	w.c = New(Options{SessionTimeoutMin: time.Second, SessionTimeoutMax: time.Minute, MembersMax: 10, OffsetMetadataMax: 10,
		OffsetsRetention: 1000 * time.Hour, OffsetsCheck: 1000 * time.Hour, Topics: w.topics,
		ConsumerConfig: func(string) consumer.Config { return config },
		NewID:          func() string { w.ids++; return "m" + strconv.Itoa(w.ids) }}, w.store, w.now)
	for n := range 2 + w.rnd.IntN(3) {
		w.clients = append(w.clients, &mixedClient{w: w, modern: n == 0 || w.rnd.IntN(2) == 0})
	}
	return w
}

func (w *mixed) fail(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
	}
}

// forget is what a client does that starts anew.
func (cl *mixedClient) forget() {
	cl.life++
	cl.id, cl.epoch, cl.waits, cl.in, cl.told, cl.held, cl.next = "", 0, false, false, nil, nil, nil
}

// answered wraps the handling of an answer, which comes with a later turn and never to a client that forgot.
func (cl *mixedClient) answered(f func(kmsg.Response)) Reply {
	life := cl.life
	cl.waits = true
	return func(r kmsg.Response) {
		if life == cl.life {
			cl.next = func() { f(r) }
		}
	}
}

// take notes what the member is assigned: what is new it works on at once.
func (cl *mixedClient) take(partitions map[int32]bool) {
	cl.told = partitions
	if cl.held == nil {
		cl.held = map[int32]bool{}
	}
	for p := range partitions {
		cl.held[p] = true
	}
	cl.w.check()
}

// check looks for partitions in two hands. Who is not in the group any more does not count: it will hear so.
func (w *mixed) check() {
	hands := map[int32]*mixedClient{}
	for _, cl := range w.clients {
		if !w.member(cl) {
			continue
		}
		for p := range cl.held {
			if hands[p] != nil {
				w.fail("partition %d is in the hands of %s and %s", p, hands[p].id, cl.id)
			}
			hands[p] = cl
		}
	}
}

func (w *mixed) member(cl *mixedClient) bool {
	if g := w.c.consumers["g"]; g != nil {
		_, ok := g.State().Member(cl.id)
		return ok
	}
	if g := w.c.groups["g"]; g != nil {
		return g.byID[cl.id] != nil && g.generation == cl.epoch
	}
	return false
}

func (cl *mixedClient) act() {
	w := cl.w
	if cl.paused > 0 {
		cl.paused--
		return
	}
	if w.failing {
		switch w.rnd.IntN(60) {
		case 0:
			cl.forget()
			return
		case 1:
			cl.paused = w.rnd.IntN(30)
			return
		case 2:
			cl.leave()
			return
		case 3: // is started again with the other protocol
			cl.forget()
			cl.modern = !cl.modern
			return
		}
	}
	switch {
	case cl.next != nil:
		next := cl.next
		cl.next, cl.waits = nil, false
		next()
	case cl.waits:
	case cl.modern:
		cl.beat()
	case !cl.in:
		cl.join()
	default:
		cl.heartbeat()
	}
	if cl.in && !cl.waits && w.rnd.IntN(4) == 0 {
		cl.commit()
	}
}

func (cl *mixedClient) beat() {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group = 1, "g"
	if !cl.in {
		cl.forget()
		cl.w.ids++
		cl.id = "c" + strconv.Itoa(cl.w.ids)
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 8000, []string{"t"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	} else if cl.lost {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 8000, []string{"t"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: historyTopic, Partitions: slices.Sorted(maps.Keys(cl.held))}}
	} else if cl.w.rnd.IntN(3) > 0 { // gives up what it must, and says so
		cl.held = maps.Clone(cl.told)
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: historyTopic, Partitions: slices.Sorted(maps.Keys(cl.told))}}
	}
	req.MemberID, req.MemberEpoch = cl.id, cl.epoch
	cl.w.c.ConsumerHeartbeat(cl.w.now, req, Client{ID: "c", Host: "/h"}, cl.answered(func(r kmsg.Response) {
		resp := r.(*kmsg.ConsumerGroupHeartbeatResponse)
		if resp.ErrorCode != 0 {
			if resp.ErrorCode != kerr.NotCoordinator.Code || !cl.in {
				cl.forget()
			}
			cl.lost = true
			return
		}
		cl.in, cl.epoch, cl.lost = true, resp.MemberEpoch, false
		if resp.Assignment != nil {
			partitions := map[int32]bool{}
			for _, t := range resp.Assignment.Topics {
				for _, p := range t.Partitions {
					partitions[p] = true
				}
			}
			cl.take(partitions)
		}
	}))
}

func (cl *mixedClient) join() {
	cl.told, cl.held = nil, nil
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 9, "g", cl.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 8_000
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"t"}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta.AppendTo(nil)}}
	cl.w.c.Join(cl.w.now, req, Client{ID: "c", Host: "/h"}, cl.answered(func(r kmsg.Response) {
		resp := r.(*kmsg.JoinGroupResponse)
		switch resp.ErrorCode {
		case 0:
			cl.id, cl.epoch = resp.MemberID, resp.Generation
			cl.sync(resp)
		case kerr.MemberIDRequired.Code:
			cl.id = resp.MemberID
		case kerr.NotCoordinator.Code, kerr.RebalanceInProgress.Code:
		default:
			cl.forget()
		}
	}))
}

func (cl *mixedClient) sync(joined *kmsg.JoinGroupResponse) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 5, "g", cl.id, cl.epoch
	req.ProtocolType, req.Protocol = joined.ProtocolType, joined.Protocol
	for i, m := range joined.Members {
		a := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t"}}}
		for p := int32(i); p < cl.w.topics.partitions; p += int32(len(joined.Members)) {
			a.Topics[0].Partitions = append(a.Topics[0].Partitions, p)
		}
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: a.AppendTo(nil)})
	}
	cl.w.c.Sync(cl.w.now, req, cl.answered(func(r kmsg.Response) {
		resp := r.(*kmsg.SyncGroupResponse)
		switch resp.ErrorCode {
		case 0:
			var a kmsg.ConsumerMemberAssignment
			partitions := map[int32]bool{}
			if len(resp.MemberAssignment) > 0 {
				if err := a.ReadFrom(resp.MemberAssignment); err != nil {
					cl.w.fail("assignment: %v", err)
				}
			}
			for _, t := range a.Topics {
				for _, p := range t.Partitions {
					partitions[p] = true
				}
			}
			cl.in = true
			cl.take(partitions)
		case kerr.NotCoordinator.Code, kerr.RebalanceInProgress.Code:
		default:
			cl.forget()
		}
	}))
}

func (cl *mixedClient) heartbeat() {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = "g", cl.id, cl.epoch
	cl.w.c.Heartbeat(cl.w.now, req, cl.answered(func(r kmsg.Response) {
		switch code := r.(*kmsg.HeartbeatResponse).ErrorCode; code {
		case 0:
			if len(cl.w.clients) > 0 && cl.grown() {
				cl.in = false
			}
		case kerr.NotCoordinator.Code:
		case kerr.RebalanceInProgress.Code:
			cl.in = false
		default:
			cl.forget()
		}
	}))
}

// grown tells whether the leader of a classic group sees that the topic has grown since it divided it.
func (cl *mixedClient) grown() bool {
	g := cl.w.c.groups["g"]
	if g == nil || g.leader != cl.id {
		return false
	}
	assigned := 0
	for _, o := range cl.w.clients {
		if cl.w.member(o) {
			assigned += len(o.told)
		}
	}
	return g.state == stable && assigned != int(cl.w.topics.partitions) && cl.w.rnd.IntN(10) == 0
}

func (cl *mixedClient) leave() {
	if !cl.in {
		return
	}
	if cl.modern {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", cl.id, -1
		cl.w.c.ConsumerHeartbeat(cl.w.now, req, Client{}, func(kmsg.Response) {})
	} else {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group, req.Members = 5, "g", []kmsg.LeaveGroupRequestMember{{MemberID: cl.id}}
		cl.w.c.Leave(cl.w.now, req, func(kmsg.Response) {})
	}
	cl.forget()
}

func (cl *mixedClient) commit() {
	w := cl.w
	req := &Commit{Group: "g", MemberID: cl.id, Generation: cl.epoch, Version: 9, Retention: -1}
	for p := range cl.told {
		w.last++
		req.Offsets = append(req.Offsets, CommitOffset{Topic: historyTopic, Name: "t", Partition: p, Offset: w.last, LeaderEpoch: -1})
	}
	w.c.Commit(w.now, req, func(codes []int16) {
		for i, code := range codes {
			if o := &req.Offsets[i]; code == 0 {
				if kept, ok := w.store.Offset("g", historyTopic, o.Partition); !ok || kept.Offset < o.Offset {
					w.fail("offset %d of partition %d was acknowledged, %v is kept", o.Offset, o.Partition, kept)
				}
			}
		}
	})
}

// replicate is a turn of the log.
func (w *mixed) replicate() {
	if w.command == nil {
		w.command, w.upTo = w.c.Take(nil)
		return
	}
	command := w.command
	w.command = nil
	failed := w.failing && w.rnd.IntN(40) == 0
	if !failed || w.rnd.IntN(2) == 0 {
		if _, err := w.store.Apply(command); err != nil {
			w.fail("apply: %v", err)
		}
	}
	if failed {
		w.c.Lost(w.now)
		return
	}
	w.c.Applied(w.upTo)
}

func (w *mixed) turn() {
	jump := time.Duration(w.rnd.IntN(500)) * time.Millisecond
	if w.failing {
		switch w.rnd.IntN(200) {
		case 0:
			w.now.Unix += int64(w.rnd.IntN(7_200_000) - 3_600_000)
		case 1:
			w.topics.partitions++
			w.c.TopicsChanged()
		case 2: // the broker starts again
			w.command = nil
			kept, err := w.store.Snapshot(nil)
			if err = firstOf(err, w.store.Restore(kept)); err != nil {
				w.fail("restore: %v", err)
			}
			w.c.Lost(w.now)
		}
	}
	w.now.Monotonic += jump
	w.now.Unix += jump.Milliseconds()
	for _, cl := range w.clients {
		if w.rnd.IntN(2) == 0 {
			cl.act()
		}
	}
	w.c.Tick(w.now)
	w.replicate()
	w.check()
	if w.c.groups["g"] != nil && w.c.consumers["g"] != nil {
		w.fail("the group is of both protocols")
	}
	if modern := w.c.consumers["g"] != nil; modern != w.modern {
		w.modern = modern
		w.moved++
	}
}

// settled tells whether each partition is in the hands of one member that is in the group.
func (w *mixed) settled() bool {
	held := 0
	for _, cl := range w.clients {
		if !cl.in || !w.member(cl) {
			return false
		}
		held += len(cl.held)
	}
	return held == int(w.topics.partitions) && w.command == nil && len(w.c.changes) == 0
}

func (w *mixed) run() {
	for range 60 + w.rnd.IntN(100) {
		if w.turn(); w.fault != "" {
			return
		}
	}
	w.failing = false
	for range 800 {
		if w.turn(); w.fault != "" {
			return
		}
		if w.settled() {
			w.compare()
			return
		}
	}
	w.fail("not all of %d partitions are in somebody's hands in the end", w.topics.partitions)
	for _, cl := range w.clients {
		w.fault += fmt.Sprintf("\n%s: modern %v, in %v, member %v, epoch %d, waits %v, told %v, holds %v", cl.id, cl.modern, cl.in, w.member(cl), cl.epoch, cl.waits, cl.told, cl.held)
	}
}

// compare holds the group in memory against what is kept of it.
func (w *mixed) compare() {
	for _, k := range w.store.all() {
		g := w.c.consumers[k.id]
		if (k.consumer != nil) != (g != nil) {
			w.fail("in memory the group is %v, kept is %v", g, k)
			return
		}
		if g == nil {
			continue
		}
		kept := &consumer.State{}
		for _, c := range k.consumer {
			if err := kept.Apply(c); err != nil {
				w.fail("kept: %v", err)
			}
		}
		if !kept.Equal(g.State()) {
			w.fail("what is kept of the group is not what is in memory")
		}
	}
	members := 0
	for _, g := range w.c.groups {
		members += len(g.members) + len(g.pending)
	}
	for _, g := range w.c.consumers {
		members += g.State().Members()
	}
	if members != w.c.members {
		w.fail("%d members are counted, %d are there", w.c.members, members)
	}
}

func TestMixedHistories(t *testing.T) {
	first, n := rand.Uint64()>>1, mixedHistories
	if text := os.Getenv("MILLRACE_TEST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = seed, 1
	}
	if testing.Short() || raceEnabled {
		n /= 10
	}
	moved := 0
	for seed := first; seed < first+uint64(n); seed++ {
		w := newMixed(seed)
		w.run()
		if w.fault != "" {
			t.Fatalf("%s\nrepeat with: MILLRACE_TEST_SEED=%d go test -run TestMixedHistories ./kafka/group", w.fault, seed)
		}
		moved += w.moved
	}
	t.Logf("the group changed its protocol %d times in %d histories", moved, n)
	if n > 1 && moved < n {
		t.Error("nothing happened")
	}
}
