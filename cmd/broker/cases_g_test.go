package broker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

const (
	errNotCoordinator       = 16
	errIllegalGeneration    = 22
	errInconsistentProtocol = 23
	errInvalidGroup         = 24
	errUnknownMember        = 25
	errInvalidSession       = 26
	errRebalance            = 27
	errMetadataTooLarge     = 12
	errNonEmptyGroup        = 68
	errGroupNotFound        = 69
	errMemberIDRequired     = 79
	errFencedInstance       = 82
	errSubscribed           = 86
)

// startGroups returns a broker whose groups begin at once and whose sessions may be short.
func startGroups(t *testing.T) *brokertest.Broker {
	t.Helper()
	return brokertest.Start(t, map[string]string{"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"})
}

// alone lets a member join an empty group and take an assignment.
func alone(t *testing.T, m *brokertest.Member) {
	t.Helper()
	r := m.Enter()()
	if r.ErrorCode != errNone || r.LeaderID != m.ID {
		t.Fatalf("join alone: %+v", r)
	}
	want(t, "sync alone", m.Sync(map[string]string{m.ID: "all"}).ErrorCode, errNone)
}

// rebalancing waits until the group's members are told to join again.
func rebalancing(t *testing.T, m *brokertest.Member) {
	t.Helper()
	brokertest.Eventually(t, "a heartbeat tells of the rebalance", func() bool { return m.Heartbeat() == errRebalance })
}

func TestG01MemberIDRequired(t *testing.T) {
	b := startGroups(t)
	m := b.NewMember(t, "g01", "t")
	r := m.Join()
	want(t, "first join", r.ErrorCode, errMemberIDRequired)
	if !strings.HasPrefix(r.MemberID, "t-") {
		t.Errorf("member id %q does not begin with the client id", r.MemberID)
	}
	id := r.MemberID
	r = m.Join()
	want(t, "second join", r.ErrorCode, errNone)
	want(t, "member id", r.MemberID, id)
	want(t, "generation", r.Generation, 1)
	old := b.NewMember(t, "g01-old", "t")
	old.JoinVersion = 3
	want(t, "v3", old.Join().ErrorCode, errNone)
}

func TestG02PendingMemberDoesNotHoldUpTheGroup(t *testing.T) {
	b := startGroups(t)
	first, late, never := b.NewMember(t, "g02", "t"), b.NewMember(t, "g02", "t"), b.NewMember(t, "g02", "t")
	alone(t, first)
	never.Session = 300
	want(t, "pending", never.Join().ErrorCode, errMemberIDRequired)
	wait := late.Enter()
	rebalancing(t, first)
	again := first.Enter()
	want(t, "the rest", wait().ErrorCode, errNone)
	want(t, "the first", again().ErrorCode, errNone)
	want(t, "the pending one, later", never.Join().ErrorCode, errUnknownMember)
	other := b.NewMember(t, "g02", "t")
	want(t, "pending", other.Join().ErrorCode, errMemberIDRequired)
	want(t, "leave of a pending one", other.Leave(), errNone)
}

func TestG03InvalidGroupAndSession(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"group.min.session.timeout.ms": "6000"})
	m := b.NewMember(t, "", "t")
	want(t, "empty group", m.Join().ErrorCode, errInvalidGroup)
	m.Group = "g03"
	for _, session := range []int32{5999, 1_800_001} {
		m.Session = session
		want(t, "session timeout", m.Join().ErrorCode, errInvalidSession)
	}
}

func TestG04InconsistentProtocol(t *testing.T) {
	b := startGroups(t)
	m := b.NewMember(t, "g04", "t")
	alone(t, m)
	f := func(kind string, protocols ...string) {
		t.Helper()
		o := b.NewMember(t, "g04", "t")
		o.Kind, o.Protocols = kind, protocols
		want(t, kind, o.Join().ErrorCode, errInconsistentProtocol)
	}
	f("connect", "range")
	f("consumer", "sticky")
	f("consumer")
	f("")
	want(t, "the member that was there", m.Heartbeat(), errNone)
	fresh := b.NewMember(t, "g04-new", "t")
	fresh.Protocols = nil
	want(t, "no protocols in a new group", fresh.Join().ErrorCode, errInconsistentProtocol)
}

