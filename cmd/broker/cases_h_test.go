package broker_test

import (
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

const (
	errFencedEpoch         = 110
	errUnreleasedInstance  = 111
	errUnsupportedAssignor = 112
	errStaleEpoch          = 113
	errInvalidRegex        = 128
)

// startConsumers returns a broker whose assignments are computed at once and whose sessions may be short.
func startConsumers(t *testing.T, more ...string) *brokertest.Broker {
	t.Helper()
	return brokertest.Start(t, consumerSettings(more...))
}

func consumerSettings(more ...string) map[string]string {
	settings := map[string]string{
		"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100",
		"group.consumer.assignment.interval.ms":    "0",
		"group.consumer.min.session.timeout.ms":    "1000",
		"group.consumer.min.heartbeat.interval.ms": "100",
	}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return settings
}

// settle lets members report what they are assigned until each has its part of n partitions, and nobody shares one.
func settle(t *testing.T, n int, members ...*brokertest.Consumer) {
	t.Helper()
	brokertest.Eventually(t, "the group has settled", func() bool {
		total, epoch := 0, members[0].Epoch
		for _, m := range members {
			want(t, "heartbeat of "+m.ID, m.Own().ErrorCode, errNone)
			total += m.Partitions()
		}
		for _, m := range members {
			if m.Epoch != epoch {
				return false
			}
		}
		return total == n
	})
}

func TestH01HeartbeatsThatCannotBe(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewConsumer(t, brokertest.FreshName("h01"), topic.Name)
	refused := func(what string, edit func(r *kmsg.ConsumerGroupHeartbeatRequest)) {
		t.Helper()
		r := m.JoinRequest()
		edit(r)
		resp := m.Request(r, 1).(*kmsg.ConsumerGroupHeartbeatResponse)
		want(t, what, resp.ErrorCode, errInvalidRequest)
		if resp.ErrorMessage == nil || *resp.ErrorMessage == "" {
			t.Errorf("%s: no message", what)
		}
	}
	empty := ""
	refused("no rebalance timeout", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 })
	refused("owns something", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: topic.ID, Partitions: []int32{0}}}
	})
	refused("does not say what it owns", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil })
	refused("no subscription", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil })
	refused("empty group", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" })
	refused("empty member id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" })
	refused("empty instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &empty })
	refused("empty rack", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &empty })
	refused("epoch -3", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 })
	refused("epoch -2 without instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 })
	r := m.BeatRequest(1)
	want(t, "group that does not exist", m.Request(r, 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, errGroupNotFound)
	m.Version, m.ID = 0, ""
	want(t, "v0 without an id", m.Join().ErrorCode, errNone)
	if m.ID == "" {
		t.Error("v0: no id was made")
	}
}

func TestH02UnsupportedAssignor(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 2, nil)
	m := b.NewConsumer(t, brokertest.FreshName("h02"), topic.Name)
	r := m.JoinRequest()
	for name, code := range map[string]int16{"sticky": errUnsupportedAssignor, "": errUnsupportedAssignor, "range": errNone, "uniform": errNone} {
		r.ServerAssignor = &name
		want(t, "assignor "+name, m.Request(r, 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, code)
	}
}

func TestH03EpochsOfAMember(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 2, nil)
	group := brokertest.FreshName("h03")
	m := b.NewConsumer(t, group, topic.Name)
	want(t, "join", m.Join().ErrorCode, errNone)
	want(t, "partitions", m.Partitions(), 2)
	first := m.Epoch
	ask := func(what string, r *kmsg.ConsumerGroupHeartbeatRequest, code int16) *kmsg.ConsumerGroupHeartbeatResponse {
		t.Helper()
		resp := m.Request(r, 1).(*kmsg.ConsumerGroupHeartbeatResponse)
		want(t, what, resp.ErrorCode, code)
		return resp
	}
	ask("epoch too high", m.OwnRequest(first+1, m.Assigned), errFencedEpoch)
	ask("of an unknown member", func() *kmsg.ConsumerGroupHeartbeatRequest {
		r := m.BeatRequest(first)
		r.MemberID = "nobody"
		return r
	}(), errUnknownMember)
	// Another one joins: the first gives up a partition and moves on, and its answer is lost.
	other := b.NewConsumer(t, group, topic.Name)
	want(t, "join of another", other.Join().ErrorCode, errNone)
	want(t, "told to revoke", m.Beat().ErrorCode, errNone)
	kept := m.Assigned
	want(t, "kept", m.Partitions(), 1)
	want(t, "revoked", m.Own().ErrorCode, errNone)
	if m.Epoch <= first {
		t.Fatalf("epoch %d after %d", m.Epoch, first)
	}
	again := ask("previous epoch, owns what it has", m.OwnRequest(first, kept), errNone)
	want(t, "epoch that it is told again", again.MemberEpoch, m.Epoch)
	var lost int32
	for p := range int32(2) {
		if !m.Has(topic, p) {
			lost = p
		}
	}
	ask("previous epoch with a partition that it gave up", m.OwnRequest(first, map[[16]byte][]int32{topic.ID: {lost}}), errFencedEpoch)
	ask("previous epoch that does not say", m.BeatRequest(first), errFencedEpoch)
	ask("older", m.OwnRequest(first-1, kept), errFencedEpoch)
}

