package consumer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// beat makes a full heartbeat; edit changes it.
func beat(id string, epoch int32, edit ...func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", id, epoch
	req.RebalanceTimeoutMillis = 30_000
	req.SubscribedTopicNames = []string{"t"}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, f := range edit {
		f(req)
	}
	return req
}

// delta is a heartbeat that only says that the member is there.
func delta(req *kmsg.ConsumerGroupHeartbeatRequest) {
	req.RebalanceTimeoutMillis, req.SubscribedTopicNames, req.Topics = -1, nil, nil
}

func instance(id string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.InstanceID = &id }
}

func regexOf(expr string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.SubscribedTopicNames, req.SubscribedTopicRegex = nil, &expr
	}
}

func owns(w *world, topic string, partitions ...int32) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: w.topics.byName[topic].ID, Partitions: partitions})
	}
}

func (w *world) beat(req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	w.t.Helper()
	resp, o, err := w.g.Heartbeat(w.now, Client{ID: "client", Host: "/1"}, req)
	if err != nil {
		w.t.Fatalf("heartbeat of %s at %d: %v", req.MemberID, req.MemberEpoch, err)
	}
	w.settle(o)
	w.compare()
	return resp
}

func (w *world) refused(req *kmsg.ConsumerGroupHeartbeatRequest, want error) {
	w.t.Helper()
	_, o, err := w.g.Heartbeat(w.now, Client{}, req)
	if !errors.Is(err, want) || len(o.Changes) > 0 {
		w.t.Errorf("heartbeat of %s at %d: %v with %d changes, want %v", req.MemberID, req.MemberEpoch, err, len(o.Changes), want)
	}
	if code, message := CodeOf(err); code != want.(*kerr.Error).Code || message == "" {
		w.t.Errorf("code %d, message %q", code, message)
	}
	w.compare()
}

// given is the assignment of a reply, as t-0 t-1, or "unchanged".
func (w *world) given(resp *kmsg.ConsumerGroupHeartbeatResponse) string {
	if resp.Assignment == nil {
		return "unchanged"
	}
	var list []string
	for _, t := range resp.Assignment.Topics {
		topic, _ := w.topics.TopicByID(t.TopicID)
		for _, p := range t.Partitions {
			list = append(list, fmt.Sprintf("%s-%d", topic.Name, p))
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (w *world) want(resp *kmsg.ConsumerGroupHeartbeatResponse, epoch int32, given string) {
	w.t.Helper()
	if resp.MemberEpoch != epoch || w.given(resp) != given {
		w.t.Errorf("reply at epoch %d gives %q, want epoch %d with %q", resp.MemberEpoch, w.given(resp), epoch, given)
	}
}

func TestH01InvalidRequests(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	f := func(epoch int32, edit func(*kmsg.ConsumerGroupHeartbeatRequest)) {
		t.Helper()
		w.refused(beat("a", epoch, edit), kerr.InvalidRequest)
	}
	type r = kmsg.ConsumerGroupHeartbeatRequest
	empty := ""
	f(0, func(req *r) { req.RebalanceTimeoutMillis = -1 })
	f(0, owns(w, "t", 0))
	f(0, func(req *r) { req.Topics = nil })
	f(0, func(req *r) { req.SubscribedTopicNames = nil })
	f(0, func(req *r) { req.Group = "" })
	f(0, func(req *r) { req.InstanceID = &empty })
	f(0, func(req *r) { req.RackID = &empty })
	f(-3, func(*r) {})
	f(-2, func(*r) {})
	f(0, func(req *r) { req.MemberID = "" })
	f(1, func(req *r) { req.Version, req.MemberID = 0, "" })
	f(-1, func(req *r) { req.Version, req.MemberID = 0, "" })
	f(0, func(req *r) { req.MemberID = strings.Repeat("x", stringBytesMax+1) })
	f(0, func(req *r) { req.SubscribedTopicNames = make([]string, topicNamesMax+1) })
	if w.g.state.Exists() {
		t.Error("a refused request made the group")
	}
}

func TestVersion0MakesMemberID(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	resp := w.beat(beat("", 0, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.Version = 0 }))
	if *resp.MemberID != "made-1" || resp.HeartbeatIntervalMillis != 5000 {
		t.Errorf("%+v", resp)
	}
	w.want(resp, 2, "t-0 t-1")
}

func TestH02UnknownAssignor(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	name := "sticky"
	w.refused(beat("a", 0, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.ServerAssignor = &name }), kerr.UnsupportedAssignor)
	name = "range"
	w.beat(beat("a", 0, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.ServerAssignor = &name }))
	if d := w.g.Describe(); d.AssignorName != "range" {
		t.Errorf("assignor %s", d.AssignorName)
	}
}