func TestG05GroupThatDoesNotExist(t *testing.T) {
	b := startGroups(t)
	m := b.NewMember(t, "g05", "t")
	m.ID, m.Generation = "t-looks-known", 1
	want(t, "join", m.Join().ErrorCode, errUnknownMember)
	want(t, "sync", m.Sync(nil).ErrorCode, errUnknownMember)
	want(t, "heartbeat", m.Heartbeat(), errUnknownMember)
	want(t, "leave", m.Leave(), errUnknownMember)
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID = m.Group, m.ID
	want(t, "leave v2", m.Request(r, 2).(*kmsg.LeaveGroupResponse).ErrorCode, errUnknownMember)
}

func TestG06SecondMember(t *testing.T) {
	b := startGroups(t)
	first, second := b.NewMember(t, "g06", "t"), b.NewMember(t, "g06", "t")
	first.Rebalance, second.Rebalance = 700, 700
	alone(t, first)
	wait := second.Enter()
	rebalancing(t, first)
	// The first never joins again.
	r := wait()
	want(t, "second", r.ErrorCode, errNone)
	want(t, "generation", r.Generation, first.Generation+1)
	want(t, "members", len(r.Members), 1)
	want(t, "first", first.Heartbeat(), errUnknownMember)
	want(t, "sync", second.Sync(nil).ErrorCode, errNone)
	first.ID = ""
	wait = first.Enter()
	rebalancing(t, second)
	again := second.Enter()
	want(t, "generation of both", wait().Generation, second.Generation+1)
	want(t, "second again", again().ErrorCode, errNone)
}

func TestG07JoinAgainInAStableGroup(t *testing.T) {
	b := startGroups(t)
	x, y := b.NewMember(t, "g07", "t"), b.NewMember(t, "g07", "t")
	alone(t, x)
	wait := y.Enter()
	rebalancing(t, x)
	again := x.Enter()
	want(t, "y", wait().ErrorCode, errNone)
	r := again()
	leader, follower := x, y
	if r.LeaderID == y.ID {
		leader, follower = y, x
	}
	want(t, "sync", leader.Sync(nil).ErrorCode, errNone)
	want(t, "sync", follower.Sync(nil).ErrorCode, errNone)
	generation := leader.Generation
	want(t, "follower with the same metadata", follower.Join().Generation, generation)
	want(t, "leader's heartbeat", leader.Heartbeat(), errNone)
	wait = leader.Enter()
	rebalancing(t, follower)
	again = follower.Enter()
	want(t, "leader again", wait().Generation, generation+1)
	want(t, "follower", again().Generation, generation+1)
	want(t, "sync", leader.Sync(nil).ErrorCode, errNone)
	want(t, "sync", follower.Sync(nil).ErrorCode, errNone)
	follower.Metadata = append(slices.Clone(follower.Metadata), 1)
	wait = follower.Enter()
	rebalancing(t, leader)
	again = leader.Enter()
	want(t, "follower with new metadata", wait().Generation, generation+2)
	want(t, "leader", again().Generation, generation+2)
}

func TestG08BetweenJoinAndSync(t *testing.T) {
	b := startGroups(t)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, "g08", topic.Name)
	want(t, "join", m.Enter()().ErrorCode, errNone)
	want(t, "heartbeat", m.Heartbeat(), errNone)
	want(t, "commit", m.Commit(8, topic, 1, nil), errRebalance)
	generation := m.Generation
	m.Generation++
	want(t, "sync of another generation", m.Sync(nil).ErrorCode, errIllegalGeneration)
	m.Generation--
	want(t, "join again", m.Join().Generation, generation)
}

