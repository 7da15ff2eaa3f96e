package broker_test

import (
	"encoding/binary"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

func TestB01EmptyAndNullTopicLists(t *testing.T) {
	b, c := start(t)
	topics := []brokertest.Topic{b.NewTopic(t, 1, nil), b.NewTopic(t, 2, nil), b.NewTopic(t, 3, nil)}
	f := func(frame string, version int16, all bool) {
		t.Helper()
		c.SendFrame(brokertest.Hex(t, frame))
		req := kmsg.NewPtrMetadataRequest()
		req.Version = version
		resp := c.Receive(req, brokertest.Correlation).(*kmsg.MetadataResponse)
		want(t, "brokers", len(resp.Brokers), 1)
		if !all {
			want(t, "topics", len(resp.Topics), 0)
			return
		}
		for i, topic := range topics {
			found := false
			for _, rt := range resp.Topics {
				if *rt.Topic == topic.Name {
					found = true
					want(t, "error", rt.ErrorCode, errNone)
					want(t, "partitions", len(rt.Partitions), i+1)
				}
			}
			want(t, topic.Name+" is listed", found, true)
		}
	}
	f(brokertest.F5, 0, true)
	f(brokertest.F6, 1, false)
	f(brokertest.F7, 1, true)
}

func TestB02UnknownTopicIsNotCreatedUnasked(t *testing.T) {
	_, c := start(t)
	name := brokertest.FreshName("missing")
	for version := int16(4); version <= c.Versions()[3][1]; version++ {
		resp := c.Request(brokertest.MetadataRequest(name), version).(*kmsg.MetadataResponse)
		want(t, "topics", len(resp.Topics), 1)
		want(t, "error", resp.Topics[0].ErrorCode, errUnknownTopicOrPartition)
		want(t, "name", *resp.Topics[0].Topic, name)
		want(t, "partitions", len(resp.Topics[0].Partitions), 0)
	}
}

func TestB03FiftyConnectionsCreateOneTopic(t *testing.T) {
	b, _ := start(t)
	name := brokertest.FreshName("auto")
	ask := func(c *brokertest.Conn) *kmsg.MetadataRequest {
		req := brokertest.MetadataRequest(name)
		req.AllowAutoTopicCreation = true
		return req
	}
	conns := make([]*brokertest.Conn, 50)
	ids := make([]int32, len(conns))
	for i := range conns {
		conns[i] = brokertest.Dial(t, b.Addr)
	}
	for i, c := range conns {
		ids[i] = c.Send(ask(c), 12)
	}
	for i, c := range conns {
		req := ask(c)
		req.Version = 12
		resp := c.Receive(req, ids[i]).(*kmsg.MetadataResponse)
		wantOneOf(t, "first answer", resp.Topics[0].ErrorCode, errNone, errUnknownTopicOrPartition, errLeaderNotAvailable)
	}
	var topic brokertest.Topic
	for _, c := range conns {
		brokertest.Eventually(t, name+" has a leader", func() bool {
			rt := c.Request(brokertest.MetadataRequest(name), 12).(*kmsg.MetadataResponse).Topics[0]
			if rt.ErrorCode != 0 || len(rt.Partitions) == 0 || rt.Partitions[0].ErrorCode != 0 || rt.Partitions[0].Leader < 0 {
				return false
			}
			if topic.Name != "" && rt.TopicID != topic.ID {
				t.Fatalf("two topic ids: %x and %x", rt.TopicID, topic.ID)
			}
			topic = brokertest.Topic{Name: name, ID: rt.TopicID}
			return true
		})
	}
	if brokertest.Outside() != "" {
		brokertest.Eventually(t, "the leader answers", func() bool { return conns[0].ListOffset(topic, 0, -1).ErrorCode == 0 })
	}
	want(t, "first produce", conns[0].Produce(topic, 0, brokertest.NewBatch(brokertest.Values(1, "v")...).Encode()).ErrorCode, errNone)
}

func TestB04InvalidTopicNames(t *testing.T) {
	_, c := start(t)
	for _, name := range []string{"", ".", "..", strings.Repeat("a", 250), "a b", "ü", "a/b", "../a", "a\x00b"} {
		req := brokertest.MetadataRequest(name)
		req.AllowAutoTopicCreation = true
		resp := c.Request(req, 9).(*kmsg.MetadataResponse)
		want(t, strconv.Quote(name)+" in metadata", resp.Topics[0].ErrorCode, errInvalidTopic)
		want(t, "name", *resp.Topics[0].Topic, name)
		created := c.Request(brokertest.CreateTopicsRequest(false, brokertest.NewTopicSpec(name, 1, nil)), 5).(*kmsg.CreateTopicsResponse)
		want(t, strconv.Quote(name)+" in create topics", created.Topics[0].ErrorCode, errInvalidTopic)
	}
	all := kmsg.NewPtrMetadataRequest()
	for _, rt := range c.Request(all, 9).(*kmsg.MetadataResponse).Topics {
		if len(*rt.Topic) > 249 || strings.ContainsAny(*rt.Topic, " /ü\x00") || strings.Trim(*rt.Topic, ".") == "" {
			t.Errorf("topic %q exists", *rt.Topic)
		}
	}
	longest := brokertest.FreshName("long-")
	longest += strings.Repeat("a", 249-len(longest))
	resp := c.Request(brokertest.CreateTopicsRequest(false, brokertest.NewTopicSpec(longest, 1, nil)), 5).(*kmsg.CreateTopicsResponse)
	want(t, "249 characters", resp.Topics[0].ErrorCode, errNone)
	c.Request(brokertest.DeleteTopicsRequest(longest), 5)
}

// byID asks Metadata for ids and names; a nil name with a zero id is the malformed entry.
func byID(topics ...kmsg.MetadataRequestTopic) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = topics
	return req
}

