package brokertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Member is a member of a classic group that sends what it is told, on a connection of its own. The versions are
// those that carry every field, but where a test sets another.
type Member struct {
	*Conn
	Group, ID   string
	Instance    *string
	Generation  int32
	Session     int32 // milliseconds
	Rebalance   int32
	Kind        string // protocol type
	Protocols   []string
	Metadata    []byte
	JoinVersion int16
}

// NewMember returns one that has not joined: consumer protocol type, protocol "range", subscribed to topics.
func (b *Broker) NewMember(t testing.TB, group string, topics ...string) *Member {
	t.Helper()
	b.awaitCoordinator(t, group)
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = topics
	return &Member{Conn: Dial(t, b.Addr), Group: group, Session: 30_000, Rebalance: 30_000, Kind: "consumer",
		Protocols: []string{"range"}, Metadata: meta.AppendTo(nil), JoinVersion: 9}
}

// awaitCoordinator waits until a broker from outside coordinates the group: Apache Kafka first makes the topic for it.
func (b *Broker) awaitCoordinator(t testing.TB, group string) {
	t.Helper()
	if Outside() == "" {
		return
	}
	c := Dial(t, b.Addr)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = group
	Eventually(t, "the group has a coordinator", func() bool {
		if c.Request(find, 3).(*kmsg.FindCoordinatorResponse).ErrorCode != 0 {
			return false
		}
		code := c.DescribeGroup(5, group).ErrorCode
		return code != 14 && code != 15 && code != 16
	})
}

// JoinRequest builds the member's Join.
func (m *Member) JoinRequest() *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.InstanceID, r.ProtocolType = m.Group, m.ID, m.Instance, m.Kind
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = m.Session, m.Rebalance
	for _, name := range m.Protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, m.Metadata
		r.Protocols = append(r.Protocols, p)
	}
	return r
}

// Join sends one Join and waits for its answer; it takes over the member id and the generation.
func (m *Member) Join() *kmsg.JoinGroupResponse {
	m.t.Helper()
	return m.joined(m.Request(m.JoinRequest(), m.JoinVersion).(*kmsg.JoinGroupResponse))
}

func (m *Member) joined(r *kmsg.JoinGroupResponse) *kmsg.JoinGroupResponse {
	if r.ErrorCode == 0 || r.ErrorCode == 79 {
		m.ID, m.Generation = r.MemberID, r.Generation
	}
	return r
}

// Enter takes an id where the broker demands one and starts the Join that waits for the generation.
func (m *Member) Enter() (wait func() *kmsg.JoinGroupResponse) {
	m.t.Helper()
	if m.ID == "" && m.Instance == nil && m.JoinVersion >= 4 {
		if r := m.Join(); r.ErrorCode != 79 {
			m.t.Fatalf("join without a member id: error %d", r.ErrorCode)
		}
	}
	req := m.JoinRequest()
	correlation := m.Send(req, m.JoinVersion)
	return func() *kmsg.JoinGroupResponse {
		m.t.Helper()
		return m.joined(m.Receive(req, correlation).(*kmsg.JoinGroupResponse))
	}
}

// SyncRequest builds the member's Sync with assignments by member id.
func (m *Member) SyncRequest(assignments map[string]string) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.MemberID, r.InstanceID, r.Generation = m.Group, m.ID, m.Instance, m.Generation
	for id, text := range assignments {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, []byte(text)
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	return r
}

// Sync sends a Sync and waits for its answer.
func (m *Member) Sync(assignments map[string]string) *kmsg.SyncGroupResponse {
	m.t.Helper()
	return m.Request(m.SyncRequest(assignments), 3).(*kmsg.SyncGroupResponse)
}

// Heartbeat returns the code of the answer.
func (m *Member) Heartbeat() int16 {
	m.t.Helper()
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.InstanceID, r.Generation = m.Group, m.ID, m.Instance, m.Generation
	return m.Request(r, 4).(*kmsg.HeartbeatResponse).ErrorCode
}

