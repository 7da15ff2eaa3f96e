package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// change is one entry of an IncrementalAlterConfigs: 0 sets, 1 deletes, 2 appends, 3 subtracts.
type change struct {
	name  string
	op    int8
	value *string
}

// alterRequest changes one topic.
func alterRequest(topic string, changes ...change) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for _, one := range changes {
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Op, rc.Value = one.name, kmsg.IncrementalAlterConfigOp(one.op), one.value
		resource.Configs = append(resource.Configs, rc)
	}
	req.Resources = append(req.Resources, resource)
	return req
}

// alter changes one topic and returns the error.
func alter(c *brokertest.Conn, topic string, changes ...change) int16 {
	return c.Request(alterRequest(topic, changes...), 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
}

// describe returns the configs of one resource.
func describe(c *brokertest.Conn, kind kmsg.ConfigResourceType, name string, keys []string) kmsg.DescribeConfigsResponseResource {
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kind, name, keys
	req.Resources, req.IncludeSynonyms = append(req.Resources, resource), true
	return c.Request(req, 4).(*kmsg.DescribeConfigsResponse).Resources[0]
}

// configOf returns one config of a topic.
func configOf(t *testing.T, c *brokertest.Conn, topic, key string) kmsg.DescribeConfigsResponseResourceConfig {
	t.Helper()
	resource := describe(c, kmsg.ConfigResourceTypeTopic, topic, []string{key})
	if resource.ErrorCode != 0 || len(resource.Configs) != 1 || resource.Configs[0].Name != key {
		t.Fatalf("describe %s of %s: %+v", key, topic, resource)
	}
	return resource.Configs[0]
}

// create sends one CreateTopics and returns the answer to its first topic.
func create(c *brokertest.Conn, version int16, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) kmsg.CreateTopicsResponseTopic {
	return c.Request(brokertest.CreateTopicsRequest(validateOnly, topics...), version).(*kmsg.CreateTopicsResponse).Topics[0]
}

// exists says whether Metadata knows the topic.
func exists(c *brokertest.Conn, name string) bool {
	return c.Request(brokertest.MetadataRequest(name), 9).(*kmsg.MetadataResponse).Topics[0].ErrorCode == errNone
}

func TestI01ValidateOnly(t *testing.T) {
	b, c := start(t)
	name := brokertest.FreshName("i01")
	for version := int16(2); version <= c.Versions()[19][1]; version++ {
		rt := create(c, version, true, brokertest.NewTopicSpec(name, 3, map[string]string{"retention.ms": "5000"}))
		want(t, "new", rt.ErrorCode, errNone)
		if version >= 5 {
			want(t, "partitions", rt.NumPartitions, 3)
			want(t, "replication", rt.ReplicationFactor, 1)
			value := ""
			for _, config := range rt.Configs {
				if config.Name == "retention.ms" && config.Value != nil {
					value = *config.Value
				}
			}
			want(t, "retention.ms", value, "5000")
		}
		want(t, "created", exists(c, name), false)
		topic := b.NewTopic(t, 1, nil)
		want(t, "existing", create(c, version, true, brokertest.NewTopicSpec(topic.Name, 1, nil)).ErrorCode, errTopicExists)
		want(t, "bad config", create(c, version, true, brokertest.NewTopicSpec(name, 1, map[string]string{"retention.ms": "abc"})).ErrorCode, errInvalidConfig)
	}
}

func TestI02CountsAndAssignments(t *testing.T) {
	_, c := start(t)
	node := c.Request(brokertest.MetadataRequest(), 9).(*kmsg.MetadataResponse).Brokers[0].NodeID
	f := func(what string, partitions int32, replication int16, code int16, assigned ...[]int32) {
		t.Helper()
		spec := brokertest.NewTopicSpec(brokertest.FreshName("i02"), partitions, nil)
		spec.ReplicationFactor = replication
		for i, replicas := range assigned {
			ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			ra.Partition, ra.Replicas = int32(i), replicas
			if strings.Contains(what, "gap") {
				ra.Partition *= 2
			}
			spec.ReplicaAssignment = append(spec.ReplicaAssignment, ra)
		}
		rt := create(c, 7, true, spec)
		want(t, what, rt.ErrorCode, code)
		if code != errNone && (rt.ErrorMessage == nil || *rt.ErrorMessage == "") {
			t.Errorf("%s: no message", what)
		}
	}
	f("defaults", -1, -1, errNone)
	f("no partitions", 0, 1, errInvalidPartitions)
	f("-2 partitions", -2, 1, errInvalidPartitions)
	f("replication 0", 1, 0, errInvalidReplication)
	f("replication 3 of 1", 1, 3, errInvalidReplication)
	f("assignment and counts", 1, 1, errInvalidRequest, []int32{node})
	f("assignment", -1, -1, errNone, []int32{node}, []int32{node})
	f("assignment with a gap", -1, -1, errInvalidAssignment, []int32{node}, []int32{node})
	f("assignment to an unknown broker", -1, -1, errInvalidAssignment, []int32{node + 99})
	f("assignment twice to one broker", -1, -1, errInvalidAssignment, []int32{node, node})
	f("assignment to nobody", -1, -1, errInvalidAssignment, []int32{})
}

func TestI03ExistenceWins(t *testing.T) {
	b, c := start(t)
	spec := brokertest.NewTopicSpec(b.NewTopic(t, 1, nil).Name, 1, nil)
	spec.ReplicationFactor = 99
	want(t, "existing name with replication 99", create(c, 7, false, spec).ErrorCode, errTopicExists)
}

func TestI04CollidingNames(t *testing.T) {
	_, c := start(t)
	base := brokertest.FreshName("i04")
	want(t, "a.b", create(c, 7, false, brokertest.NewTopicSpec(base+".x", 1, nil)).ErrorCode, errNone)
	want(t, "a_b", create(c, 7, false, brokertest.NewTopicSpec(base+"_x", 1, nil)).ErrorCode, errInvalidTopic)
	want(t, "lower", create(c, 7, false, brokertest.NewTopicSpec(base+"case", 1, nil)).ErrorCode, errNone)
	want(t, "upper", create(c, 7, false, brokertest.NewTopicSpec(base+"CASE", 1, nil)).ErrorCode, errNone)
}

func TestI05SameNameTwice(t *testing.T) {
	_, c := start(t)
	twice, once := brokertest.FreshName("twice"), brokertest.FreshName("once")
	resp := c.Request(brokertest.CreateTopicsRequest(false, brokertest.NewTopicSpec(twice, 1, nil), brokertest.NewTopicSpec(once, 1, nil), brokertest.NewTopicSpec(twice, 1, nil)), 7).(*kmsg.CreateTopicsResponse)
	want(t, "answers", len(resp.Topics), 2)
	for _, rt := range resp.Topics {
		code := int16(errNone)
		if rt.Topic == twice {
			code = errInvalidRequest
		}
		want(t, rt.Topic, rt.ErrorCode, code)
	}
	want(t, "the doubled one exists", exists(c, twice), false)
	want(t, "the other one exists", exists(c, once), true)
}

func TestI06TopicConfigs(t *testing.T) {
	_, c := start(t)
	f := func(key string, value *string, code int16) {
		t.Helper()
		spec := brokertest.NewTopicSpec(brokertest.FreshName("i06"), 1, nil)
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = key, value
		spec.Configs = append(spec.Configs, rc)
		rt := create(c, 7, true, spec)
		want(t, fmt.Sprintf("%s=%v", key, value), rt.ErrorCode, code)
		if code != errNone && (rt.ErrorMessage == nil || *rt.ErrorMessage == "") {
			t.Errorf("%s: no message", key)
		}
	}
	s := kmsg.StringPtr
	f("no.such.key", s("1"), errInvalidConfig)
	f("retention.ms", s("abc"), errInvalidConfig)
	f("retention.ms", s("-2"), errInvalidConfig)
	f("retention.ms", nil, errInvalidConfig)
	f("cleanup.policy", s("foo"), errInvalidConfig)
	f("segment.ms", s("0"), errInvalidConfig)
	f("segment.bytes", s("100"), errInvalidConfig)
	f("compression.type", s("rar"), errInvalidConfig)
	f("message.timestamp.type", s("Never"), errInvalidConfig)
	f("retention.ms", s("-1"), errNone)
	f("cleanup.policy", s(""), errNone)
	f("cleanup.policy", s("delete"), errNone)
	f("cleanup.policy", s("compact"), errNone)
	f("cleanup.policy", s("compact,delete"), errNone)
	topic := brokertest.FreshName("i06")
	create(c, 7, false, brokertest.NewTopicSpec(topic, 1, nil))
	want(t, "null in an incremental set", alter(c, topic, change{"retention.ms", 0, nil}), errInvalidRequest)
}

func TestI07CreatePartitions(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 3, nil)
	f := func(what, name string, count int32, validateOnly bool, code int16, assigned ...[]int32) {
		t.Helper()
		for version := int16(0); version <= c.Versions()[37][1]; version++ {
			req := kmsg.NewPtrCreatePartitionsRequest()
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count = name, count
			for _, replicas := range assigned {
				rt.Assignment = append(rt.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
			}
			req.Topics, req.TimeoutMillis, req.ValidateOnly = append(req.Topics, rt), 10_000, validateOnly
			resp := c.Request(req, version).(*kmsg.CreatePartitionsResponse)
			want(t, "answers", len(resp.Topics), 1)
			want(t, "name", resp.Topics[0].Topic, name)
			want(t, fmt.Sprintf("v%d %s", version, what), resp.Topics[0].ErrorCode, code)
			if code == errNone && !validateOnly {
				return // done once
			}
		}
	}
	partitions := func() int {
		return len(c.Request(brokertest.MetadataRequest(topic.Name), 9).(*kmsg.MetadataResponse).Topics[0].Partitions)
	}
	f("less", topic.Name, 2, false, errInvalidPartitions)
	f("equal", topic.Name, 3, false, errInvalidPartitions)
	f("unknown", brokertest.FreshName("missing"), 5, false, errUnknownTopicOrPartition)
	f("assignment of one for two", topic.Name, 5, false, errInvalidAssignment, []int32{1})
	f("validate only", topic.Name, 5, true, errNone)
	want(t, "partitions", partitions(), 3)
	f("more", topic.Name, 5, false, errNone)
	brokertest.Eventually(t, "five partitions", func() bool { return partitions() == 5 })
	brokertest.Eventually(t, "the new one takes records", func() bool { return c.Produce(topic, 4, batchOf("v").Encode()).ErrorCode == errNone })
}

func TestI08DeleteRecords(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("a", "b", "c", "d", "e"))
	f := func(offset int64, code int16, low int64) {
		t.Helper()
		p := c.Request(brokertest.DeleteRecordsRequest(topic, 0, offset), 2).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		want(t, fmt.Sprint("offset ", offset), p.ErrorCode, code)
		want(t, fmt.Sprint("offset ", offset, ": low watermark"), p.LowWatermark, low)
	}
	f(2, errNone, 2)
	f(2, errNone, 2)
	f(1, errNone, 2)
	f(6, errOffsetOutOfRange, -1)
	f(-2, errOffsetOutOfRange, -1)
	want(t, "earliest", c.LogStart(topic, 0), 2)
	want(t, "fetch below it", c.Fetch(topic, 0, 1).ErrorCode, errOffsetOutOfRange)
	f(-1, errNone, 5)
	want(t, "earliest", c.LogStart(topic, 0), 5)
	want(t, "next", c.MustProduce(topic, 0, batchOf("f")), 5)
	p := c.Request(brokertest.DeleteRecordsRequest(topic, 9, 0), 2).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	want(t, "unknown partition", p.ErrorCode, errUnknownTopicOrPartition)
	for policy, code := range map[string]int16{"": errNone, "delete": errNone, "compact,delete": errNone, "compact": errPolicyViolation} {
		topic := b.NewTopic(t, 1, map[string]string{"cleanup.policy": policy})
		p := c.Request(brokertest.DeleteRecordsRequest(topic, 0, 0), 2).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		want(t, "policy "+policy, p.ErrorCode, code)
	}
}

