package broker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

func TestM01DuplicateTellsTheStoredTime(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	id, epoch := c.ProducerID()
	ts := now()
	batch := brokertest.NewBatch(brokertest.Values(ts, "a", "b")...).Idempotent(id, epoch, 0).Encode()
	want(t, "first", c.Produce(topic, 0, batch).LogAppendTime, -1)
	rp := c.Produce(topic, 0, batch)
	want(t, "duplicate", rp.ErrorCode, errNone)
	want(t, "duplicate's time", rp.LogAppendTime, ts)
}

func TestM02TailAfterAGoodBatch(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	f := func(what string, tail []byte, code int16) {
		t.Helper()
		end := c.LogEnd(topic, 0)
		rp := c.Produce(topic, 0, append(batchOf("v").Encode(), tail...))
		want(t, what, rp.ErrorCode, code)
		if code == errNone {
			end++
		}
		want(t, what+": log end", c.LogEnd(topic, 0), end)
	}
	half := batchOf("second").Encode()
	f("5 bytes of junk", []byte("junk!"), errNone)
	f("half of a second batch", half[:len(half)/2], errNone)
	f("12 zero bytes", make([]byte, 12), errCorruptMessage)
	want(t, "records", len(c.Records(topic, 0, 0)), 2)
}

func TestM03BitsThatMeanNothing(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	for _, bits := range []int16{0x40, 0x80, 0x4000} {
		batch := batchOf("v")
		batch.Attributes = bits
		want(t, fmt.Sprintf("attributes %#x", bits), c.Produce(topic, 0, batch.Encode()).ErrorCode, errNone)
	}
	batch := batchOf("v")
	batch.Records[0].Attributes = -1
	want(t, "record attributes", c.Produce(topic, 0, batch.Encode()).ErrorCode, errNone)
	batch = batchOf("v")
	batch.LeaderEpoch = 77
	base := c.MustProduce(topic, 0, batch)
	want(t, "leader epoch", c.Batches(topic, 0, base)[0].LeaderEpoch, c.ListOffset(topic, 0, -1).LeaderEpoch)
	for _, codec := range []int16{brokertest.None, brokertest.Zstd} {
		batch = batchOf("a", "b").Compressed(codec)
		right := batch.MaxTimestamp
		batch.MaxTimestamp = 5
		base = c.MustProduce(topic, 0, batch)
		want(t, "largest timestamp", c.Batches(topic, 0, base)[0].MaxTimestamp, right)
	}
}

func TestM04MinInsyncAboveTheReplicas(t *testing.T) {
	b, c := start(t)
	for _, least := range []string{"2", "5"} {
		topic := b.NewTopic(t, 1, map[string]string{"min.insync.replicas": least})
		rp := c.Produce(topic, 0, batchOf("v").Encode())
		want(t, "min.insync.replicas="+least, rp.ErrorCode, errNone)
	}
}

func TestM05ProducerIDsThatWereNeverGiven(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	f := func(id int64, epoch int16, sequence int32) {
		t.Helper()
		rp := c.Produce(topic, 0, batchOf("v").Idempotent(id, epoch, sequence).Encode())
		want(t, fmt.Sprintf("id %d epoch %d sequence %d", id, epoch, sequence), rp.ErrorCode, errNone)
	}
	f(1<<40, 0, 5)
	f(-1, 0, 0)
	f(-2, 0, 0)
	want(t, "records", len(c.Records(topic, 0, 0)), 3)
}

func TestM06ProduceTimeoutsAndZeroTopicID(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	for _, timeout := range []int32{0, -1} {
		req := brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Records: batchOf("v").Encode()})
		req.TimeoutMillis = timeout
		want(t, fmt.Sprint("timeout ", timeout), c.Request(req, 9).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, errNone)
	}
	zero := brokertest.Topic{}
	want(t, "v13 without an id", c.ProduceParts(13, -1, zero, brokertest.Part{Records: batchOf("v").Encode()})[0].ErrorCode, errUnknownTopicID)
}