func TestG09LeaderThatNeverSyncs(t *testing.T) {
	b := startGroups(t)
	x, y := b.NewMember(t, "g09", "t"), b.NewMember(t, "g09", "t")
	x.Rebalance, y.Rebalance = 500, 500
	alone(t, x)
	wait := y.Enter()
	rebalancing(t, x)
	again := x.Enter()
	follower := y
	if wait().LeaderID == y.ID {
		follower = x
	}
	again()
	want(t, "follower's sync", follower.Sync(nil).ErrorCode, errRebalance)
	r := follower.Join()
	want(t, "follower's join", r.ErrorCode, errNone)
	want(t, "leader", r.LeaderID, follower.ID)
	want(t, "members", len(r.Members), 1)
}

func TestG10AssignmentsAreTheLeaders(t *testing.T) {
	b := startGroups(t)
	x, y := b.NewMember(t, "g10", "t"), b.NewMember(t, "g10", "t")
	alone(t, x)
	wait := y.Enter()
	rebalancing(t, x)
	again := x.Enter()
	leader, follower := x, y
	if wait().LeaderID == y.ID {
		leader, follower = y, x
	}
	again()
	r := leader.Sync(map[string]string{leader.ID: "a\x00b", "nobody": "x"})
	want(t, "leader", r.ErrorCode, errNone)
	want(t, "leader's part", string(r.MemberAssignment), "a\x00b")
	r = follower.Sync(nil)
	want(t, "follower", r.ErrorCode, errNone)
	want(t, "follower's part", len(r.MemberAssignment), 0)
}

func TestG11ChosenProtocol(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"group.initial.rebalance.delay.ms": "500"})
	var waits []func() *kmsg.JoinGroupResponse
	for _, protocols := range [][]string{{"range", "sticky"}, {"sticky", "range"}, {"sticky"}} {
		m := b.NewMember(t, "g11", "t")
		m.Protocols = protocols
		waits = append(waits, m.Enter())
	}
	for _, wait := range waits {
		r := wait()
		want(t, "join", r.ErrorCode, errNone)
		want(t, "protocol", *r.Protocol, "sticky")
		want(t, "generation", r.Generation, 1)
	}
}

func TestG12StaticMemberStartsAgain(t *testing.T) {
	b := startGroups(t)
	topic := b.NewTopic(t, 1, nil)
	old := b.NewMember(t, "g12", topic.Name)
	old.Instance = kmsg.StringPtr("i")
	alone(t, old)
	fresh := b.NewMember(t, "g12", topic.Name)
	fresh.Instance = old.Instance
	r := fresh.Join()
	want(t, "join", r.ErrorCode, errNone)
	want(t, "generation", r.Generation, old.Generation)
	want(t, "skip_assignment", r.SkipAssignment, true)
	want(t, "same id", r.MemberID == old.ID, false)
	want(t, "heartbeat of the old", old.Heartbeat(), errFencedInstance)
	want(t, "commit of the old", old.Commit(8, topic, 1, nil), errFencedInstance)
	want(t, "sync of the old", old.Sync(nil).ErrorCode, errFencedInstance)
	s := fresh.Sync(nil)
	want(t, "sync", s.ErrorCode, errNone)
	want(t, "assignment", string(s.MemberAssignment), "all")
	want(t, "join of the old", old.Join().ErrorCode, errFencedInstance)
	// M13: before v9 the leader is shown under the id that it had, without members.
	third := b.NewMember(t, "g12", topic.Name)
	third.Instance, third.JoinVersion = old.Instance, 5
	r = third.Join()
	want(t, "v5: generation", r.Generation, old.Generation)
	want(t, "v5: leader", r.LeaderID, fresh.ID)
	want(t, "v5: members", len(r.Members), 0)
	// M12: other metadata under the same protocol change nothing.
	fourth := b.NewMember(t, "g12", topic.Name, "other")
	fourth.Instance = old.Instance
	want(t, "other metadata: generation", fourth.Join().Generation, old.Generation)
	b.Kill(t)
	b.Restart(t)
	fifth := b.NewMember(t, "g12", topic.Name)
	fifth.Instance = old.Instance
	want(t, "after a restart: generation", fifth.Join().Generation, old.Generation)
}

