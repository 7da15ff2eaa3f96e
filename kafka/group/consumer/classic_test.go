package consumer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataOf is the metadata of a classic member of topic t; owned are partitions of it that it has.
func metadataOf(version int16, owned ...int32) []byte {
	m := kmsg.ConsumerMemberMetadata{Version: version, Topics: []string{"t"}, Generation: -1}
	if len(owned) > 0 {
		m.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "t", Partitions: owned}}
	}
	return m.AppendTo(nil)
}

func join(id string, metadata []byte, edit ...func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 9, "g", id, ProtocolType
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 20_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata}, {Name: "roundrobin", Metadata: metadata}}
	for _, f := range edit {
		f(req)
	}
	return req
}

func (w *world) join(req *kmsg.JoinGroupRequest) (*kmsg.JoinGroupResponse, Outcome) {
	w.t.Helper()
	resp, o, err := w.g.JoinGroup(w.now, Client{ID: "old", Host: "/2"}, req)
	if err != nil {
		w.t.Fatalf("join of %q: %v", req.MemberID, err)
	}
	w.settle(o)
	return resp, o
}

func (w *world) joinRefused(req *kmsg.JoinGroupRequest, want error) *kmsg.JoinGroupResponse {
	w.t.Helper()
	resp, o, err := w.g.JoinGroup(w.now, Client{}, req)
	if !errors.Is(err, want) || len(o.Changes) > 0 {
		w.t.Errorf("join of %q: %v, want %v", req.MemberID, err, want)
	}
	w.compare()
	return resp
}

// sync returns the partitions of topic t that the member is given.
func (w *world) sync(id string, generation int32, want error) []int32 {
	w.t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.MemberID, req.Generation = 5, id, generation
	resp, err := w.g.SyncGroup(w.now, req)
	if want != nil {
		if !errors.Is(err, want) {
			w.t.Errorf("sync of %s at %d: %v, want %v", id, generation, err, want)
		}
		return nil
	}
	if err != nil {
		w.t.Fatalf("sync of %s at %d: %v", id, generation, err)
	}
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(resp.MemberAssignment); err != nil {
		w.t.Fatal(err)
	}
	if len(a.Topics) == 0 {
		return nil
	}
	return a.Topics[0].Partitions
}

func (w *world) classicBeat(id string, generation int32, want error) {
	w.t.Helper()
	o, err := w.g.ClassicHeartbeat(w.now, id, nil, generation)
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		w.t.Errorf("heartbeat of %s at %d: %v, want %v", id, generation, err, want)
	}
	w.settle(o)
}

// classicPair is a classic group of two with generation 5, "a" with t-0 and "b" with t-1.
func classicPair(version int16) ClassicGroup {
	assigned := func(p int32) []byte {
		a := kmsg.ConsumerMemberAssignment{Version: version, Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{p}}, {Topic: "gone", Partitions: []int32{0}}}}
		return a.AppendTo(nil)
	}
	member := func(id string, p int32) ClassicGroupMember {
		return ClassicGroupMember{MemberID: id, ClientID: "old", ClientHost: "/2", SessionTimeout: 10 * time.Second, RebalanceTimeout: 20 * time.Second,
			Protocols: []Protocol{{Name: "range", Metadata: metadataOf(version)}}, Assignment: assigned(p)}
	}
	return ClassicGroup{Generation: 5, Protocol: "range", Members: []ClassicGroupMember{member("a", 0), member("b", 1)}}
}

// TestH09Upgrade moves a classic group to the consumer protocol member by member, and back.
func TestH09Upgrade(t *testing.T) {
	for version := range int16(4) {
		w := newWorld(t, newTopics("t", 3))
		g, err := FromClassic("g", w.options(), classicPair(version), w.now)
		if err != nil {
			t.Fatal(err)
		}
		w.g = g
		w.want(w.beat(beat("n", 0)), 6, "t-2") // t-2 had nobody
		w.classicBeat("a", 5, kerr.RebalanceInProgress)
		w.classicBeat("a", 4, kerr.IllegalGeneration)
		w.classicBeat("n", 6, kerr.UnknownMemberID)
		w.sync("a", 5, kerr.RebalanceInProgress)
		resp, _ := w.join(join("a", metadataOf(version, 0)))
		if resp.Generation != 6 || *resp.Protocol != "range" || *resp.ProtocolType != ProtocolType || resp.LeaderID != "" || resp.MemberID != "a" {
			t.Errorf("%+v", resp)
		}
		if got := w.sync("a", 6, nil); !slices.Equal(got, []int32{0}) {
			t.Errorf("a has %v", got)
		}
		w.classicBeat("a", 6, nil)
		w.join(join("b", metadataOf(version, 1)))
		w.sync("b", 6, nil)
		if w.g.Phase() != PhaseStable {
			t.Errorf("phase %s", w.g.Phase())
		}
		d := w.g.Describe()
		if len(d.Members) != 3 || d.Members[0].MemberType != 0 || d.Members[2].MemberType != 1 || d.Members[0].Assignment.TopicPartitions[0].Topic != "t" {
			t.Errorf("%+v", d)
		}
		// The consumer member goes: the group is classic again and rebalances.
		req := beat("n", -1)
		_, o, err := w.g.Heartbeat(w.now, Client{}, req)
		if err != nil {
			t.Fatal(err)
		}
		c := o.Classic
		if c == nil || c.Generation != 6 || c.Protocol != "range" || !c.Rebalance || len(c.Members) != 2 || c.Members[1].MemberID != "b" || !slices.Equal(o.Removed, []string{"n"}) {
			t.Fatalf("%+v", o)
		}
		got, err := parseAssignment(c.Members[1].Assignment, w.topics)
		if err != nil || !slices.Equal(got[w.topics.byName["t"].ID], []int32{1}) {
			t.Errorf("b is given %v, %v", got, err)
		}
		if _, ok := o.Changes[len(o.Changes)-1].(DeleteGroup); !ok {
			t.Errorf("%v", o.Changes)
		}
	}
}