func TestH03Epochs(t *testing.T) {
	w := newWorld(t, newTopics("t", 2, "u", 1))
	w.refused(beat("a", 2), kerr.UnknownMemberID)
	w.want(w.beat(beat("a", 0)), 2, "t-0 t-1")
	w.topics.grow("t", 1)
	w.g.TopicsChanged()
	w.want(w.beat(beat("a", 2, owns(w, "t", 0, 1))), 3, "t-0 t-1 t-2")
	w.refused(beat("a", 4), kerr.FencedMemberEpoch)
	w.want(w.beat(beat("a", 2, owns(w, "t", 0, 1))), 3, "t-0 t-1 t-2") // the reply was lost
	w.refused(beat("a", 2, owns(w, "t", 0, 9)), kerr.FencedMemberEpoch)
	w.refused(beat("a", 2, owns(w, "u", 0)), kerr.FencedMemberEpoch)
	w.refused(beat("a", 2, delta), kerr.FencedMemberEpoch)
	w.topics.grow("t", 1)
	w.g.TopicsChanged()
	w.beat(beat("a", 3, owns(w, "t", 0, 1, 2)))
	w.refused(beat("a", 2), kerr.FencedMemberEpoch)
	w.want(w.beat(beat("a", 0)), 4, "t-0 t-1 t-2 t-3") // from the start
}

func TestH04StaticMembers(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	w.want(w.beat(beat("a", 0, instance("i"))), 2, "t-0 t-1")
	w.refused(beat("b", 0, instance("i")), kerr.UnreleasedInstanceID)
	w.want(w.beat(beat("a", 0, instance("i"))), 2, "t-0 t-1") // it asks again itself
	w.refused(beat("b", 2, instance("i")), kerr.FencedInstanceID)
	w.refused(beat("b", 2, instance("other")), kerr.UnknownMemberID)
	resp := w.beat(beat("a", -2, instance("i")))
	w.want(resp, -2, "unchanged")
	w.refused(beat("a", 2, instance("i"), delta), kerr.FencedMemberEpoch)
	w.want(w.beat(beat("b", 0, instance("i"))), 2, "t-0 t-1")
	w.refused(beat("a", 2, instance("i")), kerr.FencedInstanceID)
	w.refused(beat("a", -1, instance("i")), kerr.FencedInstanceID)
	w.refused(beat("a", -1), kerr.UnknownMemberID)
	w.beat(beat("b", -1, instance("i")))
	if w.g.Phase() != PhaseEmpty || w.g.state.epoch != w.g.state.targetEpoch {
		t.Errorf("phase %s at %d, target %d", w.g.Phase(), w.g.state.epoch, w.g.state.targetEpoch)
	}
}

func TestStaticMemberStaysAwayTooLong(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	w.beat(beat("a", 0, instance("i")))
	w.beat(beat("a", -2, instance("i")))
	w.now = w.now.Add(45 * time.Second)
	o := w.g.Expire(w.now)
	w.settle(o)
	if !slices.Equal(o.Removed, []string{"a"}) || !w.g.IsEmpty() {
		t.Errorf("removed %v", o.Removed)
	}
}

// TestH05Reconciliation walks through one revocation, step by step.
func TestH05Reconciliation(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	w.want(w.beat(beat("a", 0)), 2, "t-0 t-1")
	w.want(w.beat(beat("b", 0)), 3, "")                                  // waits for a
	w.want(w.beat(beat("a", 2, delta)), 2, "t-0")                        // told to give up t-1
	w.want(w.beat(beat("b", 3, delta)), 3, "unchanged")                  // still waits
	w.want(w.beat(beat("a", 2, owns(w, "t", 0, 1))), 2, "t-0")           // not done yet
	w.want(w.beat(beat("a", 2, delta, owns(w, "t", 0))), 3, "unchanged") // done
	w.want(w.beat(beat("b", 3, delta)), 3, "t-1")
	if w.g.Phase() != PhaseStable {
		t.Errorf("phase %s", w.g.Phase())
	}
}

func TestH06FullAndDelta(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	w.beat(beat("a", 0))
	w.want(w.beat(beat("a", 2, owns(w, "t", 0, 1))), 2, "t-0 t-1")
	w.want(w.beat(beat("a", 2, delta)), 2, "unchanged")
	w.want(w.beat(beat("a", 2, delta, owns(w, "t", 0, 1))), 2, "unchanged")
	if _, o, _ := w.g.Heartbeat(w.now, Client{ID: "client", Host: "/1"}, beat("a", 2, delta)); len(o.Changes) > 0 {
		t.Errorf("a heartbeat without news changes %v", o.Changes)
	}
}

