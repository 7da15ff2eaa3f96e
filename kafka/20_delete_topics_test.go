package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteTopics names topics by name (string) or id, in v6.
func (h *handlerTest) deleteTopics(topics ...kmsg.DeleteTopicsRequestTopic) string {
	h.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics = topics
	var b strings.Builder
	for _, t := range ask[*kmsg.DeleteTopicsResponse](h, 6, req).Topics {
		fmt.Fprintf(&b, "%s/%x/%d ", textOf(t.Topic), t.TopicID[:1], t.ErrorCode)
		equal(h, "message", t.ErrorMessage == nil, t.ErrorCode == codeNone)
	}
	return strings.TrimSpace(b.String())
}

func byName(name string) kmsg.DeleteTopicsRequestTopic {
	return kmsg.DeleteTopicsRequestTopic{Topic: &name}
}

func byID(id [16]byte) kmsg.DeleteTopicsRequestTopic {
	return kmsg.DeleteTopicsRequestTopic{TopicID: id}
}

func TestI13DeleteTopics(t *testing.T) {
	h := newHandlerTest(t)
	a, b, c := h.create("a", 1), h.create("b", 1), h.create("c", 1)
	both := byName("c")
	both.TopicID = c
	hex := func(id [16]byte) string { return fmt.Sprintf("%x", id[:1]) }
	equal(h, "good", h.deleteTopics(byName("a"), byID(b)), "a/"+hex(a)+"/0 b/"+hex(b)+"/0")
	equal(h, "unknown", h.deleteTopics(byName("a"), byID(b)), "a/00/3 (null)/"+hex(b)+"/100")
	equal(h, "both, neither", h.deleteTopics(both, byID([16]byte{})), "c/"+hex(c)+"/42 (null)/00/42")
	equal(h, "name twice", h.deleteTopics(byName("c"), byName("c")), "c/"+hex(c)+"/42")
	equal(h, "id twice", h.deleteTopics(byID(c), byID(c)), "(null)/"+hex(c)+"/42")
	equal(h, "name and id", h.deleteTopics(byName("c"), byID(c)), "c/"+hex(c)+"/42 (null)/"+hex(c)+"/42")
	equal(h, "topics", h.s.image().TopicCount(), 1)
	equal(h, "made anew with another id", h.create("a", 1) != a, true)
	for v := int16(1); v <= 5; v++ {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TopicNames = []string{"a", "gone", "a b"}
		resp := ask[*kmsg.DeleteTopicsResponse](h, v, req)
		equal(h, "answers", len(resp.Topics), 3)
		equal(h, "a", resp.Topics[0].ErrorCode, codeNone)
		equal(h, "gone", resp.Topics[1].ErrorCode, codeUnknownTopicOrPartition)
		equal(h, "a b", resp.Topics[2].ErrorCode, codeUnknownTopicOrPartition)
		h.create("a", 1)
	}
}

func TestDeleteTopicsSwitchedOff(t *testing.T) {
	h := newHandlerTest(t, "delete.topic.enable", "false")
	h.create("a", 1)
	equal(h, "v6", strings.HasSuffix(h.deleteTopics(byName("a")), "/73"), true)
	equal(h, "topics", h.s.image().TopicCount(), 1)
}