func TestH09ClassicJoins(t *testing.T) {
	w := newWorld(t, newTopics("t", 2))
	w.beat(beat("n", 0))
	w.joinRefused(join("", metadataOf(1), func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" }), kerr.InconsistentGroupProtocol)
	w.joinRefused(join("x", []byte{0, 1}), kerr.InconsistentGroupProtocol)
	w.joinRefused(join("x", nil, func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }), kerr.InconsistentGroupProtocol)
	w.joinRefused(join("x", append(metadataOf(1), make([]byte, metadataBytesMax)...)), kerr.UnknownServerError)
	w.joinRefused(join("x", metadataOf(1, 0)), kerr.UnknownMemberID) // was removed, and still has partitions
	resp := w.joinRefused(join("", metadataOf(1)), kerr.MemberIDRequired)
	if resp.MemberID == "" {
		t.Error("no member id was made")
	}
	got, _ := w.join(join(resp.MemberID, metadataOf(1)))
	if got.Generation != 3 || got.MemberID != resp.MemberID {
		t.Errorf("%+v", got)
	}
	if list := w.sync(resp.MemberID, 3, nil); len(list) != 0 {
		t.Errorf("given %v while n owns all", list)
	}
	w.classicBeat(resp.MemberID, 3, nil) // nothing is free yet
	w.beat(beat("n", 2, owns(w, "t", 0, 1)))
	w.beat(beat("n", 2, owns(w, "t", 0)))
	w.classicBeat(resp.MemberID, 3, kerr.RebalanceInProgress) // now it is
	w.join(join(resp.MemberID, metadataOf(1)))
	if list := w.sync(resp.MemberID, 3, nil); !slices.Equal(list, []int32{1}) {
		t.Errorf("given %v", list)
	}
	w.joinRefused(join("y", metadataOf(1), func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name, r.Protocols[1].Name = "p", "q" }), kerr.InconsistentGroupProtocol)
	// Version 3 does not know MEMBER_ID_REQUIRED.
	old, _ := w.join(join("", metadataOf(0), func(r *kmsg.JoinGroupRequest) { r.Version = 3 }))
	if old.MemberID == "" || old.Generation != 4 {
		t.Errorf("%+v", old)
	}
	code, _ := w.g.state.CheckCommit(old.MemberID, nil, 4, false, 8)
	if code.member != nil {
		t.Error("a classic member at its generation may commit")
	}
	if _, err := w.g.state.CheckCommit(old.MemberID, nil, 5, false, 8); !errors.Is(err, kerr.IllegalGeneration) {
		t.Error(err)
	}
}

func TestH09PolicyDisabled(t *testing.T) {
	w := newWorld(t, newTopics("t", 2), func(c *Config) { c.Policy = Disabled })
	w.beat(beat("n", 0))
	w.joinRefused(join("", metadataOf(1)), kerr.InconsistentGroupProtocol)
	if w.config.CanUpgrade(1) || !DefaultConfig().CanUpgrade(1) {
		t.Error("upgrades follow the policy")
	}
	for name, want := range map[string]Policy{"disabled": Disabled, "upgrade": Upgrade, "downgrade": Downgrade, "bidirectional": Bidirectional} {
		if got, ok := ParsePolicy(name); !ok || got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, ok := ParsePolicy("both"); ok {
		t.Error("a policy that does not exist was found")
	}
}

func TestNoDowngradeByPolicy(t *testing.T) {
	w := newWorld(t, newTopics("t", 2), func(c *Config) { c.Policy = Upgrade })
	w.beat(beat("n", 0))
	w.join(join("a", metadataOf(1)))
	w.sync("a", 3, nil)
	w.beat(beat("n", -1))
	w.classicBeat("a", 3, kerr.RebalanceInProgress) // nobody else moves the target on
	w.join(join("a", metadataOf(1)))
	if got := w.sync("a", 4, nil); !slices.Equal(got, []int32{0, 1}) {
		t.Errorf("a has %v", got)
	}
	if !w.g.OnlyClassicWithout() || w.g.OnlyClassicWithout("a") {
		t.Error("who is left")
	}
}

func TestClassicTimeouts(t *testing.T) {
	gone := func(setup func(w *world), after time.Duration, want bool) {
		t.Helper()
		w := newWorld(t, newTopics("t", 2))
		w.beat(beat("n", 0))
		w.beat(beat("k", 0))
		setup(w)
		w.now = w.now.Add(after)
		o := w.g.Expire(w.now)
		w.settle(o)
		if slices.Contains(o.Removed, "a") != want {
			t.Errorf("removed %v after %v", o.Removed, after)
		}
	}
	long := func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 40_000 }
	joined := func(w *world) { w.join(join("a", metadataOf(1), long)) }
	gone(joined, 19*time.Second, false)
	gone(joined, 20*time.Second, true) // never synced
	synced := func(w *world) { joined(w); w.sync("a", 4, nil) }
	gone(synced, 39*time.Second, false)
	gone(synced, 40*time.Second, true) // silent
	told := func(w *world) {
		synced(w)
		w.beat(beat("k", -1))
		w.beat(beat("n", 2, delta))
		w.classicBeat("a", 4, kerr.RebalanceInProgress)
	}
	gone(told, 19*time.Second, false)
	gone(told, 20*time.Second, true) // never rejoined
}