func TestH07Offsets(t *testing.T) {
	w := newWorld(t, newTopics("t", 1))
	s := w.g.state
	id := w.topics.byName["t"].ID
	f := func(member string, epoch int32, version int16, partition int32, want error) {
		t.Helper()
		c, err := s.CheckCommit(member, nil, epoch, false, version)
		if err == nil {
			err = c.Partition(id, partition)
		}
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("commit of %s at %d, version %d: %v, want %v", member, epoch, version, err, want)
		}
	}
	f("", -1, 8, 0, nil) // no group
	w.beat(beat("a", 0))
	w.topics.grow("t", 1)
	w.g.TopicsChanged()
	w.beat(beat("a", 2, owns(w, "t", 0)))
	f("a", 3, 9, 0, nil)
	f("a", 2, 9, 0, nil) // had it at epoch 1 already
	f("a", 2, 9, 1, kerr.StaleMemberEpoch)
	f("a", 0, 9, 0, kerr.StaleMemberEpoch)
	f("a", 3, 9, 7, nil)
	f("a", 2, 9, 7, kerr.StaleMemberEpoch)
	f("a", 4, 9, 0, kerr.StaleMemberEpoch)
	f("a", 3, 8, 0, kerr.UnsupportedVersion)
	f("b", 3, 9, 0, kerr.UnknownMemberID)
	f("", -1, 9, 0, kerr.UnknownMemberID)
	if _, err := s.CheckCommit("", nil, -1, true, 3); err != nil {
		t.Errorf("transaction without a member: %v", err)
	}
	g := func(member *string, epoch int32, want error) {
		t.Helper()
		if err := s.CheckFetch(member, epoch); want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("fetch at %d: %v, want %v", epoch, err, want)
		}
	}
	a, b := "a", "b"
	g(nil, -1, nil)
	g(&a, 3, nil)
	g(&a, 2, kerr.StaleMemberEpoch)
	g(&b, 2, kerr.UnknownMemberID)
	g(nil, 2, kerr.UnknownMemberID)
}

func TestH08Regex(t *testing.T) {
	w := newWorld(t, newTopics("orders-1", 1, "t", 1))
	w.refused(beat("a", 0, regexOf("orders-[")), kerr.InvalidRegularExpression)
	w.refused(beat("a", 0, regexOf("a)(b")), kerr.InvalidRegularExpression)
	w.refused(beat("a", 0, regexOf(strings.Repeat("x", regexBytesMax+1))), kerr.InvalidRegularExpression)
	w.want(w.beat(beat("a", 0, regexOf("orders-.*"))), 2, "orders-1-0")
	w.topics.create("orders-2", 1)
	w.topics.create("my-orders-2", 1) // the whole name must match
	w.g.TopicsChanged()
	w.now = w.now.Add(11 * time.Second)
	w.want(w.beat(beat("a", 2, delta)), 3, "orders-1-0 orders-2-0")
	if !w.g.state.Subscribed("orders-2") || w.g.state.Subscribed("t") {
		t.Error("wrong topics count as subscribed")
	}
	if d := w.g.Describe(); *d.Members[0].SubscribedTopicRegex != "orders-.*" {
		t.Errorf("%+v", d)
	}
	delete(w.topics.byName, "orders-1")
	w.g.TopicsChanged()
	w.now = w.now.Add(11 * time.Second)
	w.want(w.beat(beat("a", 3, delta)), 3, "orders-2-0")
	// The subscription moves to a name; the expression goes with its last subscriber.
	none := ""
	w.beat(beat("a", 3, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.SubscribedTopicRegex = &none }))
	if len(w.g.state.regexes) > 0 || w.g.state.Subscribed("orders-2") {
		t.Errorf("expressions left: %v", w.g.state.regexes)
	}
}

func TestRegexesAreBounded(t *testing.T) {
	w := newWorld(t, newTopics("t", 1))
	for i := range regexesMax {
		w.beat(beat(fmt.Sprint("m", i), 0, regexOf(fmt.Sprint("x", i))))
	}
	w.refused(beat("n", 0, regexOf("y")), kerr.InvalidRegularExpression)
	w.beat(beat("n", 0, regexOf("x1")))
}

