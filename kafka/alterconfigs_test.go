package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
)

const (
	topicKind  = kmsg.ConfigResourceTypeTopic
	brokerKind = kmsg.ConfigResourceTypeBroker
)

type configOp struct {
	name  string
	op    int8
	value string // "NULL": null
}

func (h *handlerTest) increment(kind kmsg.ConfigResourceType, name string, validateOnly bool, ops ...configOp) int16 {
	h.Helper()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, op := range ops {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = op.name, kmsg.IncrementalAlterConfigOp(op.op)
		if op.value != "NULL" {
			c.Value = &op.value
		}
		r.Configs = append(r.Configs, c)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources, req.ValidateOnly = append(req.Resources, r), validateOnly
	out := ask[*kmsg.IncrementalAlterConfigsResponse](h, 1, req).Resources
	if len(out) != 1 || out[0].ResourceName != name || out[0].ResourceType != kind || (out[0].ErrorMessage == nil) != (out[0].ErrorCode == 0) {
		h.Errorf("answer %+v", out)
	}
	return out[0].ErrorCode
}

func (h *handlerTest) replace(kind kmsg.ConfigResourceType, name string, configs ...string) int16 {
	h.Helper()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		c.Name = configs[i]
		if configs[i+1] != "NULL" {
			c.Value = &configs[i+1]
		}
		r.Configs = append(r.Configs, c)
	}
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	return ask[*kmsg.AlterConfigsResponse](h, 2, req).Resources[0].ErrorCode
}

func (h *handlerTest) configsOf(topic string) string {
	return fmt.Sprint(h.s.image().TopicByName([]byte(topic)).Configs)
}

func TestI09IncrementalAlterConfigs(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1, "retention.ms", "5000")
	f := func(want int16, configs string, ops ...configOp) {
		t.Helper()
		equal(h, fmt.Sprint(ops), h.increment(topicKind, "a", false, ops...), want)
		equal(h, fmt.Sprint(ops), h.configsOf("a"), "map["+configs+"]")
	}
	f(0, "segment.ms:9999", configOp{"segment.ms", 0, "9999"}, configOp{"retention.ms", 1, "NULL"})
	f(codeInvalidConfig, "segment.ms:9999", configOp{"retention.ms", 2, "1"})                                                                 // no list
	f(codeInvalidConfig, "segment.ms:9999", configOp{"flush.ms", 0, "1"}, configOp{"segment.ms", 0, "x"}, configOp{"flush.messages", 0, "5"}) // all or nothing
	f(codeInvalidConfig, "segment.ms:9999", configOp{"nonsense", 0, "1"})
	f(codeInvalidRequest, "segment.ms:9999", configOp{"segment.ms", 0, "NULL"})
	f(codeInvalidRequest, "segment.ms:9999", configOp{"cleanup.policy", 2, "NULL"})
	f(0, "segment.ms:9999", configOp{"nonsense", 1, "NULL"})                                                 // M19
	f(codeInvalidRequest, "segment.ms:9999", configOp{"segment.ms", 9, "1"})                                 // M19
	f(codeInvalidRequest, "segment.ms:9999", configOp{"segment.ms", 0, "1"}, configOp{"segment.ms", 0, "2"}) // M19
	f(0, "cleanup.policy:delete segment.ms:9999", configOp{"cleanup.policy", 0, "delete"})
	f(0, "cleanup.policy:delete segment.ms:9999", configOp{"cleanup.policy", 2, "delete"})
	f(0, "segment.ms:9999", configOp{"cleanup.policy", 1, "NULL"})
	f(0, "segment.ms:9999")
	equal(h, "validate", h.increment(topicKind, "a", true, configOp{"segment.ms", 0, "1"}), 0)
	equal(h, "validated", h.configsOf("a"), "map[segment.ms:9999]")
	equal(h, "unknown topic", h.increment(topicKind, "none", false, configOp{"segment.ms", 0, "1"}), codeUnknownTopicOrPartition)
	equal(h, "illegal topic", h.increment(topicKind, "a b", false, configOp{"segment.ms", 0, "1"}), codeInvalidTopic)
	equal(h, "all topics", h.increment(topicKind, "", false, configOp{"segment.ms", 0, "1"}), codeInvalidRequest)
	equal(h, "kind 3", h.increment(3, "a", false, configOp{"segment.ms", 0, "1"}), codeInvalidRequest)
}