func TestH04StaticMembers(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 4, nil)
	group, instance := brokertest.FreshName("h04"), "i1"
	m := b.NewConsumer(t, group, topic.Name)
	m.Instance = &instance
	want(t, "join", m.Join().ErrorCode, errNone)
	want(t, "partitions", m.Partitions(), 4)
	second := b.NewConsumer(t, group, topic.Name)
	second.Instance = &instance
	want(t, "while the first is there", second.Join().ErrorCode, errUnreleasedInstance)
	want(t, "the first goes for a while", m.Leave(-2), errNone)
	want(t, "second", second.Join().ErrorCode, errNone)
	want(t, "partitions of the second", second.Partitions(), 4)
	want(t, "old id", m.Request(m.BeatRequest(m.Epoch), 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, errFencedInstance)
	want(t, "leave of the old id", m.Leave(-1), errFencedInstance)
	want(t, "leave for good", second.Leave(-1), errNone)
	want(t, "members", len(second.DescribeConsumerGroup(group).Members), 0)
}

// Members come, go and acknowledge late: no partition ever is in two hands, and in the end each is in one.
func TestH05NoPartitionInTwoHands(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 6, nil)
	group := brokertest.FreshName("h05")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	members := make([]*brokertest.Consumer, 3)
	in := make([]bool, 3)
	// What a member may work on is what it was told last, less what it never heard of: an answer counts when it came.
	check := func() {
		t.Helper()
		owner := map[int32]int{}
		for i, m := range members {
			if !in[i] {
				continue
			}
			// Until it says that it revoked, it may still work on what it owned.
			for _, held := range []map[[16]byte][]int32{m.Assigned, m.Owned} {
				for _, p := range held[topic.ID] {
					if o, taken := owner[p]; taken && o != i {
						t.Fatalf("partition %d is in the hands of members %d and %d", p, o, i)
					}
					owner[p] = i
				}
			}
		}
	}
	for range 200 {
		i := random.IntN(3)
		m := members[i]
		switch {
		case !in[i]:
			m = b.NewConsumer(t, group, topic.Name)
			members[i] = m
			want(t, "join", m.Join().ErrorCode, errNone)
			in[i] = true
		case random.IntN(4) == 0:
			want(t, "leave", m.Leave(-1), errNone)
			in[i] = false
		case random.IntN(2) == 0:
			want(t, "heartbeat", m.Beat().ErrorCode, errNone)
		default:
			want(t, "acknowledge", m.Own().ErrorCode, errNone)
		}
		check()
	}
	var left []*brokertest.Consumer
	for i, m := range members {
		if in[i] {
			left = append(left, m)
		}
	}
	if len(left) > 0 {
		settle(t, 6, left...)
		check()
	}
}

func TestH06FullAndDeltaRequests(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 2, nil)
	m := b.NewConsumer(t, brokertest.FreshName("h06"), topic.Name)
	if r := m.Join(); r.Assignment == nil {
		t.Error("a join gets no assignment")
	}
	if r := m.Own(); r.Assignment != nil {
		t.Error("an acknowledgement gets an assignment again")
	}
	if r := m.Beat(); r.Assignment != nil {
		t.Error("a delta gets an assignment although nothing changed")
	}
	full := m.OwnRequest(m.Epoch, m.Assigned)
	full.RebalanceTimeoutMillis, full.SubscribedTopicNames = m.Rebalance, m.Topics
	resp := m.Request(full, 1).(*kmsg.ConsumerGroupHeartbeatResponse)
	want(t, "full", resp.ErrorCode, errNone)
	if resp.Assignment == nil || len(resp.Assignment.Topics) != 1 || len(resp.Assignment.Topics[0].Partitions) != 2 {
		t.Errorf("a full request gets assignment %+v", resp.Assignment)
	}
}