func TestI08DeletedRecordsStayDeleted(t *testing.T) {
	b := brokertest.Start(t, nil)
	b.SkipOnKafka(t, "it forgets the log start when it is killed within seconds")
	topic := b.NewTopic(t, 1, nil)
	c := brokertest.Dial(t, b.Addr)
	c.MustProduce(topic, 0, batchOf("a", "b", "c", "d", "e"))
	for i, end := range []func(){func() { b.Kill(t) }, func() { b.Stop(t) }} {
		start := int64(2 + i)
		c.Request(brokertest.DeleteRecordsRequest(topic, 0, start), 2)
		end()
		b.Restart(t)
		c = brokertest.Dial(t, b.Addr)
		want(t, "earliest", c.LogStart(topic, 0), start)
		want(t, "below it", c.Fetch(topic, 0, start-1).ErrorCode, errOffsetOutOfRange)
		want(t, "records", len(c.Records(topic, 0, start)), int(5-start))
	}
	c.Request(brokertest.DeleteRecordsRequest(topic, 0, -1), 2)
	b.Kill(t)
	b.Restart(t)
	c = brokertest.Dial(t, b.Addr)
	want(t, "emptied: earliest", c.LogStart(topic, 0), 5)
	want(t, "emptied: next", c.MustProduce(topic, 0, batchOf("f")), 5)
}

