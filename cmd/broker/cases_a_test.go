package broker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

func TestA01ApiVersionsTooNewIsAnsweredInV0(t *testing.T) {
	b, c := start(t)
	span := c.Versions()[18]
	next := kmsg.NewPtrApiVersionsRequest()
	next.ClientSoftwareName, next.ClientSoftwareVersion = "t", "1"
	for _, frame := range [][]byte{
		brokertest.Hex(t, brokertest.F1),
		brokertest.FrameOf(next, span[1]+1, brokertest.Correlation, kmsg.StringPtr("t")),
	} {
		c := brokertest.Dial(t, b.Addr)
		c.SendFrame(frame)
		body, err := c.ReadFrame(brokertest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		exact := binary.BigEndian.AppendUint32(nil, uint32(brokertest.Correlation))
		exact = append(exact, 0, errUnsupportedVersion, 0, 0, 0, 1, 0, 18, 0, byte(span[0]), 0, byte(span[1]))
		if !bytes.Equal(body, exact) {
			t.Errorf("reply % x, want % x", body, exact)
		}
		resp := c.Request(brokertest.Minimal(18, span[1], brokertest.Topic{}), span[1]).(*kmsg.ApiVersionsResponse)
		want(t, "second call's error", resp.ErrorCode, errNone)
	}
}

func TestA02ApiVersionsHeaderIsNeverFlexible(t *testing.T) {
	_, c := start(t)
	for version := int16(3); version <= c.Versions()[18][1]; version++ {
		raw, correlation := c.Frame(brokertest.Minimal(18, version, brokertest.Topic{}), version)
		c.SendFrame(raw)
		body, err := c.ReadFrame(brokertest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "correlation id", int32(binary.BigEndian.Uint32(body)), correlation)
		want(t, "error right after the correlation id", binary.BigEndian.Uint16(body[4:]), 0)
		if body[6] < 10 { // the compact length of the keys: at least nine of them
			t.Errorf("v%d: compact array length byte %d", version, body[6])
		}
	}
}

func TestA03ApiVersionsChecksTheSoftwareName(t *testing.T) {
	_, c := start(t)
	c.SendFrame(brokertest.Hex(t, brokertest.F3))
	body, err := c.ReadFrame(brokertest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(body, []byte{1, 2, 3, 4, 0, errInvalidRequest}) {
		t.Errorf("reply to F3: % x", body)
	}
	f := func(name, version string, code int16) {
		t.Helper()
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
		resp := c.Request(req, 3).(*kmsg.ApiVersionsResponse)
		want(t, fmt.Sprintf("name %q version %q", name, version), resp.ErrorCode, code)
	}
	f("a", "1", errNone)
	f("apache-kafka.java", "4.4.0-SNAPSHOT", errNone)
	f("", "1", errInvalidRequest)
	f("a", "", errInvalidRequest)
	f("-a", "1", errInvalidRequest)
	f("a", "1.", errInvalidRequest)
	f("a_b", "1", errInvalidRequest)
	f("ä", "1", errInvalidRequest)
}

func TestA04NullAndEmptyClientID(t *testing.T) {
	b, c := start(t)
	c.SendFrame(brokertest.Hex(t, brokertest.F2))
	body, err := c.ReadFrame(brokertest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "error of F2", binary.BigEndian.Uint16(body[4:]), 0)
	topic := b.NewTopic(t, 1, nil)
	for _, id := range []*string{nil, kmsg.StringPtr("")} {
		c := brokertest.Dial(t, b.Addr)
		c.ClientID = id
		everyVersion(c, func(key, version int16) {
			req := brokertest.Minimal(key, version, topic)
			if req.IsFlexible() {
				c.Request(req, version)
			}
		})
	}
}

// everyVersion calls f for each advertised version of each API in brokertest.Keys, without Produce v0-v2, which
// stand in ApiVersions for old clients' feature negotiation only.
func everyVersion(c *brokertest.Conn, f func(key, version int16)) {
	versions := c.Versions()
	for _, key := range brokertest.Keys() {
		span, ok := versions[key]
		if !ok {
			continue
		}
		for version := span[0]; version <= span[1]; version++ {
			if key != 0 || version > 2 {
				f(key, version)
			}
		}
	}
}

func TestA05UnknownTagsAreIgnored(t *testing.T) {
	b, c := start(t)
	c.SendFrame(brokertest.Hex(t, brokertest.F4))
	body, err := c.ReadFrame(brokertest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "error of F4", binary.BigEndian.Uint16(body[4:]), 0)
	topic := b.NewTopic(t, 1, nil)
	for _, count := range []int{0, 1, 100} {
		for _, size := range []int{0, 1, 1024} {
			tag := func(tags *kmsg.Tags) {
				for i := range count {
					tags.Set(uint32(100+i), make([]byte, size))
				}
			}
			produce := brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Records: brokertest.NewBatch(brokertest.Values(1, "v")...).Encode()})
			tag(&produce.UnknownTags)
			tag(&produce.Topics[0].UnknownTags)
			tag(&produce.Topics[0].Partitions[0].UnknownTags)
			want(t, "produce", c.Request(produce, 9).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, errNone)

			fetch := brokertest.FetchRequest(12, 0, topic, brokertest.FetchFrom{})
			fetch.ForgottenTopics = append(fetch.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: "x", Partitions: []int32{1}})
			tag(&fetch.UnknownTags)
			tag(&fetch.Topics[0].UnknownTags)
			tag(&fetch.Topics[0].Partitions[0].UnknownTags)
			tag(&fetch.ForgottenTopics[0].UnknownTags)
			rp := c.FetchParts(fetch)[0]
			want(t, "fetch", rp.ErrorCode, errNone)
			if len(rp.RecordBatches) == 0 {
				t.Error("fetch with tags returns nothing")
			}
		}
	}
}

