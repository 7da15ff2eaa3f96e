package kafka

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
)

func (h *handlerTest) createTopics(version int16, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	h.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.ValidateOnly = topics, validateOnly
	return ask[*kmsg.CreateTopicsResponse](h, version, req).Topics
}

// refused makes one topic and compares the code; a refusal says why and makes nothing.
func (h *handlerTest) refused(want int16, topic kmsg.CreateTopicsRequestTopic) {
	h.Helper()
	before := h.s.image().TopicCount()
	out := h.createTopics(7, false, topic)
	if len(out) != 1 || out[0].ErrorCode != want || out[0].ErrorMessage == nil || out[0].Topic != topic.Topic {
		h.Errorf("%+v, want code %d with a message", out, want)
	}
	equal(h, "topics", h.s.image().TopicCount(), before)
}

func TestI01ValidateOnly(t *testing.T) {
	h := newHandlerTest(t)
	h.create("there", 1)
	out := h.createTopics(7, true, topicToCreate("new", 3, 1, "retention.ms", "5"), topicToCreate("there", 1, 1), topicToCreate("bad", 1, 1, "nonsense", "1"))
	equal(h, "new", out[0].ErrorCode, codeNone)
	equal(h, "partitions", out[0].NumPartitions, 3)
	equal(h, "factor", out[0].ReplicationFactor, 1)
	equal(h, "M18: id is there", out[0].TopicID != [16]byte{}, true)
	equal(h, "there", out[1].ErrorCode, codeTopicAlreadyExists)
	equal(h, "bad", out[2].ErrorCode, codeInvalidConfig)
	equal(h, "topics", h.s.image().TopicCount(), 1)
	for _, c := range out[0].Configs {
		switch c.Name {
		case "retention.ms":
			equal(h, c.Name, fmt.Sprintf("%s %d", *c.Value, c.Source), "5 1")
		case "segment.bytes":
			equal(h, c.Name, fmt.Sprintf("%s %d", *c.Value, c.Source), "1073741824 5")
		}
	}
	equal(h, "configs", len(out[0].Configs) > 20, true)
	equal(h, "configs of a refusal are not null", out[1].Configs != nil, true)
}

func TestI02CountsAndAssignments(t *testing.T) {
	h := newHandlerTest(t, "num.partitions", "4")
	for v := int16(2); v <= 7; v++ {
		out := h.createTopics(v, false, topicToCreate(fmt.Sprint("v", v), -1, -1))
		equal(h, "code", out[0].ErrorCode, codeNone)
		equal(h, "partitions", len(h.s.image().TopicByName([]byte(out[0].Topic)).Partitions), 4)
	}
	h.refused(codeInvalidPartitions, topicToCreate("n", 0, 1))
	h.refused(codeInvalidPartitions, topicToCreate("n", -2, 1))
	h.refused(codeInvalidReplicationFactor, topicToCreate("n", 1, 0))
	h.refused(codeInvalidReplicationFactor, topicToCreate("n", 1, -2))
	h.refused(codeInvalidReplicationFactor, topicToCreate("n", 1, 2))
	h.refused(codeInvalidRequest, assigned(topicToCreate("n", 1, -1), 0, []int32{1}))
	h.refused(codeInvalidRequest, assigned(topicToCreate("n", -1, 1), 0, []int32{1}))
	h.refused(codeInvalidReplicaAssignment, assigned(topicToCreate("n", -1, -1), 0, nil))
	h.refused(codeInvalidReplicaAssignment, assigned(topicToCreate("n", -1, -1), 0, []int32{7}))
	h.refused(codeInvalidReplicaAssignment, assigned(topicToCreate("n", -1, -1), 0, []int32{1, 1}))
	h.refused(codeInvalidReplicaAssignment, assigned(topicToCreate("n", -1, -1), 1, []int32{1}))
	h.refused(codeInvalidReplicaAssignment, assigned(topicToCreate("n", -1, -1), -1, []int32{1}))
	h.refused(codeInvalidReplicaAssignment, assigned(assigned(topicToCreate("n", -1, -1), 0, []int32{1}), 0, []int32{1}))
	out := h.createTopics(7, false, assigned(assigned(topicToCreate("ok", -1, -1), 1, []int32{1}), 0, []int32{1}))
	equal(h, "assigned", fmt.Sprint(out[0].ErrorCode, out[0].NumPartitions, out[0].ReplicationFactor), "0 2 1")
}