func TestI09IncrementalAlterConfigs(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	s := kmsg.StringPtr
	want(t, "set", alter(c, topic.Name, change{"retention.ms", 0, s("1000")}), errNone)
	brokertest.Eventually(t, "it applies", func() bool { return *configOf(t, c, topic.Name, "retention.ms").Value == "1000" })
	want(t, "append to what is no list", alter(c, topic.Name, change{"retention.ms", 2, s("1")}), errInvalidConfig)
	want(t, "one bad of three", alter(c, topic.Name, change{"segment.ms", 0, s("5000")}, change{"retention.ms", 0, s("abc")}, change{"flush.ms", 0, s("5000")}), errInvalidConfig)
	want(t, "none of them is applied", *configOf(t, c, topic.Name, "segment.ms").Value, "604800000")
	want(t, "unknown topic", alter(c, brokertest.FreshName("missing"), change{"retention.ms", 0, s("1")}), errUnknownTopicOrPartition)
	validate := alterRequest(topic.Name, change{"retention.ms", 0, s("77")})
	validate.ValidateOnly = true
	want(t, "validate only", c.Request(validate, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode, errNone)
	want(t, "it changes nothing", *configOf(t, c, topic.Name, "retention.ms").Value, "1000")
	twice := alterRequest(topic.Name, change{"retention.ms", 0, s("5")})
	twice.Resources = append(twice.Resources, alterRequest(topic.Name, change{"segment.ms", 0, s("6")}).Resources...)
	for _, r := range c.Request(twice, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources {
		want(t, "same resource twice", r.ErrorCode, errInvalidRequest)
	}
	want(t, "delete", alter(c, topic.Name, change{"retention.ms", 1, nil}), errNone)
	brokertest.Eventually(t, "the default is back", func() bool { return *configOf(t, c, topic.Name, "retention.ms").Value == "604800000" })
	want(t, "append to a list", alter(c, topic.Name, change{"cleanup.policy", 2, s("delete")}), errNone)
	want(t, "subtract from a list", alter(c, topic.Name, change{"cleanup.policy", 3, s("compact")}), errNone)
	want(t, "cleanup.policy", *configOf(t, c, topic.Name, "cleanup.policy").Value, "delete")
}

func TestI10AlterConfigsReplacesAll(t *testing.T) {
	b, c := start(t)
	for version := int16(0); version <= c.Versions()[33][1]; version++ {
		topic := b.NewTopic(t, 1, map[string]string{"retention.ms": "1000", "segment.ms": "2000"})
		req := kmsg.NewPtrAlterConfigsRequest()
		resource := kmsg.NewAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic.Name
		rc := kmsg.NewAlterConfigsRequestResourceConfig()
		rc.Name, rc.Value = "retention.ms", kmsg.StringPtr("3000")
		resource.Configs = append(resource.Configs, rc)
		req.Resources = append(req.Resources, resource)
		want(t, "error", c.Request(req, version).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode, errNone)
		brokertest.Eventually(t, "it applies", func() bool { return *configOf(t, c, topic.Name, "retention.ms").Value == "3000" })
		want(t, "the other is reset", *configOf(t, c, topic.Name, "segment.ms").Value, "604800000")
	}
}

func TestI11DescribeConfigs(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, map[string]string{"retention.ms": "1000"})
	all := describe(c, kmsg.ConfigResourceTypeTopic, topic.Name, nil)
	want(t, "all", all.ErrorCode, errNone)
	if len(all.Configs) < 20 {
		t.Errorf("only %d topic configs", len(all.Configs))
	}
	want(t, "an empty list is all", len(describe(c, kmsg.ConfigResourceTypeTopic, topic.Name, []string{}).Configs), len(all.Configs))
	set := configOf(t, c, topic.Name, "retention.ms")
	want(t, "value", *set.Value, "1000")
	want(t, "source of a set value", int8(set.Source), 1)
	want(t, "read only", set.ReadOnly, false)
	want(t, "sensitive", set.IsSensitive, false)
	if len(set.ConfigSynonyms) == 0 || set.ConfigSynonyms[0].Name != "retention.ms" || int8(set.ConfigSynonyms[0].Source) != 1 {
		t.Errorf("synonyms %+v, want the topic's own first", set.ConfigSynonyms)
	}
	unset := configOf(t, c, topic.Name, "segment.ms")
	want(t, "source of a default", int8(unset.Source), 5)
	want(t, "default", *unset.Value, "604800000")
	want(t, "unknown topic", describe(c, kmsg.ConfigResourceTypeTopic, brokertest.FreshName("missing"), nil).ErrorCode, errUnknownTopicOrPartition)
	want(t, "no such key", len(describe(c, kmsg.ConfigResourceTypeTopic, topic.Name, []string{"no.such.key"}).Configs), 0)

	node := c.Request(brokertest.MetadataRequest(), 9).(*kmsg.MetadataResponse).Brokers[0].NodeID
	own := describe(c, kmsg.ConfigResourceTypeBroker, fmt.Sprint(node), nil)
	want(t, "own broker", own.ErrorCode, errNone)
	if len(own.Configs) < 20 {
		t.Errorf("only %d broker configs", len(own.Configs))
	}
	want(t, "dynamic defaults", describe(c, kmsg.ConfigResourceTypeBroker, "", nil).ErrorCode, errNone)
	want(t, "another broker", describe(c, kmsg.ConfigResourceTypeBroker, fmt.Sprint(node+55), nil).ErrorCode, errInvalidRequest)
	for _, config := range own.Configs {
		if config.IsSensitive && config.Value != nil {
			t.Errorf("sensitive %s has a value", config.Name)
		}
	}
}

func TestI12ClusterAndLogDirs(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	c.MustProduce(topic, 0, batchOf(strings.Repeat("x", 10_000)))
	versions := c.Versions()
	if span, ok := versions[60]; ok {
		for version := span[0]; version <= span[1]; version++ {
			resp := c.Request(kmsg.NewPtrDescribeClusterRequest(), version).(*kmsg.DescribeClusterResponse)
			want(t, "cluster", resp.ErrorCode, errNone)
			want(t, "brokers", len(resp.Brokers), 1)
			if resp.ClusterID == "" || resp.ControllerID != resp.Brokers[0].NodeID {
				t.Errorf("cluster %q, controller %d of %+v", resp.ClusterID, resp.ControllerID, resp.Brokers)
			}
		}
	}
	if span, ok := versions[35]; ok {
		for version := span[0]; version <= span[1]; version++ {
			resp := c.Request(brokertest.Minimal(35, version, topic), version).(*kmsg.DescribeLogDirsResponse)
			want(t, "directories", len(resp.Dirs), 1)
			want(t, "topics", len(resp.Dirs[0].Topics), 1)
			p := resp.Dirs[0].Topics[0].Partitions
			want(t, "partitions", len(p), 1)
			if p[0].Size < 10_000 {
				t.Errorf("size %d, want at least 10,000", p[0].Size)
			}
			if version >= 4 && (resp.Dirs[0].TotalBytes <= 0 || resp.Dirs[0].UsableBytes <= 0) {
				t.Errorf("volume %d of %d bytes usable", resp.Dirs[0].UsableBytes, resp.Dirs[0].TotalBytes)
			}
		}
	}
}

func TestI13DeleteTopics(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	c.MustProduce(topic, 0, batchOf("old"))
	want(t, "by name", c.Request(brokertest.DeleteTopicsRequest(topic.Name), 5).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, errNone)
	again := b.CreateTopic(t, topic.Name, 2, nil)
	if again.ID == topic.ID {
		t.Error("the topic id did not change")
	}
	want(t, "log end of the new topic", c.LogEnd(again, 0), 0)
	want(t, "bytes of the new topic", len(c.Fetch(again, 0, 0).RecordBatches), 0)
	c.MustProduce(again, 0, batchOf("new"))
	want(t, "first record", string(c.Records(again, 0, 0)[0].Value), "new")

	v6 := func(topics ...kmsg.DeleteTopicsRequestTopic) []kmsg.DeleteTopicsResponseTopic {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Topics, req.TimeoutMillis = topics, 10_000
		return c.Request(req, 6).(*kmsg.DeleteTopicsResponse).Topics
	}
	name := kmsg.StringPtr
	want(t, "by id", v6(kmsg.DeleteTopicsRequestTopic{TopicID: again.ID})[0].ErrorCode, errNone)
	want(t, "unknown name", v6(kmsg.DeleteTopicsRequestTopic{Topic: name(topic.Name)})[0].ErrorCode, errUnknownTopicOrPartition)
	want(t, "unknown id", v6(kmsg.DeleteTopicsRequestTopic{TopicID: again.ID})[0].ErrorCode, errUnknownTopicID)
	third := b.NewTopic(t, 1, nil)
	want(t, "both", v6(kmsg.DeleteTopicsRequestTopic{Topic: name(third.Name), TopicID: third.ID})[0].ErrorCode, errInvalidRequest)
	want(t, "neither", v6(kmsg.DeleteTopicsRequestTopic{})[0].ErrorCode, errInvalidRequest)
	for _, rt := range v6(kmsg.DeleteTopicsRequestTopic{Topic: name(third.Name)}, kmsg.DeleteTopicsRequestTopic{Topic: name(third.Name)}) {
		want(t, "duplicate", rt.ErrorCode, errInvalidRequest)
	}
	want(t, "still there", exists(c, third.Name), true)
	for version := int16(1); version <= 5; version++ {
		resp := c.Request(brokertest.DeleteTopicsRequest(topic.Name), version).(*kmsg.DeleteTopicsResponse)
		want(t, "unknown by name", resp.Topics[0].ErrorCode, errUnknownTopicOrPartition)
		want(t, "its name", *resp.Topics[0].Topic, topic.Name)
	}
}

// TestI14AdminRequestsAreTakenHere: the controller that clients are told of is the broker that answers, and it takes
// what is for a controller.
func TestI14AdminRequestsAreTakenHere(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	for version := int16(1); version <= 13; version++ {
		resp := c.Request(brokertest.MetadataRequest(topic.Name), version).(*kmsg.MetadataResponse)
		want(t, fmt.Sprint("v", version, ": brokers"), len(resp.Brokers), 1)
		want(t, fmt.Sprint("v", version, ": controller"), resp.ControllerID, resp.Brokers[0].NodeID)
	}
	created := c.Request(brokertest.Minimal(19, 5, topic), 5).(*kmsg.CreateTopicsResponse)
	want(t, "an admin request", created.Topics[0].ErrorCode, errNone)
}

func TestI15TopicsComeAndGoInParallel(t *testing.T) {
	b, c := start(t)
	c.Alive()
	before := openFiles(t, b)
	const workers, rounds = 4, 10
	ids := make(chan [16]byte, workers*rounds)
	done := make(chan struct{})
	for w := range workers {
		own := brokertest.Dial(t, b.Addr)
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range rounds {
				name := brokertest.FreshName(fmt.Sprintf("i15-%d-%d", w, i))
				rt, err := call[*kmsg.CreateTopicsResponse](own, brokertest.CreateTopicsRequest(false, brokertest.NewTopicSpec(name, 5, nil)), 7)
				if err != nil || rt.Topics[0].ErrorCode != errNone {
					t.Errorf("create %s: %v %+v", name, err, rt)
					return
				}
				topic := brokertest.Topic{Name: name, ID: rt.Topics[0].TopicID}
				ids <- topic.ID
				for p := range int32(5) { // NONE, or 6 where the topic is still being made
					if _, err := call[*kmsg.ProduceResponse](own, brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Partition: p, Records: batchOf("v").Encode()}), 9); err != nil {
						t.Errorf("produce to %s: %v", name, err)
					}
				}
				if _, err := call[*kmsg.DeleteTopicsResponse](own, brokertest.DeleteTopicsRequest(name), 5); err != nil {
					t.Errorf("delete %s: %v", name, err)
				}
			}
		}()
	}
	for range workers {
		<-done
	}
	close(ids)
	seen := map[[16]byte]bool{}
	for id := range ids {
		want(t, "id was given before", seen[id], false)
		seen[id] = true
	}
	want(t, "topics", len(seen), workers*rounds)
	brokertest.Eventually(t, "descriptors are given back", func() bool { return openFiles(t, b) <= before+20 })
	c.Alive()
}

// call is Request for goroutines, which must not end a test.
func call[R kmsg.Response](c *brokertest.Conn, req kmsg.Request, version int16) (resp R, err error) {
	raw, correlation := c.Frame(req, version)
	if err := c.TrySendFrame(raw); err != nil {
		return resp, err
	}
	got, err := c.TryReceive(req, correlation, brokertest.Patience)
	if err != nil {
		return resp, err
	}
	return got.(R), nil
}