func TestA06UnknownApiOrVersionCloses(t *testing.T) {
	b, _ := start(t)
	produce := brokertest.ProduceRequest(9, -1, brokertest.Topic{Name: "x"})
	v99 := brokertest.FrameOf(produce, 9, 1, nil)
	v99[7] = 99
	for _, frame := range [][]byte{brokertest.Hex(t, brokertest.F11), brokertest.Hex(t, brokertest.F12), v99} {
		c := brokertest.Dial(t, b.Addr)
		c.SendFrame(frame)
		c.MustClose()
	}
}

func TestA07TruncatedAndOverlongRequests(t *testing.T) {
	b, bystander := start(t)
	topic := b.NewTopic(t, 1, nil)
	everyVersion(bystander, func(key, version int16) {
		frame := brokertest.FrameOf(brokertest.Minimal(key, version, topic), version, 7, kmsg.StringPtr("t"))
		for cut := 4; cut < len(frame); cut++ {
			c := brokertest.Dial(t, b.Addr)
			c.SendFrame(brokertest.Sized(slices.Clone(frame[:cut])))
			if body, err := c.ReadFrame(brokertest.Patience); err != brokertest.ErrClosed {
				t.Errorf("%s v%d cut at %d of %d: not closed: %v % x", kmsg.NameForKey(key), version, cut, len(frame), err, body)
			}
			c.NetConn.Close()
		}
		c := brokertest.Dial(t, b.Addr)
		c.SendFrame(brokertest.Sized(append(slices.Clone(frame), "7 junk."...)))
		if body, err := c.ReadFrame(brokertest.Patience); err != brokertest.ErrClosed {
			if err != nil {
				t.Fatalf("%s v%d with junk: %v", kmsg.NameForKey(key), version, err)
			}
			if _, err := brokertest.DecodeReply(brokertest.Minimal(key, version, topic), 7, body); err != nil {
				t.Errorf("%s v%d with junk: %v", kmsg.NameForKey(key), version, err)
			}
		}
		c.NetConn.Close()
		bystander.Alive()
	})
}

func TestA08BadLengthPrefixCloses(t *testing.T) {
	b, bystander := start(t)
	bystander.Alive()
	before := residentBytes(t, b)
	for _, prefix := range []string{"ffffffff", "47455420", "16030100", "06400001", "80000000"} {
		c := brokertest.Dial(t, b.Addr)
		c.SendFrame(brokertest.Hex(t, prefix))
		c.MustClose()
	}
	// The largest length that is allowed, held without a byte behind it, three times.
	for range 3 {
		brokertest.Dial(t, b.Addr).SendFrame(brokertest.Hex(t, "06400000"))
	}
	bystander.Alive()
	if grown := residentBytes(t, b) - before; grown > 16<<20 {
		t.Errorf("memory grew by %d bytes on eight length prefixes", grown)
	}
}

