package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestI07CreatePartitions(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 2)
	h.create("b", 1)
	topic := func(name string, count int32, replicas ...[]int32) kmsg.CreatePartitionsRequestTopic {
		out := kmsg.NewCreatePartitionsRequestTopic()
		out.Topic, out.Count = name, count
		for _, r := range replicas {
			out.Assignment = append(out.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: r})
		}
		return out
	}
	f := func(want string, validateOnly bool, topics ...kmsg.CreatePartitionsRequestTopic) {
		t.Helper()
		for v := int16(0); v <= 3; v++ {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.Topics, req.ValidateOnly = topics, validateOnly || v < 3
			got := ""
			for _, out := range ask[*kmsg.CreatePartitionsResponse](h, v, req).Topics {
				got += fmt.Sprintf("%s/%d ", out.Topic, out.ErrorCode)
				equal(h, "message", out.ErrorMessage == nil, out.ErrorCode == 0)
			}
			equal(h, fmt.Sprint("v", v), got, want)
		}
	}
	f("a/37 none/3 b/0 ", true, topic("a", 1), topic("none", 5), topic("b", 2))
	f("a/37 ", false, topic("a", 2))
	f("a/37 ", false, topic("a", -1))
	f("a/39 ", false, topic("a", 4, []int32{1}))
	f("a/39 ", false, topic("a", 3, []int32{7}))
	f("a/39 ", false, topic("a", 3, []int32{}))
	f("a/39 ", false, topic("a", 3, []int32{1, 1}))
	f("a/42 b/0 ", true, topic("a", 3), topic("b", 2), topic("a", 4))
	f("a/44 ", false, topic("a", 2147483647))
	equal(h, "partitions", len(h.s.image().TopicByName([]byte("a")).Partitions), 2)
	f("a/0 ", false, topic("a", 3, []int32{1}))
	equal(h, "partitions", len(h.s.image().TopicByName([]byte("a")).Partitions), 3)
	if _, code := h.s.locate(h.s.image(), "a", 2); code != codeNone {
		t.Error("the new partition has no log")
	}
}