func TestM07MetadataByIDAndByName(t *testing.T) {
	b, c := start(t)
	first, second := b.NewTopic(t, 1, nil), b.NewTopic(t, 1, nil)
	name := func(topic brokertest.Topic) kmsg.MetadataRequestTopic {
		return kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(topic.Name)}
	}
	id := func(topic brokertest.Topic) kmsg.MetadataRequestTopic {
		return kmsg.MetadataRequestTopic{TopicID: topic.ID}
	}
	for version := int16(12); version <= c.Versions()[3][1]; version++ {
		resp := c.Request(byID(id(first), name(second)), version).(*kmsg.MetadataResponse)
		want(t, "topics by id beside a name", len(resp.Topics), 1)
		want(t, "which", *resp.Topics[0].Topic, first.Name)
		both := name(second)
		both.TopicID = first.ID
		resp = c.Request(byID(both), version).(*kmsg.MetadataResponse)
		want(t, "the id wins", *resp.Topics[0].Topic, first.Name)
	}
	t.Run("neither", func(t *testing.T) {
		b.SkipOnKafka(t, "null name and zero id fail the whole request")
		resp := c.Request(byID(id(first), kmsg.MetadataRequestTopic{}), 12).(*kmsg.MetadataResponse)
		want(t, "brokers", len(resp.Brokers), 1)
		seen := false
		for _, rt := range resp.Topics {
			if rt.TopicID == first.ID {
				seen = true
				want(t, "the good entry", rt.ErrorCode, errNone)
			} else if rt.ErrorCode == errNone {
				t.Errorf("the malformed entry is answered with NONE")
			}
		}
		want(t, "the good entry is answered", seen, true)
	})
}

func TestM08DuplicatesInARequest(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("a"))
	c.MustProduce(topic, 0, batchOf("b"))
	req := brokertest.FetchRequest(12, 0, topic, brokertest.FetchFrom{Offset: 0}, brokertest.FetchFrom{Offset: 1})
	resp := c.Request(req, 12).(*kmsg.FetchResponse)
	want(t, "answers", answered(resp), 1)
	batches := decoded(t, "records", resp.Topics[0].Partitions[0].RecordBatches)
	want(t, "the last wins", batches[len(batches)-1].BaseOffset, 1)
	want(t, "batches", len(batches), 1)
	meta := c.Request(brokertest.MetadataRequest(topic.Name, topic.Name), 9).(*kmsg.MetadataResponse)
	want(t, "topics in metadata", len(meta.Topics), 1)
}

func TestM09FetchSessionErrors(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	s := &fetchSession{t: t, c: c, version: 12, id: 0, epoch: 5}
	resp := s.fetch(0)
	want(t, "session 0 with epoch 5", resp.ErrorCode, errFetchSessionNotFound)
	want(t, "its session id", resp.SessionID, 0)

	s = openSession(t, c, 12, topic, 1)
	s.epoch = 4
	want(t, "wrong epoch", s.fetch(0).ErrorCode, errInvalidFetchEpoch)
	s.epoch = 1
	want(t, "right epoch", s.fetch(0).ErrorCode, errNone)
	s.c, s.epoch = brokertest.Dial(t, b.Addr), 2
	want(t, "from another connection", s.fetch(0).ErrorCode, errNone)

	s = &fetchSession{t: t, c: c, version: 12}
	opened := s.fetch(0, brokertest.FetchTopic(topic, brokertest.FetchFrom{Offset: 50}))
	s.id = opened.SessionID
	for s.epoch = 1; s.epoch < 4; s.epoch++ {
		resp := s.fetch(0)
		want(t, "answers of a partition in error", answered(resp), 1)
		want(t, "its error", resp.Topics[0].Partitions[0].ErrorCode, errOffsetOutOfRange)
	}
}

func TestM10LastFetchedEpochNewerThanTheLog(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("v"))
	req := brokertest.FetchRequest(12, 0, topic, brokertest.FetchFrom{})
	req.Topics[0].Partitions[0].LastFetchedEpoch = 99
	want(t, "error", c.FetchParts(req)[0].ErrorCode, errOffsetOutOfRange)
}

func TestM11WaitingConnectionIsNotIdle(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"connections.max.idle.ms": "1000"})
	b.SkipOnKafka(t, "it closes waiting connections")
	topic := b.NewTopic(t, 1, nil)
	idle, trickle := brokertest.Dial(t, b.Addr), brokertest.Dial(t, b.Addr)
	trickle.SendFrame([]byte{0, 0, 0, 100, 0}) // never a complete request
	c := brokertest.Dial(t, b.Addr)
	began := time.Now()
	c.FetchParts(brokertest.FetchRequest(12, 3000, topic, brokertest.FetchFrom{}))
	if waited := time.Since(began); waited < 2900*time.Millisecond {
		t.Errorf("the poll of 3 s was answered after %v", waited)
	}
	idle.MustClose()
	trickle.MustClose()
}