func TestB05MetadataByTopicID(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	unknown := [16]byte{9, 9, 9}
	for version := int16(12); version <= c.Versions()[3][1]; version++ {
		rt := c.Request(byID(kmsg.MetadataRequestTopic{TopicID: unknown}), version).(*kmsg.MetadataResponse).Topics[0]
		want(t, "unknown id", rt.ErrorCode, errUnknownTopicID)
		want(t, "id echoed", rt.TopicID, unknown)
		if rt.Topic != nil {
			t.Errorf("unknown id has the name %q, want null", *rt.Topic)
		}
		rt = c.Request(byID(kmsg.MetadataRequestTopic{TopicID: topic.ID}), version).(*kmsg.MetadataResponse).Topics[0]
		want(t, "known id", rt.ErrorCode, errNone)
		want(t, "known id's name", *rt.Topic, topic.Name)
		want(t, "partitions", len(rt.Partitions), 1)
	}
	for version := int16(10); version <= 11; version++ {
		c := brokertest.Dial(t, b.Addr)
		req := byID(kmsg.MetadataRequestTopic{})
		resp, err := c.TryReceive(req, c.Send(req, version), brokertest.Patience)
		if err == brokertest.ErrClosed {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		rt := resp.(*kmsg.MetadataResponse).Topics[0]
		want(t, "null name", rt.ErrorCode, errInvalidRequest)
		want(t, "its name", *rt.Topic, "")
	}
}

func TestB06OneMissingTopicAmongGood(t *testing.T) {
	b, c := start(t)
	first, second := b.NewTopic(t, 1, nil), b.NewTopic(t, 1, nil)
	missing := brokertest.FreshName("missing")
	resp := c.Request(brokertest.MetadataRequest(first.Name, missing, second.Name), 4).(*kmsg.MetadataResponse)
	codes := map[string]int16{}
	for _, rt := range resp.Topics {
		codes[*rt.Topic] = rt.ErrorCode
	}
	want(t, "topics", len(codes), 3)
	want(t, "first", codes[first.Name], errNone)
	want(t, "missing", codes[missing], errUnknownTopicOrPartition)
	want(t, "second", codes[second.Name], errNone)
}

func TestB08AdvertisedAddressOfTheListenerUsed(t *testing.T) {
	addrs, err := brokertest.FreeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	_, wide, _ := net.SplitHostPort(addrs[0])
	_, narrow, _ := net.SplitHostPort(addrs[1])
	brokertest.Start(t, map[string]string{
		"listeners":                      "WIDE://0.0.0.0:" + wide + ",NARROW://127.0.0.1:" + narrow,
		"advertised.listeners":           "WIDE://127.0.0.2:" + wide + ",NARROW://localhost:" + narrow,
		"listener.security.protocol.map": "WIDE:PLAINTEXT,NARROW:PLAINTEXT",
	})
	f := func(addr, host, port string) {
		t.Helper()
		c := brokertest.Dial(t, addr)
		meta := c.Request(brokertest.MetadataRequest(), 9).(*kmsg.MetadataResponse).Brokers
		want(t, "brokers", len(meta), 1)
		want(t, "metadata", net.JoinHostPort(meta[0].Host, strconv.Itoa(int(meta[0].Port))), net.JoinHostPort(host, port))
		cluster := c.Request(kmsg.NewPtrDescribeClusterRequest(), 0).(*kmsg.DescribeClusterResponse).Brokers
		want(t, "brokers", len(cluster), 1)
		want(t, "cluster", net.JoinHostPort(cluster[0].Host, strconv.Itoa(int(cluster[0].Port))), net.JoinHostPort(host, port))
	}
	f(addrs[0], "127.0.0.2", wide)
	f("127.0.0.2:"+wide, "127.0.0.2", wide)
	f(addrs[1], "localhost", narrow)
}

func TestB09TopicIsThereWhenCreateAnswers(t *testing.T) {
	b, c := start(t)
	for range 20 {
		topic := b.NewTopic(t, 1, nil)
		rt := c.Request(brokertest.MetadataRequest(topic.Name), 12).(*kmsg.MetadataResponse).Topics[0]
		want(t, "metadata", rt.ErrorCode, errNone)
		want(t, "metadata partition", rt.Partitions[0].ErrorCode, errNone)
		want(t, "produce", c.Produce(topic, 0, brokertest.NewBatch(brokertest.Values(1, "v")...).Encode()).ErrorCode, errNone)
	}
}

func TestB10LeaderEpochsAgree(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, brokertest.NewBatch(brokertest.Values(1, "v")...))
	p := c.Request(brokertest.MetadataRequest(topic.Name), 9).(*kmsg.MetadataResponse).Topics[0].Partitions[0]
	epoch := p.LeaderEpoch
	if epoch < 0 {
		t.Fatalf("metadata has leader epoch %d", epoch)
	}
	want(t, "latest offset", c.ListOffset(topic, 0, -1).LeaderEpoch, epoch)
	want(t, "earliest offset", c.ListOffset(topic, 0, -2).LeaderEpoch, epoch)
	want(t, "offset by time", c.ListOffset(topic, 0, 1).LeaderEpoch, epoch)
	raw := c.Fetch(topic, 0, 0).RecordBatches
	want(t, "batch", int32(binary.BigEndian.Uint32(raw[12:])), epoch)
	ep := c.Request(brokertest.EpochRequest(topic, 0, epoch, epoch), 4).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
	want(t, "epoch request", ep.ErrorCode, errNone)
	want(t, "its epoch", ep.LeaderEpoch, epoch)
	want(t, "its end", ep.EndOffset, 1)
}