func TestG13LeaveByInstance(t *testing.T) {
	b := startGroups(t)
	m := b.NewMember(t, "g13", "t")
	m.Instance, m.Session, m.Rebalance = kmsg.StringPtr("i"), 2000, 300
	alone(t, m)
	leave := func(instance string) int16 {
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Group, r.Members = m.Group, []kmsg.LeaveGroupRequestMember{{InstanceID: &instance}}
		return m.Request(r, 3).(*kmsg.LeaveGroupResponse).Members[0].ErrorCode
	}
	want(t, "unknown instance", leave("other"), errUnknownMember)
	// A static member that misses a rebalance stays until its session ends.
	second := b.NewMember(t, "g13", "t")
	second.Rebalance = 300
	r := second.Enter()()
	want(t, "second", r.ErrorCode, errNone)
	want(t, "members", len(r.Members), 2)
	want(t, "known instance", leave("i"), errNone)
	want(t, "gone", leave("i"), errUnknownMember)
}

func TestG14CommitsOfMembersAndOthers(t *testing.T) {
	b := startGroups(t)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, "g14", topic.Name)
	alone(t, m)
	want(t, "member", m.Commit(8, topic, 5, nil), errNone)
	want(t, "committed", m.Committed("g14", topic).Offset, 5)
	m.Generation--
	want(t, "old generation", m.Commit(8, topic, 6, nil), errIllegalGeneration)
	other := b.NewMember(t, "g14", topic.Name)
	other.ID, other.Generation = "x", m.Generation+1
	want(t, "unknown member", other.Commit(8, topic, 6, nil), errUnknownMember)
	other.ID, other.Generation = "", -1
	want(t, "nobody, in a group with members", other.Commit(8, topic, 6, nil), errUnknownMember)
	other.Group = "g14-simple"
	want(t, "nobody, in a new group", other.Commit(8, topic, 6, nil), errNone)
	want(t, "state", other.DescribeGroup(5, "g14-simple").State, "Empty")
	other.Group, other.Generation = "g14-missing", 5
	want(t, "no group v8", other.Commit(8, topic, 6, nil), errIllegalGeneration)
	want(t, "no group v9", other.Commit(9, topic, 6, nil), errGroupNotFound)
	// M17, M16
	other.ID, other.Generation, other.Group = "x", -1, "g14-m17"
	want(t, "generation -1 with an id", other.Commit(8, topic, 6, nil), errNone)
	other.ID, other.Group = "", ""
	want(t, "empty group, offset -5", other.Commit(8, topic, -5, nil), errNone)
	want(t, "committed -5", other.Committed("", topic).Offset, -5)
}

func TestG15WhatIsCommitted(t *testing.T) {
	b := startGroups(t)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, "g15")
	m.Generation = -1
	want(t, "unknown topic", m.Commit(8, brokertest.Topic{Name: "missing"}, 1, nil), errUnknownTopicOrPartition)
	want(t, "unknown id", m.Commit(10, brokertest.Topic{ID: [16]byte{1}}, 1, nil), errUnknownTopicID)
	f := func(version int16, metadata string, code int16) {
		t.Helper()
		want(t, "metadata", m.Commit(version, topic, 1, &metadata), code)
		if code == errNone {
			want(t, "metadata", *m.Committed("g15", topic).Metadata, metadata)
		}
	}
	f(8, strings.Repeat("m", 4096), errNone)
	f(8, strings.Repeat("m", 4097), errMetadataTooLarge)
	f(8, strings.Repeat("\u00e4", 2100), errNone)
	f(3, "kept by the default", errNone)
	f(10, "by id", errNone)
	want(t, "null", m.Commit(8, topic, 1, nil), errNone)
	want(t, "null metadata", *m.Committed("g15", topic).Metadata, "")
	req := m.CommitRequest(topic, 7, nil)
	req.Topics[0].Partitions[0].LeaderEpoch = 3
	second := req.Topics[0].Partitions[0]
	second.Partition = 9
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
	got := m.Request(req, 8).(*kmsg.OffsetCommitResponse).Topics[0].Partitions
	for _, p := range got { // in any order
		code := int16(errNone)
		if p.Partition == 9 {
			code = errUnknownTopicOrPartition
		}
		want(t, "partition", p.ErrorCode, code)
	}
	want(t, "leader epoch", m.Committed("g15", topic).LeaderEpoch, 3)
}