func TestM15ApiVersionsV5Routing(t *testing.T) {
	_, c := start(t)
	if c.Versions()[18][1] < 5 {
		t.Skip("ApiVersions v5 is not advertised")
	}
	ask := func(cluster *string, node int32) *kmsg.ApiVersionsRequest {
		req := brokertest.Minimal(18, 5, brokertest.Topic{}).(*kmsg.ApiVersionsRequest)
		req.ClusterID, req.NodeID = cluster, node
		return req
	}
	meta := c.Request(brokertest.MetadataRequest(), 9).(*kmsg.MetadataResponse)
	cluster, node := meta.ClusterID, meta.Brokers[0].NodeID
	want(t, "right", c.Request(ask(cluster, node), 5).(*kmsg.ApiVersionsResponse).ErrorCode, errNone)
	f := func(what string, req *kmsg.ApiVersionsRequest, code int16) {
		t.Helper()
		c.SendFrame(brokertest.FrameOf(req, 5, 1, nil))
		v3 := brokertest.Minimal(18, 3, brokertest.Topic{}) // the body comes in the v3 layout
		resp, err := c.TryReceive(v3, 1, brokertest.Patience)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		want(t, what, resp.(*kmsg.ApiVersionsResponse).ErrorCode, code)
		c.Alive()
	}
	f("cluster id alone", ask(cluster, -1), errInvalidRequest)
	f("node id alone", ask(nil, node), errInvalidRequest)
	f("another node", ask(cluster, node+77), errRebootstrapRequired)
	f("another cluster", ask(kmsg.StringPtr("another-cluster"), node), errRebootstrapRequired)

}

func TestM18CreateTopicsAtItsBounds(t *testing.T) {
	_, c := start(t)
	resp := c.Request(brokertest.CreateTopicsRequest(true, brokertest.NewTopicSpec(brokertest.FreshName("m18"), 100_001, nil)), 7).(*kmsg.CreateTopicsResponse)
	want(t, "100,001 partitions", resp.Topics[0].ErrorCode, errPolicyViolation)
	resp = c.Request(brokertest.CreateTopicsRequest(true, brokertest.NewTopicSpec(brokertest.FreshName("m18"), 1, nil)), 7).(*kmsg.CreateTopicsResponse)
	want(t, "validate only", resp.Topics[0].ErrorCode, errNone)
	if resp.Topics[0].TopicID == ([16]byte{}) {
		t.Error("validate only answers a zero topic id")
	}
}

func TestM19IncrementalAlterConfigsAtItsBounds(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	want(t, "delete of an unknown key", alter(c, topic.Name, change{"no.such.key", 1, nil}), errNone)
	if code := alter(c, topic.Name, change{"retention.ms", 9, kmsg.StringPtr("1")}); code == errNone || brokertest.Outside() == "" && code != errInvalidRequest {
		t.Errorf("operation 9: got %d, want 42", code)
	}
	want(t, "the same key twice", alter(c, topic.Name, change{"retention.ms", 0, kmsg.StringPtr("1")}, change{"retention.ms", 0, kmsg.StringPtr("2")}), errInvalidRequest)
}

func TestM20FramesAtTheEdge(t *testing.T) {
	b, c := start(t)
	zero := brokertest.Dial(t, b.Addr)
	zero.SendFrame([]byte{0, 0, 0, 0})
	zero.MustClose()

	topic := b.NewTopic(t, 1, nil)
	meta := brokertest.MetadataRequest(topic.Name)
	for _, version := range []int16{1, 9} {
		c.SendFrame(brokertest.Sized(append(brokertest.FrameOf(meta, version, 3, nil), "junk"...)))
		want(t, "topics after junk", len(c.Receive(meta, 3).(*kmsg.MetadataResponse).Topics), 1)
	}
	negative := brokertest.Hex(t, brokertest.F7)
	negative[len(negative)-1] = 0xfe // array length -2
	c.SendFrame(negative)
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 1
	if topics := c.Receive(req, brokertest.Correlation).(*kmsg.MetadataResponse).Topics; len(topics) == 0 {
		t.Error("array length -2 is not null: no topics")
	}
	// Header tags 5, 2, 5: neither sorted nor unique.
	tagged := brokertest.Hex(t, "00000000"+"00030009"+"01020304"+"0001"+"74"+"03"+"050161"+"020162"+"050163"+"01"+"000000"+"00")
	c.SendFrame(brokertest.Sized(tagged))
	req.Version = 9
	c.Receive(req, brokertest.Correlation)
}

func TestM21FirstUseAfterCreate(t *testing.T) {
	b, c := start(t)
	b.SkipOnKafka(t, "it answers 6 for tens of milliseconds after a topic is made")
	for range 20 {
		topic := b.NewTopic(t, 3, nil)
		for p := range int32(3) {
			want(t, "fetch", c.Fetch(topic, p, 0).ErrorCode, errNone)
			want(t, "produce", c.Produce(topic, p, batchOf("v").Encode()).ErrorCode, errNone)
		}
	}
}
