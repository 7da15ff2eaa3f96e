package broker_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// instanceOf returns a static member that has not joined.
func instanceOf(t *testing.T, b *brokertest.Broker, group, instance string, topics ...string) *brokertest.Member {
	t.Helper()
	m := b.NewMember(t, group, topics...)
	m.Instance = &instance
	return m
}

func TestM12StaticMemberComesBackWithOtherMetadata(t *testing.T) {
	b := startGroups(t)
	group := brokertest.FreshName("m12")
	first := instanceOf(t, b, group, "i", "t")
	alone(t, first)
	again := instanceOf(t, b, group, "i", "t", "other")
	r := again.Join()
	want(t, "join", r.ErrorCode, errNone)
	want(t, "generation", r.Generation, first.Generation)
	want(t, "heartbeat", again.Heartbeat(), errNone)
}

func TestM13StaticLeaderStartsAgain(t *testing.T) {
	b := startGroups(t)
	group := brokertest.FreshName("m13")
	first := instanceOf(t, b, group, "i", "t")
	alone(t, first)
	older := instanceOf(t, b, group, "i", "t")
	older.JoinVersion = 5
	r := older.Join()
	want(t, "v5", r.ErrorCode, errNone)
	want(t, "v5: leader", r.LeaderID, first.ID)
	want(t, "v5: members", len(r.Members), 0)
	newer := instanceOf(t, b, group, "i", "t")
	r = newer.Join()
	want(t, "v9", r.ErrorCode, errNone)
	want(t, "v9: leader", r.LeaderID, newer.ID)
	want(t, "v9: members", len(r.Members), 1)
	want(t, "v9: skip_assignment", r.SkipAssignment, true)
}

func TestM14SubscriptionChangesAndLostAnswers(t *testing.T) {
	b := startConsumers(t)
	first, second := b.NewTopic(t, 1, nil), b.NewTopic(t, 1, nil)
	m := b.NewConsumer(t, brokertest.FreshName("m14"), first.Name)
	want(t, "join", m.Join().ErrorCode, errNone)
	want(t, "own", m.Own().ErrorCode, errNone)
	previous := m.Epoch
	change := m.BeatRequest(m.Epoch)
	change.SubscribedTopicNames = []string{first.Name, second.Name}
	r := m.Request(change, 1).(*kmsg.ConsumerGroupHeartbeatResponse)
	want(t, "other subscription", r.ErrorCode, errNone)
	m.Epoch = r.MemberEpoch
	brokertest.Eventually(t, "both topics are assigned", func() bool { return m.Beat().ErrorCode == errNone && m.Epoch > previous })
	full := m.OwnRequest(m.Epoch, nil)
	full.RebalanceTimeoutMillis, full.SubscribedTopicNames = m.Rebalance, change.SubscribedTopicNames
	resp := m.Request(full, 1).(*kmsg.ConsumerGroupHeartbeatResponse)
	want(t, "full request", resp.ErrorCode, errNone)
	if resp.Assignment == nil || len(resp.Assignment.Topics) != 2 {
		t.Errorf("assigned: %+v", resp.Assignment)
	}
	want(t, "previous epoch that does not say what it owns", m.Request(m.BeatRequest(previous), 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, errFencedEpoch)
	want(t, "previous epoch that owns nothing", m.Request(m.OwnRequest(previous, nil), 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, errNone)
}

func TestM16OffsetsAtTheirEdges(t *testing.T) {
	b := startGroups(t)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, brokertest.FreshName("m16"))
	m.Generation = -1
	unknown := brokertest.Topic{Name: topic.Name, ID: [16]byte{1, 2, 3}}
	want(t, "commit v10 of an unknown id", m.Commit(10, unknown, 1, nil), errUnknownTopicID)
	fetch := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = m.Group, -1
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.TopicID, rt.Partitions = unknown.ID, []int32{0}
	g.Topics = append(g.Topics, rt)
	fetch.Groups = append(fetch.Groups, g)
	fetched := m.Request(fetch, 10).(*kmsg.OffsetFetchResponse).Groups[0]
	want(t, "fetch v10", fetched.ErrorCode, errNone)
	want(t, "fetch v10 of an unknown id", fetched.Topics[0].Partitions[0].ErrorCode, errUnknownTopicID)
	want(t, "offset -5", m.Commit(8, topic, -5, nil), errNone)
	want(t, "offset -5 is returned", m.Committed(m.Group, topic).Offset, -5)
	long := strings.Repeat("é", 2100)
	want(t, "metadata of 2,100 characters of two bytes", m.Commit(8, topic, 1, &long), errNone)
	if got := m.Committed(m.Group, topic).Metadata; got == nil || *got != long {
		t.Error("the metadata came back changed")
	}
	m.Group = ""
	want(t, "group of no name", m.Commit(8, topic, 1, nil), errNone)
}

func TestM17MissingGroupAndTheOtherProtocol(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, brokertest.FreshName("m17"))
	m.ID, m.Generation = "member", -1
	want(t, "commit to a missing group", m.Commit(8, topic, 1, nil), errNone)
	modern := b.NewConsumer(t, brokertest.FreshName("m17"), topic.Name)
	want(t, "join", modern.Join().ErrorCode, errNone)
	for version, code := range map[int16]int16{5: errNone, 6: errGroupNotFound} {
		d := m.DescribeGroup(version, modern.Group)
		want(t, "state", d.State, "Dead")
		want(t, "code", d.ErrorCode, code)
	}
}