func TestG16OffsetFetch(t *testing.T) {
	b := startGroups(t)
	topic := b.NewTopic(t, 2, nil)
	m := b.NewMember(t, "g16")
	m.Generation = -1
	want(t, "commit", m.Commit(8, topic, 4, nil), errNone)
	for version := int16(2); version <= 7; version++ {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Group = "g16"
		all := m.Request(r, version).(*kmsg.OffsetFetchResponse)
		want(t, "topics", len(all.Topics), 1)
		want(t, "partitions", len(all.Topics[0].Partitions), 1)
		want(t, "offset", all.Topics[0].Partitions[0].Offset, 4)
	}
	r := kmsg.NewPtrOffsetFetchRequest()
	for _, group := range []string{"g16", "g16-missing"} {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = group
		r.Groups = append(r.Groups, g)
	}
	two := m.Request(r, 8).(*kmsg.OffsetFetchResponse).Groups
	want(t, "first group", len(two[0].Topics), 1)
	want(t, "missing group", len(two[1].Topics), 0)
	want(t, "missing group's code", two[1].ErrorCode, errNone)
	none := m.Committed("g16-missing", topic)
	want(t, "offset", none.Offset, -1)
	want(t, "epoch", none.LeaderEpoch, -1)
	want(t, "code", none.ErrorCode, errNone)
	if none.Metadata == nil || *none.Metadata != "" {
		t.Errorf("metadata of what was not committed: %v", none.Metadata)
	}
}

func TestG18DeleteDescribeList(t *testing.T) {
	b := startGroups(t)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, "g18", topic.Name)
	alone(t, m)
	want(t, "commit", m.Commit(8, topic, 4, nil), errNone)
	want(t, "delete with a member", m.DeleteGroup("g18"), errNonEmptyGroup)
	want(t, "delete of none", m.DeleteGroup("g18-missing"), errGroupNotFound)
	d := m.DescribeGroup(5, "g18")
	want(t, "state", d.State, "Stable")
	want(t, "protocol", d.Protocol, "range")
	want(t, "assignment", string(d.Members[0].MemberAssignment), "all")
	listed := func(state string) bool {
		r := kmsg.NewPtrListGroupsRequest()
		r.StatesFilter = []string{state}
		return slices.ContainsFunc(m.Request(r, 5).(*kmsg.ListGroupsResponse).Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == "g18" })
	}
	want(t, "among stable groups", listed("sTaBle"), true)
	want(t, "among empty groups", listed("Empty"), false)
	for version := int16(0); version <= 6; version++ {
		d := m.DescribeGroup(version, "g18-missing")
		want(t, "state", d.State, "Dead")
		if version < 6 {
			want(t, "code", d.ErrorCode, errNone)
		} else {
			want(t, "code", d.ErrorCode, errGroupNotFound)
		}
	}
	want(t, "leave", m.Leave(), errNone)
	want(t, "delete", m.DeleteGroup("g18"), errNone)
	want(t, "offset", m.Committed("g18", topic).Offset, -1)
	want(t, "no group", m.DescribeGroup(6, "g18").ErrorCode, errGroupNotFound)
}

func TestG20CommitOutlivesAKill(t *testing.T) {
	b := startGroups(t)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, "g20", topic.Name)
	alone(t, m)
	want(t, "commit", m.Commit(8, topic, 42, nil), errNone)
	b.Kill(t)
	b.Restart(t)
	m.Conn = brokertest.Dial(t, b.Addr)
	want(t, "committed", m.Committed("g20", topic).Offset, 42)
	wantOneOf(t, "heartbeat", m.Heartbeat(), errNone, errUnknownMember, errRebalance)
	alone(t, m)
	want(t, "commit", m.Commit(8, topic, 43, nil), errNone)
}