func assigned(t kmsg.CreateTopicsRequestTopic, partition int32, replicas []int32) kmsg.CreateTopicsRequestTopic {
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Partition, a.Replicas = partition, replicas
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	return t
}

func TestI03ExistenceWins(t *testing.T) {
	h := newHandlerTest(t)
	h.create("there", 1)
	h.refused(codeTopicAlreadyExists, topicToCreate("there", 1, 99))
	h.refused(codeTopicAlreadyExists, topicToCreate("there", -5, 99, "nonsense", "1"))
}

func TestI04NamesThatLookAlike(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a.b", 1)
	h.refused(codeInvalidTopic, topicToCreate("a_b", 1, 1))
	for _, out := range h.createTopics(7, false, topicToCreate("c.d", 1, 1), topicToCreate("c_d", 1, 1), topicToCreate("A", 1, 1), topicToCreate("a", 1, 1)) {
		equal(h, out.Topic, out.ErrorCode, codeNone)
	}
	for _, name := range []string{"", ".", "..", "a b", strings.Repeat("x", 250)} {
		h.refused(codeInvalidTopic, topicToCreate(name, 1, 1))
	}
	h.refused(codeInvalidRequest, topicToCreate(reservedTopic, 1, 1))
}

func TestI05NameTwice(t *testing.T) {
	h := newHandlerTest(t)
	out := h.createTopics(7, false, topicToCreate("twice", 1, 1), topicToCreate("once", 1, 1), topicToCreate("twice", 1, 1))
	equal(h, "answers", len(out), 2)
	equal(h, "twice", fmt.Sprintf("%s %d", out[0].Topic, out[0].ErrorCode), "twice 42")
	equal(h, "once", fmt.Sprintf("%s %d", out[1].Topic, out[1].ErrorCode), "once 0")
}

func TestI06IllegalConfigs(t *testing.T) {
	h := newHandlerTest(t)
	h.refused(codeInvalidConfig, topicToCreate("n", 1, 1, "unknown.key", "1"))
	h.refused(codeInvalidConfig, topicToCreate("n", 1, 1, "retention.ms", "abc"))
	h.refused(codeInvalidConfig, topicToCreate("n", 1, 1, "retention.ms", "NULL"))
	h.refused(codeInvalidConfig, topicToCreate("n", 1, 1, "cleanup.policy", "foo"))
	h.refused(codeInvalidConfig, topicToCreate("n", 1, 1, "segment.ms", "0"))
	h.refused(codeInvalidConfig, topicToCreate("n", 9, 9, "segment.ms", "0"))
	h.create("forever", 1, "retention.ms", "-1")
	h.create("last-wins", 1, "retention.ms", "1", "retention.ms", "2")
	equal(h, "last wins", h.s.image().TopicByName([]byte("last-wins")).Configs["retention.ms"], "2")
}

func TestM18TooManyPartitions(t *testing.T) {
	h := newHandlerTest(t)
	h.refused(codePolicyViolation, topicToCreate("n", 100_001, 1))
	h.refused(codePolicyViolation, topicToCreate("n", 2147483647, 1))
}

func TestM21ShardsAreThere(t *testing.T) {
	h := newHandlerTest(t)
	id := h.create("n", 5)
	for p := range int32(5) {
		if h.s.shard(model.TopicID(id), p) == nil {
			t.Errorf("partition %d has no log", p)
		}
	}
}

func TestCreateTopicsWhenNothingCanBeProposed(t *testing.T) {
	h := newHandlerTest(t)
	h.apply.err = context.DeadlineExceeded
	h.refused(codeRequestTimedOut, topicToCreate("n", 1, 1))
}
