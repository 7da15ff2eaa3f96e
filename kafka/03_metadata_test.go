package kafka

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func metadataOf(create bool, names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = create
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	return req
}

func (h *handlerTest) metadata(version int16, req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	h.Helper()
	return ask[*kmsg.MetadataResponse](h, version, req)
}

// summary is what an answer says of its topics, for comparison: name, code and number of partitions.
func summary(resp *kmsg.MetadataResponse) string {
	var b strings.Builder
	for _, t := range resp.Topics {
		fmt.Fprintf(&b, "%s/%d/%d ", textOf(t.Topic), t.ErrorCode, len(t.Partitions))
	}
	return strings.TrimSpace(b.String())
}

func TestB01NullAndEmptyLists(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	h.create("b", 2)
	f := func(version int16, req *kmsg.MetadataRequest, want string) {
		t.Helper()
		equal(h, fmt.Sprint("v", version), summary(h.metadata(version, req)), want)
	}
	f(0, metadataOf(true), "a/0/1 b/0/2")
	f(1, metadataOf(true), "")
	all := kmsg.NewPtrMetadataRequest()
	f(1, all, "a/0/1 b/0/2")
	f(13, all, "a/0/1 b/0/2")
	f(13, metadataOf(true), "")
}

func TestB02UnknownTopicIsNotCreated(t *testing.T) {
	h := newHandlerTest(t)
	h.create("good", 1)
	equal(h, "v4", summary(h.metadata(4, metadataOf(false, "good", "none", "good"))), "good/0/1 none/3/0") // B06, M08
	equal(h, "topics", h.s.image().TopicCount(), 1)
	off := newHandlerTest(t, "auto.create.topics.enable", "false")
	equal(off, "v1 with the setting off", summary(off.metadata(1, metadataOf(true, "none"))), "none/3/0")
}

func TestB03AutoCreationByManyAtOnce(t *testing.T) {
	h := newHandlerTest(t, "num.partitions", "3")
	var wg sync.WaitGroup
	answers := make([]string, 50)
	for i := range answers {
		wg.Go(func() {
			resp := h.metadata(12, metadataOf(true, "new"))
			answers[i] = fmt.Sprintf("%s %x", summary(resp), resp.Topics[0].TopicID)
		})
	}
	wg.Wait()
	for _, a := range answers {
		equal(h, "answer", a, answers[0])
	}
	equal(h, "answer", strings.HasPrefix(answers[0], "new/0/3"), true)
	equal(h, "old version", summary(h.metadata(0, metadataOf(false, "old"))), "old/0/3")
}

func TestB03AutoCreationThatFailsIsRetriable(t *testing.T) {
	h := newHandlerTest(t)
	h.apply.err = errors.New("no quorum")
	equal(h, "answer", summary(h.metadata(12, metadataOf(true, "new"))), "new/5/0")
}

func TestAutoCreationIsBounded(t *testing.T) {
	h := newHandlerTest(t)
	var names []string
	for i := range autoCreateMax + 5 {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	resp := h.metadata(12, metadataOf(true, names...))
	equal(h, "topics", h.s.image().TopicCount(), autoCreateMax)
	equal(h, "answers", len(resp.Topics), len(names))
	equal(h, "code beyond the bound", resp.Topics[autoCreateMax].ErrorCode, codeLeaderNotAvailable)
}

func TestB04IllegalNames(t *testing.T) {
	h := newHandlerTest(t)
	for _, name := range []string{"", ".", "..", strings.Repeat("x", 250), "a b", "ü", "a/b"} {
		for _, create := range []bool{true, false} {
			equal(h, name, summary(h.metadata(12, metadataOf(create, name))), name+"/17/0")
		}
	}
	equal(h, "249", h.metadata(12, metadataOf(true, strings.Repeat("x", 249))).Topics[0].ErrorCode, codeNone)
}

func TestB05ByTopicID(t *testing.T) {
	h := newHandlerTest(t)
	id := h.create("a", 1)
	h.create("b", 1)
	byID := func(ids ...[16]byte) *kmsg.MetadataRequest {
		req := metadataOf(false)
		for _, id := range ids {
			req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{TopicID: id})
		}
		return req
	}
	known := h.metadata(12, byID(id, id))
	equal(h, "known", summary(known), "a/0/1")
	equal(h, "id", known.Topics[0].TopicID, id)
	unknown := h.metadata(12, byID([16]byte{9}))
	equal(h, "unknown", summary(unknown), "(null)/100/0")
	equal(h, "unknown id", unknown.Topics[0].TopicID, [16]byte{9})
	for _, version := range []int16{10, 11} {
		req := byID([16]byte{}, id)
		req.Topics = append(req.Topics, metadataOf(false, "b").Topics...)
		equal(h, "old version", summary(h.metadata(version, req)), "/42/0 /42/0 b/0/1")
	}
}

func TestM07NamesBesideIDs(t *testing.T) {
	h := newHandlerTest(t)
	id := h.create("a", 1)
	h.create("b", 1)
	other := "b"
	f := func(want string, topics ...kmsg.MetadataRequestTopic) {
		t.Helper()
		req := metadataOf(false)
		req.Topics = topics
		equal(h, "answer", summary(h.metadata(12, req)), want)
	}
	f("a/0/1", kmsg.MetadataRequestTopic{TopicID: id}, kmsg.MetadataRequestTopic{Topic: &other})
	f("a/0/1", kmsg.MetadataRequestTopic{TopicID: id, Topic: &other})
	f("/42/0 b/0/1", kmsg.MetadataRequestTopic{}, kmsg.MetadataRequestTopic{Topic: &other})
}

func TestB08AddressOfTheListener(t *testing.T) {
	h := newHandlerTest(t)
	for listener, host := range map[string]string{"IN": "inside", "OUT": "outside"} {
		h.listener = listener
		b := h.metadata(12, metadataOf(false)).Brokers[0]
		equal(h, listener, b.Host, host)
		equal(h, "rack", textOf(b.Rack), "r1")
		equal(h, "node", b.NodeID, testNode)
		c := ask[*kmsg.DescribeClusterResponse](h, 2, kmsg.NewPtrDescribeClusterRequest())
		equal(h, listener, c.Brokers[0].Host, host)
	}
}

func TestMetadataAuthorizedOperations(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	req := metadataOf(false, "a")
	resp := h.metadata(8, req)
	equal(h, "cluster, not asked", resp.AuthorizedOperations, notAsked)
	equal(h, "topic, not asked", resp.Topics[0].AuthorizedOperations, notAsked)
	req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
	resp = h.metadata(8, req)
	equal(h, "cluster", resp.AuthorizedOperations, 8096)
	equal(h, "topic", resp.Topics[0].AuthorizedOperations, 3576)
}