func TestG21InitialDelay(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"group.initial.rebalance.delay.ms": "600"})
	began := time.Now()
	first := b.NewMember(t, "g21", "t").Enter()
	second := b.NewMember(t, "g21", "t").Enter()
	third := b.NewMember(t, "g21", "t").Enter()
	for _, wait := range []func() *kmsg.JoinGroupResponse{first, second, third} {
		r := wait()
		want(t, "join", r.ErrorCode, errNone)
		want(t, "generation", r.Generation, 1)
	}
	if took := time.Since(began); took < 1200*time.Millisecond {
		t.Errorf("answered after %v: those who came did not lengthen the delay", took)
	}
}

func TestG22FindCoordinator(t *testing.T) {
	b := startGroups(t)
	c := brokertest.Dial(t, b.Addr)
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorKey = "g22"
	one := c.Request(r, 3).(*kmsg.FindCoordinatorResponse)
	want(t, "code", one.ErrorCode, errNone)
	r = kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorKeys = []string{"a", "b"}
	many := c.Request(r, 4).(*kmsg.FindCoordinatorResponse).Coordinators
	for i, key := range []string{"a", "b"} {
		want(t, "key", many[i].Key, key)
		want(t, "code", many[i].ErrorCode, errNone)
		want(t, "node", many[i].NodeID, one.NodeID)
		want(t, "port", many[i].Port, one.Port)
	}
	r.CoordinatorType = 7
	want(t, "unknown type", c.Request(r, 4).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode, errInvalidRequest)
	r.CoordinatorKey = "x"
	want(t, "unknown type v3", c.Request(r, 3).(*kmsg.FindCoordinatorResponse).ErrorCode, errInvalidRequest)
}

func deleteOffset(c *brokertest.Conn, group string, topic brokertest.Topic) *kmsg.OffsetDeleteResponse {
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = group
	rt := kmsg.NewOffsetDeleteRequestTopic()
	rt.Topic = topic.Name
	rt.Partitions = append(rt.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
	r.Topics = append(r.Topics, rt)
	return c.Request(r, 0).(*kmsg.OffsetDeleteResponse)
}

func TestG23OffsetDelete(t *testing.T) {
	b := startGroups(t)
	topic, other := b.NewTopic(t, 1, nil), b.NewTopic(t, 1, nil)
	m := b.NewMember(t, "g23", topic.Name)
	alone(t, m)
	want(t, "commit", m.Commit(8, topic, 4, nil), errNone)
	want(t, "commit", m.Commit(8, other, 4, nil), errNone)
	r := deleteOffset(m.Conn, "g23", topic)
	want(t, "code", r.ErrorCode, errNone)
	want(t, "subscribed", r.Topics[0].Partitions[0].ErrorCode, errSubscribed)
	want(t, "not subscribed", deleteOffset(m.Conn, "g23", other).Topics[0].Partitions[0].ErrorCode, errNone)
	want(t, "kept", m.Committed("g23", topic).Offset, 4)
	want(t, "gone", m.Committed("g23", other).Offset, -1)
	want(t, "no group", deleteOffset(m.Conn, "g23-missing", topic).ErrorCode, errGroupNotFound)
	connect := b.NewMember(t, "g23-connect", topic.Name)
	connect.Kind = "connect"
	alone(t, connect)
	want(t, "another protocol type", deleteOffset(m.Conn, "g23-connect", topic).ErrorCode, errNonEmptyGroup)
}

func TestG24TopicThatIsDeleted(t *testing.T) {
	b := startGroups(t)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, "g24")
	m.Generation = -1
	want(t, "commit", m.Commit(8, topic, 4, nil), errNone)
	m.Request(brokertest.DeleteTopicsRequest(topic.Name), 5)
	again := b.CreateTopic(t, topic.Name, 1, nil)
	want(t, "offset", m.Committed("g24", again).Offset, -1)
}