func TestA09CountsBeyondTheFrameClose(t *testing.T) {
	b, bystander := start(t)
	bystander.Alive()
	before := residentBytes(t, b)
	header := "00030001" + "01020304" + "0001" + "74"
	for name, frame := range map[string][]byte{
		"F8":                  brokertest.Hex(t, brokertest.F8),
		"F9":                  brokertest.Hex(t, brokertest.F9),
		"F10":                 brokertest.Hex(t, brokertest.F10),
		"string beyond frame": brokertest.Sized(brokertest.Hex(t, "00000000"+header+"00000001"+"7fff"+"61")),
		"client id beyond":    brokertest.Sized(brokertest.Hex(t, "00000000"+"00030001"+"01020304"+"7fff"+"74")),
		"records beyond frame": func() []byte {
			req := brokertest.ProduceRequest(3, -1, brokertest.Topic{Name: "x"}, brokertest.Part{Records: []byte("12345678")})
			raw := brokertest.FrameOf(req, 3, 1, nil)
			binary.BigEndian.PutUint32(raw[len(raw)-12:], math.MaxInt32)
			return raw
		}(),
	} {
		c := brokertest.Dial(t, b.Addr)
		c.SendFrame(frame)
		if body, err := c.ReadFrame(brokertest.Patience); err != brokertest.ErrClosed {
			t.Errorf("%s: not closed: %v % x", name, err, body)
		}
	}
	if grown := residentBytes(t, b) - before; grown > 16<<20 {
		t.Errorf("memory grew by %d bytes on six frames", grown)
	}
	// A header count inside a record costs only its partition.
	topic := b.NewTopic(t, 1, nil)
	bomb := brokertest.NewBatch(brokertest.Values(1, "v")...)
	bomb.Plain = recordOf(varints(0, 0, -1, -1, math.MaxInt32))
	want(t, "header count bomb", bystander.Produce(topic, 0, bomb.Encode()).ErrorCode, errInvalidRecord)
	bystander.Alive()
}

// recordOf puts the attributes and the length around the body of a record.
func recordOf(body []byte) []byte {
	record := binary.AppendVarint(nil, int64(len(body)+1))
	return append(append(record, 0), body...)
}

// varints encodes zigzag varints one behind the other.
func varints(values ...int64) []byte {
	var out []byte
	for _, v := range values {
		out = binary.AppendVarint(out, v)
	}
	return out
}

func TestA11PipelinedRepliesKeepTheirOrder(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	fetch := brokertest.FetchRequest(12, 1000, topic, brokertest.FetchFrom{})
	metadata := brokertest.MetadataRequest(topic.Name)
	produce := brokertest.ProduceRequest(9, 1, topic, brokertest.Part{Partition: 1, Records: brokertest.NewBatch(brokertest.Values(1, "v")...).Encode()})
	list := brokertest.ListOffsetsRequest(topic, 1, -1)
	began := time.Now()
	ids := []int32{c.Send(fetch, 12), c.Send(metadata, 9), c.Send(produce, 9), c.Send(list, 5)}
	if rp := c.Receive(fetch, ids[0]).(*kmsg.FetchResponse); len(rp.Topics[0].Partitions[0].RecordBatches) != 0 {
		t.Error("the empty partition has data")
	}
	if waited := time.Since(began); waited < 900*time.Millisecond {
		t.Errorf("the long poll of 1 s was answered after %v", waited)
	}
	c.Receive(metadata, ids[1])
	want(t, "produce", c.Receive(produce, ids[2]).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, errNone)
	want(t, "list offsets", c.Receive(list, ids[3]).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset, 1)
}

func TestA12CorrelationIDsAreEchoed(t *testing.T) {
	_, c := start(t)
	for _, id := range []int32{0, -1, math.MinInt32, math.MaxInt32} {
		req := brokertest.MetadataRequest()
		c.SendFrame(brokertest.FrameOf(req, 9, id, nil))
		c.Receive(req, id)
	}
}