// consumerCommit builds an OffsetCommit of partition 0 by a member at an epoch.
func consumerCommit(m *brokertest.Consumer, topic brokertest.Topic, partition, epoch int32) *kmsg.OffsetCommitRequest {
	r := (&brokertest.Member{Group: m.Group, ID: m.ID, Generation: epoch}).CommitRequest(topic, 7, nil)
	r.Topics[0].Partitions[0].Partition = partition
	return r
}

// consumerFetch returns the group's code of an OffsetFetch by a member at an epoch.
func consumerFetch(m *brokertest.Consumer, topic brokertest.Topic, id *string, epoch int32) int16 {
	r := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberID, g.MemberEpoch = m.Group, id, epoch
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.Partitions = topic.Name, []int32{0}
	g.Topics = append(g.Topics, rt)
	r.Groups = append(r.Groups, g)
	return m.Request(r, 9).(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode
}

func TestH07CommitsAndFetchesOfMembers(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 2, nil)
	group := brokertest.FreshName("h07")
	m := b.NewConsumer(t, group, topic.Name)
	want(t, "join", m.Join().ErrorCode, errNone)
	first := m.Epoch
	commit := func(what string, version int16, partition, epoch int32, code int16) {
		t.Helper()
		r := m.Request(consumerCommit(m, topic, partition, epoch), version).(*kmsg.OffsetCommitResponse)
		want(t, what, r.Topics[0].Partitions[0].ErrorCode, code)
	}
	commit("its epoch", 9, 0, first, errNone)
	commit("v8", 8, 0, first, errUnsupportedVersion)
	commit("epoch to come", 9, 0, first+1, errStaleEpoch)
	want(t, "fetch", consumerFetch(m, topic, &m.ID, first), errNone)
	want(t, "fetch of an epoch to come", consumerFetch(m, topic, &m.ID, first+1), errStaleEpoch)
	nobody := "nobody"
	want(t, "fetch of nobody", consumerFetch(m, topic, &nobody, first), errUnknownMember)
	want(t, "fetch of an administrator", consumerFetch(m, topic, nil, -1), errNone)
	other := b.NewConsumer(t, group, topic.Name)
	want(t, "join of another", other.Join().ErrorCode, errNone)
	settle(t, 2, m, other)
	kept, lost := int32(0), int32(1)
	if !m.Has(topic, kept) {
		kept, lost = lost, kept
	}
	commit("older epoch, a partition held since then", 9, kept, first, errNone)
	commit("older epoch, a partition of another", 9, lost, first, errStaleEpoch)
	want(t, "fetch at an older epoch", consumerFetch(m, topic, &m.ID, first), errStaleEpoch)
	want(t, "commit of nobody", m.Request(consumerCommit(&brokertest.Consumer{Group: group, ID: "nobody"}, topic, 0, first), 9).(*kmsg.OffsetCommitResponse).
		Topics[0].Partitions[0].ErrorCode, errUnknownMember)
}

func TestH08RegularExpressions(t *testing.T) {
	b := startConsumers(t)
	prefix := brokertest.FreshName("h08")
	b.CreateTopic(t, prefix+"-a", 2, nil)
	bad, good := "(", prefix+"-.*"
	m := b.NewConsumer(t, prefix)
	m.Regex = &bad
	r := m.Join()
	want(t, "bad expression", r.ErrorCode, errInvalidRegex)
	m.Regex = &good
	want(t, "join", m.Join().ErrorCode, errNone)
	brokertest.Eventually(t, "the matching topic is assigned", func() bool {
		return m.Own().ErrorCode == errNone && m.Partitions() == 2
	})
	later := b.CreateTopic(t, prefix+"-b", 3, nil)
	brokertest.Eventually(t, "a topic that comes later is assigned", func() bool {
		return m.Own().ErrorCode == errNone && m.Partitions() == 5
	})
	want(t, "of the later topic", len(m.Assigned[later.ID]), 3)
	members := m.DescribeConsumerGroup(prefix).Members
	if len(members) != 1 || members[0].SubscribedTopicRegex == nil || *members[0].SubscribedTopicRegex != good {
		t.Errorf("described: %+v", members)
	}
}