// Leave returns the member's code in the answer.
func (m *Member) Leave() int16 {
	m.t.Helper()
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.Members = m.Group, []kmsg.LeaveGroupRequestMember{{MemberID: m.ID, InstanceID: m.Instance}}
	return m.Request(r, 5).(*kmsg.LeaveGroupResponse).Members[0].ErrorCode
}

// Commit keeps an offset of partition 0 and returns the partition's code.
func (m *Member) Commit(version int16, topic Topic, offset int64, metadata *string) int16 {
	m.t.Helper()
	return m.Request(m.CommitRequest(topic, offset, metadata), version).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// CommitRequest builds an OffsetCommit of partition 0.
func (m *Member) CommitRequest(topic Topic, offset int64, metadata *string) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID, r.InstanceID, r.Generation, r.RetentionTimeMillis = m.Group, m.ID, m.Instance, m.Generation, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic.Name, topic.ID
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset, rp.Metadata, rp.LeaderEpoch = offset, metadata, -1
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}

// Committed returns what the group has committed of partition 0.
func (c *Conn) Committed(group string, topic Topic) kmsg.OffsetFetchResponseGroupTopicPartition {
	c.t.Helper()
	r := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.Partitions = topic.Name, []int32{0}
	g.Topics = append(g.Topics, rt)
	r.Groups = append(r.Groups, g)
	return c.Request(r, 8).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
}

// DescribeGroup returns the answer for one group.
func (c *Conn) DescribeGroup(version int16, group string) kmsg.DescribeGroupsResponseGroup {
	c.t.Helper()
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups = []string{group}
	return c.Request(r, version).(*kmsg.DescribeGroupsResponse).Groups[0]
}

// DeleteGroup returns the code of the answer.
func (c *Conn) DeleteGroup(group string) int16 {
	c.t.Helper()
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{group}
	return c.Request(r, 2).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode
}

// minimalGroups asks about a group that does not exist, and commits to one that has no members.
func minimalGroups(key, version int16, topic Topic) kmsg.Request {
	m := &Member{Group: topic.Name + "-missing", ID: "missing", Session: 30_000, Rebalance: 30_000, Kind: "consumer", Protocols: []string{"range"}}
	switch key {
	case 8:
		m.Group, m.ID, m.Generation = topic.Name, "", -1
		return m.CommitRequest(topic, 1, nil)
	case 9:
		return minimalOffsetFetch(version, topic)
	case 10:
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKey, r.CoordinatorKeys = topic.Name, []string{topic.Name}
		return r
	case 11:
		return m.JoinRequest()
	case 12:
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group, r.MemberID, r.Generation = m.Group, m.ID, 1
		return r
	case 13:
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Group, r.MemberID, r.Members = m.Group, m.ID, []kmsg.LeaveGroupRequestMember{{MemberID: m.ID}}
		return r
	case 14:
		r := m.SyncRequest(map[string]string{m.ID: "a"})
		r.ProtocolType, r.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		return r
	case 15:
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Groups = []string{m.Group}
		return r
	case 16:
		return kmsg.NewPtrListGroupsRequest()
	case 42:
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Groups = []string{m.Group}
		return r
	case 68:
		r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		r.Group, r.MemberID, r.MemberEpoch = m.Group, m.ID, 1
		return r
	case 69:
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Groups = []string{m.Group}
		return r
	}
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = m.Group
	return r
}

func minimalOffsetFetch(version int16, topic Topic) kmsg.Request {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Group = topic.Name
	if version < 8 {
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = topic.Name, []int32{0}
		r.Topics = append(r.Topics, rt)
		return r
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = topic.Name
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.TopicID, gt.Partitions = topic.Name, topic.ID, []int32{0}
	g.Topics = append(g.Topics, gt)
	r.Groups = append(r.Groups, g)
	return r
}