func TestA13FramesArriveInAnyPieces(t *testing.T) {
	b, c := start(t)
	req := brokertest.MetadataRequest()
	frame := brokertest.FrameOf(req, 9, 5, kmsg.StringPtr("t"))
	for i := range frame { // one byte a segment
		c.SendFrame(frame[i : i+1])
	}
	c.Receive(req, 5)
	for _, at := range []int{3, 4} {
		c.SendFrame(frame[:at])
		brokertest.Dial(t, b.Addr).Alive() // the broker has seen the first piece by itself
		c.SendFrame(frame[at:])
		c.Receive(req, 5)
	}
	var many []byte
	for id := range int32(500) {
		many = append(many, brokertest.FrameOf(req, 9, id, nil)...)
	}
	c.SendFrame(many)
	for id := range int32(500) {
		c.Receive(req, id)
	}
}

func TestA14ErrorsAreEncodedInTheRequestsVersion(t *testing.T) {
	_, c := start(t)
	missing := brokertest.Topic{Name: brokertest.FreshName("missing"), ID: [16]byte{1, 2, 3}}
	seen := 0
	everyVersion(c, func(key, version int16) {
		if key == 3 || key == 20 { // B02, B05 and I13 have them
			return
		}
		what := fmt.Sprintf("%s v%d", kmsg.NameForKey(key), version)
		e, ok := firstEntry(t, what, c.Request(brokertest.Minimal(key, version, missing), version))
		if !ok {
			return
		}
		seen++
		want(t, what+" names the partition", e.partition, 0)
		if version >= 13 && (key == 0 || key == 1) {
			want(t, what+" names the topic id", e.id, missing.ID)
			want(t, what, e.code, errUnknownTopicID)
		} else {
			want(t, what+" names the topic", e.name, missing.Name)
			want(t, what, e.code, errUnknownTopicOrPartition)
		}
	})
	if seen < 50 {
		t.Errorf("only %d versions name a topic", seen)
	}
}

// entry is what a reply says of its first topic, partition or resource.
type entry struct {
	name      string
	id        [16]byte
	partition int32
	code      int16
}

// firstEntry finds the first entry of a reply; ok is false for an API that names no topic.
func firstEntry(t *testing.T, what string, resp kmsg.Response) (e entry, ok bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%s: the reply has no entry: %+v", what, resp)
		}
	}()
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		p := r.Topics[0].Partitions[0]
		want(t, what+" base offset", p.BaseOffset, -1)
		return entry{r.Topics[0].Topic, r.Topics[0].TopicID, p.Partition, p.ErrorCode}, true
	case *kmsg.FetchResponse:
		p := r.Topics[0].Partitions[0]
		want(t, what+" high watermark", p.HighWatermark, -1)
		want(t, what+" records", len(p.RecordBatches), 0)
		return entry{r.Topics[0].Topic, r.Topics[0].TopicID, p.Partition, p.ErrorCode}, true
	case *kmsg.ListOffsetsResponse:
		p := r.Topics[0].Partitions[0]
		want(t, what+" offset", p.Offset, -1)
		return entry{name: r.Topics[0].Topic, partition: p.Partition, code: p.ErrorCode}, true
	case *kmsg.DeleteRecordsResponse:
		p := r.Topics[0].Partitions[0]
		want(t, what+" low watermark", p.LowWatermark, -1)
		return entry{name: r.Topics[0].Topic, partition: p.Partition, code: p.ErrorCode}, true
	case *kmsg.OffsetForLeaderEpochResponse:
		p := r.Topics[0].Partitions[0]
		return entry{name: r.Topics[0].Topic, partition: p.Partition, code: p.ErrorCode}, true
	case *kmsg.DescribeProducersResponse:
		p := r.Topics[0].Partitions[0]
		return entry{name: r.Topics[0].Topic, partition: p.Partition, code: p.ErrorCode}, true
	case *kmsg.CreatePartitionsResponse:
		return entry{name: r.Topics[0].Topic, code: r.Topics[0].ErrorCode}, true
	case *kmsg.DescribeConfigsResponse:
		return entry{name: r.Resources[0].ResourceName, code: r.Resources[0].ErrorCode}, true
	case *kmsg.AlterConfigsResponse:
		return entry{name: r.Resources[0].ResourceName, code: r.Resources[0].ErrorCode}, true
	case *kmsg.IncrementalAlterConfigsResponse:
		return entry{name: r.Resources[0].ResourceName, code: r.Resources[0].ErrorCode}, true
	case *kmsg.DescribeTopicPartitionsResponse:
		return entry{name: *r.Topics[0].Topic, code: r.Topics[0].ErrorCode}, true
	}
	return entry{}, false
}