func TestI09ResourceTwice(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = topicKind, "a"
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r, r)
	for _, out := range ask[*kmsg.IncrementalAlterConfigsResponse](h, 1, req).Resources {
		equal(h, "code", out.ErrorCode, codeInvalidRequest)
	}
}

func TestI10AlterConfigsReplacesAll(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1, "retention.ms", "5000", "flush.ms", "7000")
	equal(h, "set", h.replace(topicKind, "a", "segment.ms", "9999"), 0)
	equal(h, "configs", h.configsOf("a"), "map[segment.ms:9999]")
	equal(h, "null", h.replace(topicKind, "a", "segment.ms", "NULL"), codeInvalidRequest)
	equal(h, "twice", h.replace(topicKind, "a", "segment.ms", "1", "segment.ms", "2"), codeInvalidRequest)
	equal(h, "bad", h.replace(topicKind, "a", "segment.ms", "x"), codeInvalidConfig)
	equal(h, "unknown", h.replace(topicKind, "none", "segment.ms", "1"), codeUnknownTopicOrPartition)
	equal(h, "configs", h.configsOf("a"), "map[segment.ms:9999]")
	equal(h, "none", h.replace(topicKind, "a"), 0)
	equal(h, "configs", h.configsOf("a"), "map[]")
}

func TestAlterConfigsOfBrokers(t *testing.T) {
	h := newHandlerTest(t)
	set := configOp{"log.retention.ms", 0, "777777"}
	equal(h, "all", h.increment(brokerKind, "", false, set), 0)
	equal(h, "all", h.s.image().BrokerConfigs(cluster.AllBrokers).Configs["log.retention.ms"], "777777")
	equal(h, "own", h.increment(brokerKind, "1", false, configOp{"log.retention.ms", 0, "888888"}), 0)
	equal(h, "other", h.increment(brokerKind, "2", false, set), codeInvalidRequest)
	equal(h, "no number", h.increment(brokerKind, "x", false, set), codeInvalidRequest)
	equal(h, "read-only", h.increment(brokerKind, "1", false, configOp{"node.id", 0, "5"}), codeInvalidRequest)
	equal(h, "unknown", h.increment(brokerKind, "1", false, configOp{"foo.bar", 0, "5"}), codeInvalidConfig)
	h.create("a", 1)
	equal(h, "topic", h.described(4, topicKind, "a", "retention.ms"), "retention.ms=888888 2 [log.retention.ms=888888 2][log.retention.ms=777777 3]\n")
	equal(h, "own gone", h.increment(brokerKind, "1", false, configOp{"log.retention.ms", 1, "NULL"}), 0)
	equal(h, "topic", h.described(4, topicKind, "a", "retention.ms"), "retention.ms=777777 3 [log.retention.ms=777777 3]\n")
}

// Two clients that change the same resource at the same time both get through.
func TestAlterConfigsOvertaken(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	h.apply.before = func() {
		command := cluster.AlterConfigs{Resources: []cluster.ResourceConfigs{{Kind: cluster.TopicResource, Name: "a", Configs: map[string]string{"flush.ms": "1"}}}}
		if _, err := h.apply.machine.Apply(command.AppendCommand(nil)); err != nil {
			t.Error(err)
		}
	}
	equal(h, "set", h.increment(topicKind, "a", false, configOp{"segment.ms", 0, "9999"}), 0)
	equal(h, "configs", h.configsOf("a"), "map[flush.ms:1 segment.ms:9999]")
}