// adopt lets a classic member of a group that is on its way to the other protocol join and sync until it is done.
func adopt(t *testing.T, m *brokertest.Member) {
	t.Helper()
	brokertest.Eventually(t, "the classic member has joined", func() bool {
		if r := m.Join(); r.ErrorCode != errNone {
			return false
		}
		return m.Sync(nil).ErrorCode == errNone
	})
}

func TestH09OneGroupTwoProtocols(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 2, nil)
	group := brokertest.FreshName("h09")
	old := b.NewMember(t, group, topic.Name)
	alone(t, old)
	want(t, "describe of a classic group", old.DescribeConsumerGroup(group).ErrorCode, errGroupNotFound)
	young := b.NewConsumer(t, group, topic.Name)
	// The assignment was no assignment of a consumer: the group cannot be taken over.
	want(t, "junk assignment", young.Join().ErrorCode, errGroupNotFound)

	group = brokertest.FreshName("h09")
	old = b.NewMember(t, group, topic.Name)
	want(t, "join", old.Enter()().ErrorCode, errNone)
	assignment := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: topic.Name, Partitions: []int32{0, 1}}}}
	want(t, "sync", old.Sync(map[string]string{old.ID: string(assignment.AppendTo(nil))}).ErrorCode, errNone)
	young.Group = group
	want(t, "upgrade", young.Join().ErrorCode, errNone)
	want(t, "what is not given up yet", young.Partitions(), 0)
	brokertest.Eventually(t, "the classic member hears of it", func() bool { return old.Heartbeat() == errRebalance })
	adopt(t, old)
	brokertest.Eventually(t, "the young one gets its part", func() bool {
		if old.Heartbeat() == errRebalance {
			adopt(t, old)
		}
		return young.Own().ErrorCode == errNone && young.Partitions() == 1
	})
	d := young.DescribeConsumerGroup(group)
	want(t, "describe", d.ErrorCode, errNone)
	want(t, "members", len(d.Members), 2)
	want(t, "classic describe", young.DescribeGroup(6, group).ErrorCode, errGroupNotFound)

	junk := b.NewMember(t, group, topic.Name)
	junk.Metadata = []byte{0xff}
	want(t, "junk metadata", junk.Join().ErrorCode, errMemberIDRequired)
	want(t, "junk metadata", junk.Join().ErrorCode, errInconsistentProtocol)
	junk.Kind = "connect"
	want(t, "another protocol type", junk.Join().ErrorCode, errInconsistentProtocol)

	want(t, "the young one goes", young.Leave(-1), errNone)
	brokertest.Eventually(t, "the group is classic again", func() bool { return old.DescribeGroup(6, group).ErrorCode == errNone })
	brokertest.Eventually(t, "the classic member has it all", func() bool {
		if r := old.Join(); r.ErrorCode != errNone {
			return false
		}
		return old.Sync(map[string]string{old.ID: string(assignment.AppendTo(nil))}).ErrorCode == errNone
	})
	want(t, "heartbeat", old.Heartbeat(), errNone)
	want(t, "leave", old.Leave(), errNone)
	young.ID = brokertest.FreshName("member")
	want(t, "join of a group that is empty", young.Join().ErrorCode, errNone)
	want(t, "all partitions", young.Partitions(), 2)
}

func TestH09NoMigration(t *testing.T) {
	b := startConsumers(t, "group.consumer.migration.policy", "disabled")
	topic := b.NewTopic(t, 2, nil)
	old := b.NewMember(t, brokertest.FreshName("h09"), topic.Name)
	alone(t, old)
	young := b.NewConsumer(t, old.Group, topic.Name)
	want(t, "of a classic group", young.Join().ErrorCode, errGroupNotFound)
	young.Group = brokertest.FreshName("h09")
	want(t, "of its own", young.Join().ErrorCode, errNone)
	old = b.NewMember(t, young.Group, topic.Name)
	want(t, "classic join", old.Join().ErrorCode, errInconsistentProtocol)
}