func TestA15EveryAdvertisedVersionAnswers(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	versions := c.Versions()
	if brokertest.Outside() == "" {
		for key := range versions {
			if !slices.Contains(brokertest.Keys(), key) {
				t.Errorf("%s is advertised and brokertest.Minimal does not know it", kmsg.NameForKey(key))
			}
		}
	}
	everyVersion(c, func(key, version int16) { c.Request(brokertest.Minimal(key, version, topic), version) })
	for key, span := range versions { // all versions advertised must exist in the protocol
		if req := kmsg.RequestForKey(key); req == nil || req.MaxVersion() < span[1] {
			t.Logf("key %d v%d is newer than kmsg", key, span[1])
		}
	}
	meta := c.Request(brokertest.MetadataRequest(topic.Name), 12).(*kmsg.MetadataResponse)
	if meta.Topics[0].TopicID == ([16]byte{}) || meta.Topics[0].TopicID != topic.ID {
		t.Errorf("metadata has topic id %x, create topics had %x", meta.Topics[0].TopicID, topic.ID)
	}
}

func TestA15ProduceBeforeV3IsClosed(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	want(t, "lowest advertised Produce", c.Versions()[0][0], 0)
	for version := range int16(3) {
		c := brokertest.Dial(t, b.Addr)
		c.Send(brokertest.Minimal(0, version, topic), version)
		c.MustClose()
	}
	want(t, "log end", c.LogEnd(topic, 0), 0)
}

func TestA17TelemetryIsNotAdvertisedOrEmpty(t *testing.T) {
	_, c := start(t)
	if _, ok := c.Versions()[71]; !ok {
		return
	}
	resp := c.Request(kmsg.NewPtrGetTelemetrySubscriptionsRequest(), 0).(*kmsg.GetTelemetrySubscriptionsResponse)
	want(t, "error", resp.ErrorCode, errNone)
}

func TestA18EmptyArraysAreNotNull(t *testing.T) {
	_, c := start(t)
	// Receive encodes each reply again and compares: a null where an empty array belongs differs.
	everyVersion(c, func(key, version int16) {
		req := kmsg.RequestForKey(key)
		if d, ok := req.(interface{ Default() }); ok {
			d.Default()
		}
		switch r := req.(type) {
		case *kmsg.ApiVersionsRequest:
			return // A02
		case *kmsg.ProduceRequest:
			r.Acks = 1
		case *kmsg.MetadataRequest:
			r.Topics = []kmsg.MetadataRequestTopic{}
		case *kmsg.DescribeLogDirsRequest:
			r.Topics = []kmsg.DescribeLogDirsRequestTopic{}
		case *kmsg.FetchRequest:
			r.SessionEpoch, r.MaxBytes = -1, 1<<20
		case *kmsg.DescribeTopicPartitionsRequest:
			r.Topics = nil
		}
		c.Request(req, version)
	})
}

func TestA19VersionsThatOldLibrdkafkaLooksFor(t *testing.T) {
	_, c := start(t)
	versions := c.Versions()
	f := func(key int16, exact ...int16) {
		t.Helper()
		span, ok := versions[key]
		if !ok {
			return // not advertised, so the feature is absent altogether
		}
		for _, v := range exact {
			if v < span[0] || v > span[1] {
				t.Errorf("%s advertises %v, old clients look for %d", kmsg.NameForKey(key), span, v)
			}
		}
	}
	for _, key := range []int16{0, 1, 2, 3, 18, 22} {
		if _, ok := versions[key]; !ok {
			t.Errorf("%s is not advertised", kmsg.NameForKey(key))
		}
	}
	f(0, 0, 3, 7)
	f(1, 4, 10)
	f(2, 1)
	f(3, 0, 1)
	f(8, 2)
	f(9, 1)
	f(10, 0)
	f(11, 0)
	f(12, 0)
	f(13, 0)
	f(14, 0)
	f(17, 0, 1)
	f(18, 0)
	f(22, 0)
	f(36, 0)
}
