package brokertest

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Consumer is a member of a group of the consumer protocol (KIP-848) that sends what it is told, on a connection of
// its own.
type Consumer struct {
	*Conn
	Group, ID string
	Instance  *string
	Epoch     int32
	Rebalance int32 // milliseconds
	Topics    []string
	Regex     *string
	Assigned  map[[16]byte][]int32 // as it was told last
	Owned     map[[16]byte][]int32 // as it last said
	Version   int16
}

// NewConsumer returns one that has not joined and makes its own id.
func (b *Broker) NewConsumer(t testing.TB, group string, topics ...string) *Consumer {
	t.Helper()
	b.awaitCoordinator(t, group)
	return &Consumer{Conn: Dial(t, b.Addr), Group: group, ID: FreshName("member"), Rebalance: 30_000, Topics: topics, Version: 1}
}

// JoinRequest builds the first heartbeat.
func (m *Consumer) JoinRequest() *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.InstanceID, r.RebalanceTimeoutMillis = m.Group, m.ID, m.Instance, m.Rebalance
	r.SubscribedTopicNames, r.SubscribedTopicRegex = m.Topics, m.Regex
	if m.Topics == nil && m.Regex == nil {
		r.SubscribedTopicNames = []string{}
	}
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return r
}

// heartbeat sends one and takes over what the answer says.
func (m *Consumer) heartbeat(r *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	m.t.Helper()
	resp := m.Request(r, m.Version).(*kmsg.ConsumerGroupHeartbeatResponse)
	if resp.ErrorCode != 0 {
		return resp
	}
	m.ID, m.Epoch = *resp.MemberID, resp.MemberEpoch
	if resp.Assignment != nil {
		m.Assigned = map[[16]byte][]int32{}
		for _, t := range resp.Assignment.Topics {
			m.Assigned[t.TopicID] = t.Partitions
		}
	}
	return resp
}

// Join enters the group.
func (m *Consumer) Join() *kmsg.ConsumerGroupHeartbeatResponse {
	m.t.Helper()
	m.Assigned, m.Owned = nil, nil
	return m.heartbeat(m.JoinRequest())
}

// BeatRequest builds a heartbeat that says nothing but the epoch.
func (m *Consumer) BeatRequest(epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.InstanceID, r.MemberEpoch = m.Group, m.ID, m.Instance, epoch
	return r
}

// Beat says nothing but the epoch.
func (m *Consumer) Beat() *kmsg.ConsumerGroupHeartbeatResponse {
	m.t.Helper()
	return m.heartbeat(m.BeatRequest(m.Epoch))
}

// Own says that the member owns what it is assigned, and nothing else.
func (m *Consumer) Own() *kmsg.ConsumerGroupHeartbeatResponse {
	m.t.Helper()
	m.Owned = m.Assigned
	return m.heartbeat(m.OwnRequest(m.Epoch, m.Assigned))
}

// OwnRequest builds a heartbeat that says what the member owns.
func (m *Consumer) OwnRequest(epoch int32, owned map[[16]byte][]int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r := m.BeatRequest(epoch)
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for id, partitions := range owned {
		t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		t.TopicID, t.Partitions = id, partitions
		r.Topics = append(r.Topics, t)
	}
	return r
}

// Leave sends epoch -1, or -2 for a static member that will be back, and returns the code.
func (m *Consumer) Leave(epoch int32) int16 {
	m.t.Helper()
	return m.Request(m.BeatRequest(epoch), m.Version).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode
}

// Partitions returns how many partitions the member is assigned.
func (m *Consumer) Partitions() int {
	n := 0
	for _, list := range m.Assigned {
		n += len(list)
	}
	return n
}

// Has tells whether the member is assigned a partition.
func (m *Consumer) Has(topic Topic, partition int32) bool {
	return slices.Contains(m.Assigned[topic.ID], partition)
}

// DescribeConsumerGroup returns the answer for one group.
func (c *Conn) DescribeConsumerGroup(group string) kmsg.ConsumerGroupDescribeResponseGroup {
	c.t.Helper()
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{group}
	return c.Request(r, 1).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
}