func TestH10MembersThatAreSilentOrSlow(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 2, nil)
	group := brokertest.FreshName("h10")
	setGroupConfig(t, b, group, "consumer.session.timeout.ms", "1000", errInvalidConfig) // no heartbeat would come in time
	setGroupConfig(t, b, group, "consumer.heartbeat.interval.ms", "100", errNone)
	setGroupConfig(t, b, group, "consumer.session.timeout.ms", "1000", errNone)
	silent, busy := b.NewConsumer(t, group, topic.Name), b.NewConsumer(t, group, topic.Name)
	r := silent.Join()
	want(t, "join", r.ErrorCode, errNone)
	want(t, "heartbeat interval", r.HeartbeatIntervalMillis, 100)
	want(t, "join", busy.Join().ErrorCode, errNone)
	brokertest.Eventually(t, "the silent member's partitions move", func() bool {
		return busy.Own().ErrorCode == errNone && busy.Partitions() == 2
	})
	want(t, "the silent one", silent.Request(silent.BeatRequest(silent.Epoch), 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, errUnknownMember)

	// One that has its heartbeats but never gives up what it must.
	slow := busy
	slow.Rebalance = 500
	full := slow.OwnRequest(slow.Epoch, slow.Assigned)
	full.RebalanceTimeoutMillis, full.SubscribedTopicNames = 500, slow.Topics
	want(t, "shorter rebalance timeout", slow.Request(full, 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, errNone)
	next := b.NewConsumer(t, group, topic.Name)
	want(t, "join", next.Join().ErrorCode, errNone)
	stubborn := slow.OwnRequest(slow.Epoch, slow.Assigned)
	brokertest.Eventually(t, "the slow member is out", func() bool {
		want(t, "next", next.Own().ErrorCode, errNone)
		code := slow.Request(stubborn, 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode
		if code != errNone && code != errUnknownMember && code != errFencedEpoch {
			t.Fatalf("the slow member gets %d", code)
		}
		return code != errNone
	})
	brokertest.Eventually(t, "its partitions move", func() bool { return next.Own().ErrorCode == errNone && next.Partitions() == 2 })
}

// setGroupConfig sets one config of a group.
func setGroupConfig(t *testing.T, b *brokertest.Broker, group, name, value string, code int16) {
	t.Helper()
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = name, &value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, c)
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Resources = append(r.Resources, resource)
	got := brokertest.Dial(t, b.Addr).Request(r, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	want(t, name+"="+value, got.ErrorCode, code)
}

func TestConfigsOfGroups(t *testing.T) {
	b := startConsumers(t)
	group := brokertest.FreshName("configs")
	setGroupConfig(t, b, group, "consumer.session.timeout.ms", "999", errInvalidConfig)
	setGroupConfig(t, b, group, "consumer.session.timeout.ms", "60001", errInvalidConfig)
	setGroupConfig(t, b, group, "consumer.heartbeat.interval.ms", "soon", errInvalidConfig)
	setGroupConfig(t, b, group, "consumer.assignment.interval.ms", "-1", errInvalidConfig)
	setGroupConfig(t, b, group, "consumer.nothing", "1", errInvalidConfig)
	setGroupConfig(t, b, "", "consumer.session.timeout.ms", "50000", errInvalidRequest)
	setGroupConfig(t, b, group, "consumer.session.timeout.ms", "50000", errNone)
	c := brokertest.Dial(t, b.Addr)
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Resources, r.IncludeSynonyms = append(r.Resources, resource), true
	found := false
	for _, e := range c.Request(r, 4).(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		if e.Name == "consumer.session.timeout.ms" {
			found = true
			want(t, "value", *e.Value, "50000")
			want(t, "source", e.Source, kmsg.ConfigSourceGroupConfig)
			want(t, "synonyms", len(e.ConfigSynonyms), 2)
		}
	}
	if !found {
		t.Error("the config is not described")
	}
	list := kmsg.NewPtrListConfigResourcesRequest()
	list.ResourceTypes = []int8{32}
	resources := c.Request(list, 1).(*kmsg.ListConfigResourcesResponse).ConfigResources
	ours := 0
	for _, x := range resources {
		if x.Name == group && x.Type == 32 {
			ours++
		}
	}
	want(t, "resources of the group", ours, 1)
}