func TestH10Timeouts(t *testing.T) {
	w := newWorld(t, newTopics("t", 2), func(c *Config) { c.SessionTimeout = 10 * time.Second })
	w.beat(beat("a", 0))
	w.beat(beat("b", 0))
	w.beat(beat("a", 2, delta))
	w.now = w.now.Add(9 * time.Second)
	if o := w.g.Expire(w.now); len(o.Removed) > 0 {
		t.Errorf("removed %v early", o.Removed)
	}
	w.beat(beat("a", 2, delta))
	w.now = w.now.Add(2 * time.Second)
	if end, ok := w.g.Deadline(); !ok || end.After(w.now) {
		t.Errorf("deadline %v, now %v", end, w.now)
	}
	o := w.g.Expire(w.now) // b was silent
	w.settle(o)
	if !slices.Equal(o.Removed, []string{"b"}) {
		t.Errorf("removed %v, want b", o.Removed)
	}
	w.beat(beat("b", 0))
	for range 4 { // a is heard of, but gives nothing up
		w.now = w.now.Add(6 * time.Second)
		w.settle(w.g.Expire(w.now))
		if _, ok := w.g.state.Member("a"); ok {
			w.beat(beat("a", 2, delta))
		}
		w.beat(beat("b", w.g.state.members["b"].Epoch, delta))
	}
	if _, ok := w.g.state.Member("a"); ok {
		t.Error("a was not removed at its rebalance timeout")
	}
	w.want(w.beat(beat("b", w.g.state.members["b"].Epoch)), w.g.state.epoch, "t-0 t-1")
	w.refused(beat("a", 2, delta), kerr.UnknownMemberID)
}

func TestGroupIsFull(t *testing.T) {
	w := newWorld(t, newTopics("t", 2), func(c *Config) { c.MembersMax = 1 })
	w.beat(beat("a", 0, instance("i")))
	w.refused(beat("b", 0), kerr.GroupMaxSizeReached)
	w.beat(beat("a", -2, instance("i")))
	w.beat(beat("b", 0, instance("i"))) // in the place of another
}

func TestAssignmentInterval(t *testing.T) {
	w := newWorld(t, newTopics("t", 2), func(c *Config) { c.AssignmentInterval = time.Second })
	w.want(w.beat(beat("a", 0)), 2, "t-0 t-1")
	w.want(w.beat(beat("b", 0)), 2, "")
	if w.g.Phase() != PhaseAssigning {
		t.Errorf("phase %s", w.g.Phase())
	}
	w.now = w.now.Add(time.Second)
	w.want(w.beat(beat("b", 2, delta)), 3, "unchanged")
	w.want(w.beat(beat("a", 2, delta)), 2, "t-0")
}

func TestAssignorChange(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	w.beat(beat("a", 0))
	name := "range"
	w.beat(beat("a", 2, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.ServerAssignor = &name }))
	if w.g.state.epoch != 3 {
		t.Errorf("epoch %d after the assignor changed", w.g.state.epoch)
	}
}

func TestNewTopicAppears(t *testing.T) {
	w := newWorld(t, newTopics())
	w.want(w.beat(beat("a", 0)), 2, "")
	w.topics.create("t", 2)
	w.want(w.beat(beat("a", 2, delta)), 2, "unchanged")
	w.g.TopicsChanged()
	w.want(w.beat(beat("a", 2, delta)), 3, "t-0 t-1")
	w.topics.create("t", 1) // deleted and created again
	w.g.TopicsChanged()
	w.beat(beat("a", 3, delta))
	w.want(w.beat(beat("a", 3, delta, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	})), 4, "t-0")
}

func TestDelete(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	w.beat(beat("a", 0))
	if err := w.g.ValidateDelete(); !errors.Is(err, kerr.NonEmptyGroup) {
		t.Error(err)
	}
	w.beat(beat("a", -1))
	if err := w.g.ValidateDelete(); err != nil {
		t.Error(err)
	}
	w.settle(Outcome{Changes: w.g.Delete()})
	w.compare()
	if w.stored.Exists() || len(w.stored.Changes()) > 0 {
		t.Error("something is left of the group")
	}
}

func TestUnknownStateMustStartAgain(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	w.beat(beat("a", 0))
	m := w.g.state.members["a"]
	p := m.Progress
	p.State = Unknown
	w.g.emit(CurrentAssignment{MemberID: "a", Progress: p})
	w.settle(w.g.finish())
	w.refused(beat("a", 2, delta), kerr.FencedMemberEpoch)
	w.want(w.beat(beat("a", 0)), 2, "t-0 t-1")
}
