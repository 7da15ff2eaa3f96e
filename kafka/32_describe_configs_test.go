package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// described lists entries as name=value source [synonyms].
func (h *handlerTest) described(version int16, kind kmsg.ConfigResourceType, name string, keys ...string) string {
	h.Helper()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources, req.IncludeSynonyms = append(req.Resources, r), true
	out := ask[*kmsg.DescribeConfigsResponse](h, version, req).Resources[0]
	if out.ErrorCode != 0 {
		return fmt.Sprint("code ", out.ErrorCode)
	}
	var b strings.Builder
	for _, c := range out.Configs {
		fmt.Fprintf(&b, "%s=%s %d ", c.Name, textOf(c.Value), c.Source)
		for _, s := range c.ConfigSynonyms {
			fmt.Fprintf(&b, "[%s=%s %d]", s.Name, textOf(s.Value), s.Source)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestI11DescribeConfigs(t *testing.T) {
	h := newHandlerTest(t, "num.partitions", "1")
	h.create("a", 1, "retention.ms", "5000")
	lines := func(s string) int { return strings.Count(s, "\n") }
	all := lines(h.described(4, topicKind, "a"))
	equal(h, "null asks for all", all > 25, true)
	equal(h, "an empty list too", lines(h.described(4, topicKind, "a", []string{}...)), all)
	equal(h, "one", h.described(4, topicKind, "a", "retention.ms", "nonsense", "retention.ms"), "retention.ms=5000 1 [retention.ms=5000 1]\n")
	equal(h, "default", h.described(1, topicKind, "a", "segment.bytes"), "segment.bytes=1073741824 5 [log.segment.bytes=1073741824 5]\n")
	equal(h, "unknown topic", h.described(4, topicKind, "none"), "code 3")
	equal(h, "illegal topic", h.described(4, topicKind, "a b"), "code 17")
	equal(h, "dynamic defaults", h.described(4, brokerKind, ""), "")
	equal(h, "own broker", lines(h.described(4, brokerKind, "1")) > 30, true)
	equal(h, "other broker", h.described(4, brokerKind, "2"), "code 42")
	equal(h, "no broker", h.described(4, brokerKind, "x"), "code 42")
	equal(h, "kind 3", h.described(4, 3, "x"), "code 42")
}

func TestI11TypesAndDocumentation(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = topicKind, "a", []string{"retention.ms"}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources, req.IncludeDocumentation = append(req.Resources, r), true
	c := ask[*kmsg.DescribeConfigsResponse](h, 4, req).Resources[0].Configs[0]
	equal(h, "type", c.ConfigType, kmsg.ConfigTypeLong)
	equal(h, "documentation", len(textOf(c.Documentation)) > 20, true)
	equal(h, "read-only", c.ReadOnly, false)
	equal(h, "synonyms that were not asked for", len(c.ConfigSynonyms), 0)
	r.ResourceType, r.ResourceName, r.ConfigNames = brokerKind, "1", []string{"node.id"}
	req.Resources[0] = r
	c = ask[*kmsg.DescribeConfigsResponse](h, 4, req).Resources[0].Configs[0]
	equal(h, "read-only", c.ReadOnly, true)
	equal(h, "source", c.Source, kmsg.ConfigSourceStaticBrokerConfig)
}
