package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

const errGroupMaxSize = 81

// Members that misuse a group cost bounded memory, get the protocol's own codes, and leave a well-behaved group alone.
func TestHostileMembers(t *testing.T) {
	b := startConsumers(t)
	topic := b.NewTopic(t, 1, nil)
	good := b.NewConsumer(t, brokertest.FreshName("good"), topic.Name)
	want(t, "join", good.Join().ErrorCode, errNone)
	w := watchMemory(t, b)

	// Ids that are asked for and never used, members that come and drop, and one that never syncs.
	m := b.NewMember(t, brokertest.FreshName("loop"), topic.Name)
	for range 3000 {
		m.ID = ""
		if code := m.Join().ErrorCode; code != errMemberIDRequired {
			t.Fatalf("join: code %d", code)
		}
	}
	m.Group, m.JoinVersion, m.Rebalance = brokertest.FreshName("unsynced"), 3, 300
	m.ID = ""
	want(t, "join", m.Join().ErrorCode, errNone)
	brokertest.Eventually(t, "who never syncs is out", func() bool { return m.Heartbeat() == errUnknownMember })
	c := b.NewConsumer(t, brokertest.FreshName("loop"), topic.Name)
	for range 1000 {
		c.ID = brokertest.FreshName("member")
		want(t, "join", c.Join().ErrorCode, errNone)
		want(t, "leave", c.Leave(-1), errNone)
	}
	want(t, "members left", len(c.DescribeConsumerGroup(c.Group).Members), 0)

	// 10 MB of metadata each, until the coordinator holds as much as it will.
	refused := false
	big := b.NewMember(t, "big", topic.Name)
	big.JoinVersion = 3
	big.Metadata = append(big.Metadata, make([]byte, 10_000_000)...)
	for i := range 40 {
		big.Group, big.ID = fmt.Sprintf("big-%d", i), ""
		switch code := big.Join().ErrorCode; code {
		case errNone:
		case errGroupMaxSize:
			refused = true
		default:
			t.Fatalf("join with 10 MB: code %d", code)
		}
	}
	if !refused {
		t.Error("400 MB of metadata are held")
	}
	c.Topics, c.ID = []string{strings.Repeat("x", 10_000_000)}, brokertest.FreshName("member")
	want(t, "join with a name of 10 MB", c.Join().ErrorCode, errGroupMaxSize)
	regex := strings.Repeat("(a|b)", 100_000)
	c.Topics, c.Regex = nil, &regex
	if code := c.Join().ErrorCode; code != errInvalidRegex && code != errGroupMaxSize {
		t.Errorf("join with an expression of 500 KB: code %d", code)
	}

	// An expression that takes long: others go on meanwhile.
	for i := range 100 {
		b.CreateTopic(t, fmt.Sprintf("regex-%030d", i), 1, nil)
	}
	slow := strings.Repeat("(?:.?){1000}", 3)
	c.ID, c.Topics, c.Regex = brokertest.FreshName("member"), nil, &slow
	want(t, "join with an expression that is slow", c.Join().ErrorCode, errNone)
	for range 20 {
		began := time.Now()
		want(t, "the good member", good.Beat().ErrorCode, errNone)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a heartbeat beside it took %v", took)
		}
	}
	large := strings.Repeat("(?:.?){1000}", 20)
	c.Regex = &large
	want(t, "join with an expression that is too large", c.Join().ErrorCode, errInvalidRegex)

	// Offsets of partitions that do not exist.
	lost := brokertest.Topic{Name: "no-such-topic"}
	simple := &brokertest.Member{Conn: m.Conn, Group: brokertest.FreshName("lost"), Generation: -1}
	for range 1000 {
		want(t, "commit", simple.Commit(8, lost, 1, nil), errUnknownTopicOrPartition)
	}
	want(t, "groups that only such commits named", listed(m.Conn, simple.Group)["classic Empty"], 0)

	w.grown("hostile members", 384<<20)
	want(t, "the good member", good.Beat().ErrorCode, errNone)
	r := kmsg.NewPtrListGroupsRequest()
	want(t, "list", m.Request(r, 5).(*kmsg.ListGroupsResponse).ErrorCode, errNone)
}