func TestStaticMemberChangesProtocol(t *testing.T) {
	i := "i"
	static := func(r *kmsg.JoinGroupRequest) { r.InstanceID = &i }
	w := newWorld(t, newTopics("t", 2))
	w.beat(beat("n", 0))
	w.beat(beat("a", 0, instance(i)))
	w.joinRefused(join("a", metadataOf(1), func(r *kmsg.JoinGroupRequest) { x := "j"; r.InstanceID = &x }), kerr.UnknownMemberID)
	w.joinRefused(join("z", metadataOf(1), static), kerr.FencedInstanceID)
	resp, o := w.join(join("", metadataOf(1), static)) // from the consumer protocol to the classic one
	if !slices.Equal(o.Removed, []string{"a"}) || resp.MemberID == "a" || resp.MemberID == "" {
		t.Errorf("%+v %+v", resp, o)
	}
	if m, _ := w.g.state.StaticMember(i); m.Classic == nil || m.MemberID != resp.MemberID {
		t.Errorf("%+v", m)
	}
	w.beat(beat("b", 0, instance(i))) // and back, although the classic member did not leave
	if m, _ := w.g.state.StaticMember(i); m.Classic != nil || m.MemberID != "b" {
		t.Errorf("%+v", m)
	}
	// The last member of the consumer protocol comes back as a classic one.
	w.beat(beat("n", -1))
	last, o, err := w.g.JoinGroup(w.now, Client{}, join("", metadataOf(1), static))
	if err != nil || o.Classic == nil || last.Generation != o.Classic.Generation || o.Classic.Members[0].MemberID != last.MemberID {
		t.Fatalf("%+v %+v %v", last, o, err)
	}
}

func TestLeaveGroup(t *testing.T) {
	i := "i"
	w := newWorld(t, newTopics("t", 2))
	w.beat(beat("n", 0))
	w.beat(beat("s", 0, instance(i)))
	w.join(join("a", metadataOf(1)))
	epoch := w.g.state.epoch
	resp, o := w.g.LeaveGroup(w.now, []kmsg.LeaveGroupRequestMember{{MemberID: "a"}, {MemberID: "b"}, {InstanceID: &i}, {MemberID: "x", InstanceID: &i}, {MemberID: "a"}})
	w.settle(o)
	codes := []int16{0, kerr.UnknownMemberID.Code, 0, kerr.FencedInstanceID.Code, 0}
	for n := range resp {
		if resp[n].ErrorCode != codes[n] {
			t.Errorf("member %d has code %d, want %d", n, resp[n].ErrorCode, codes[n])
		}
	}
	if w.g.state.epoch != epoch+1 || w.g.state.Members() != 1 || len(o.Removed) != 2 {
		t.Errorf("epoch %d, removed %v", w.g.state.epoch, o.Removed)
	}
}

func TestFromClassicRefusesJunk(t *testing.T) {
	f := func(edit func(*ClassicGroupMember)) {
		t.Helper()
		c := classicPair(1)
		edit(&c.Members[0])
		w := newWorld(t, newTopics("t", 2))
		if _, err := FromClassic("g", w.options(), c, w.now); !errors.Is(err, kerr.GroupIDNotFound) {
			t.Errorf("%v", err)
		}
	}
	f(func(m *ClassicGroupMember) { m.Protocols[0].Metadata = []byte{1} })
	f(func(m *ClassicGroupMember) { m.Protocols = nil })
	f(func(m *ClassicGroupMember) { m.Assignment = []byte{0, 1, 9} })
}

func TestFromClassicKeepsOneOwner(t *testing.T) {
	c := classicPair(1)
	c.Members[1].Assignment = c.Members[0].Assignment
	w := newWorld(t, newTopics("t", 2))
	g, err := FromClassic("g", w.options(), c, w.now)
	if err != nil {
		t.Fatal(err)
	}
	id := w.topics.byName["t"].ID
	if g.state.Owner(id, 0) != "a" || len(g.state.members["b"].Assigned) != 0 {
		t.Errorf("owner %s", g.state.Owner(id, 0))
	}
}
