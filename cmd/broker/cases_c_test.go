package broker_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// now is a timestamp that every default accepts.
func now() int64 { return time.Now().UnixMilli() }

// batchOf is a valid batch of the given values at the present time.
func batchOf(values ...string) *brokertest.Batch {
	return brokertest.NewBatch(brokertest.Values(now(), values...)...)
}

// refused sends records to partition 0 and demands one of the codes, base offset -1, an unchanged log end and a
// socket that goes on.
func refused(t *testing.T, c *brokertest.Conn, topic brokertest.Topic, what string, records []byte, codes ...int16) {
	t.Helper()
	end := c.LogEnd(topic, 0)
	rp := c.Produce(topic, 0, records)
	wantOneOf(t, what, rp.ErrorCode, codes...)
	want(t, what+": base offset", rp.BaseOffset, -1)
	want(t, what+": log end", c.LogEnd(topic, 0), end)
}

// anError is refused for cases in which the code is not fixed.
func anError(t *testing.T, c *brokertest.Conn, topic brokertest.Topic, what string, records []byte) {
	t.Helper()
	end := c.LogEnd(topic, 0)
	if rp := c.Produce(topic, 0, records); rp.ErrorCode == errNone {
		t.Errorf("%s: accepted", what)
	} else if rp.BaseOffset != -1 {
		t.Errorf("%s: error %d with base offset %d", what, rp.ErrorCode, rp.BaseOffset)
	}
	want(t, what+": log end", c.LogEnd(topic, 0), end)
}

func TestC01AcksZeroIsNotAnswered(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.Send(brokertest.ProduceRequest(9, 0, topic, brokertest.Part{Records: batchOf("v").Encode()}), 9)
	req := brokertest.MetadataRequest(topic.Name)
	c.Receive(req, c.Send(req, 9))
	brokertest.Eventually(t, "the record is there", func() bool { return c.LogEnd(topic, 0) == 1 })
}

func TestC02AcksZeroFailureCloses(t *testing.T) {
	b, _ := start(t)
	topic := b.NewTopic(t, 1, map[string]string{"max.message.bytes": "1000"})
	f := func(part brokertest.Part) {
		t.Helper()
		c := brokertest.Dial(t, b.Addr)
		c.Send(brokertest.ProduceRequest(9, 0, topic, part), 9)
		c.MustClose()
	}
	f(brokertest.Part{Partition: 7, Records: batchOf("v").Encode()})
	f(brokertest.Part{Records: batchOf(string(make([]byte, 2000))).Encode()})
}

func TestC03InvalidAcks(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	for _, acks := range []int16{2, -2, math.MinInt16, math.MaxInt16} {
		parts := []brokertest.Part{{Partition: 0, Records: batchOf("v").Encode()}, {Partition: 1, Records: batchOf("v").Encode()}}
		for _, rp := range c.ProduceParts(9, acks, topic, parts...) {
			want(t, "error", rp.ErrorCode, errInvalidRequiredAcks)
			want(t, "base offset", rp.BaseOffset, -1)
		}
	}
	want(t, "log end", c.LogEnd(topic, 0), 0)
}

func TestC05RecordsEmptyNullOrShort(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	good := brokertest.Part{Partition: 1, Records: batchOf("v").Encode()}
	f := func(version int16, what string, records []byte, codes ...int16) {
		t.Helper()
		answers := c.ProduceParts(version, 1, topic, brokertest.Part{Records: records}, good)
		what = fmt.Sprintf("v%d %s", version, what)
		wantOneOf(t, what, answers[0].ErrorCode, codes...)
		want(t, what+": base offset", answers[0].BaseOffset, -1)
		want(t, what+": log start", answers[0].LogStartOffset, -1)
		if codes[0] == errInvalidRecord || brokertest.Outside() == "" { // the whole request fails there with 2
			want(t, what+": the good partition", answers[1].ErrorCode, errNone)
		}
	}
	whole := batchOf("v").Encode()
	for _, version := range []int16{5, 8, 9, 12, 13} {
		f(version, "empty", []byte{}, errInvalidRecord)
		f(version, "short", whole[:10], errInvalidRecord)
		f(version, "header without records", whole[:20], errInvalidRecord)
	}
	for _, length := range []int32{0, 13, -1} {
		spoiled := batchOf("v")
		spoiled.Length = &length
		f(9, fmt.Sprintf("batch_length %d", length), spoiled.Encode(), errCorruptMessage)
	}
	want(t, "log end", c.LogEnd(topic, 0), 0)
	t.Run("null", func(t *testing.T) {
		b.SkipOnKafka(t, "it never answers null records")
		for _, version := range []int16{5, 9, 13} {
			f(version, "null", nil, errInvalidRecord)
		}
	})
}

func TestC06TwoBatchesInOnePartition(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	refused(t, c, topic, "two batches", append(batchOf("a").Encode(), batchOf("b").Encode()...), errInvalidRecord)
}

func TestC07CountAndLastOffsetDelta(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	f := func(count, delta int32, records ...string) {
		t.Helper()
		spoiled := batchOf(records...)
		spoiled.Count, spoiled.LastOffsetDelta = count, delta
		refused(t, c, topic, fmt.Sprintf("count %d delta %d", count, delta), spoiled.Encode(), errInvalidRecord)
	}
	f(0, -1)
	f(0, 0, "a")
	f(3, 1, "a", "b", "c")
	f(3, 3, "a", "b", "c")
	f(-1, 0, "a")
	f(-1, -2, "a")
	f(math.MaxInt32, math.MaxInt32-1, "a")
	f(math.MinInt32, math.MaxInt32, "a")
}

func TestC08BaseOffsetOfAClient(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	spoiled := batchOf("v")
	spoiled.BaseOffset = 5
	refused(t, c, topic, "base offset 5", spoiled.Encode(), errInvalidRecord)
}

func TestC09FlippedBits(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	whole := batchOf("some value", "and another").Encode()
	for at := 17; at < len(whole); at++ { // from the CRC itself to the end
		spoiled := bytes.Clone(whole)
		spoiled[at] ^= 1 << (at % 8)
		refused(t, c, topic, fmt.Sprintf("bit %d of byte %d", at%8, at), spoiled, errCorruptMessage)
	}
	whole[12] ^= 1 // the leader epoch is outside the CRC
	want(t, "leader epoch", c.Produce(topic, 0, whole).ErrorCode, errNone)
}

func TestC10BatchLengthDiffersFromTheBytes(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	length := int32(len(batchOf("value").Encode()) - 12)
	for _, wrong := range []int32{length + 1, length + 100, math.MaxInt32, math.MaxInt32 - 11, length - 1, length - 5, 49, 48, 14} {
		spoiled := batchOf("value")
		spoiled.Length = &wrong
		what := fmt.Sprintf("length %d for %d", wrong, length)
		if wrong > math.MaxInt32-12 && brokertest.Outside() != "" { // overflows there to -1
			anError(t, c, topic, what, spoiled.Encode())
			continue
		}
		refused(t, c, topic, what, spoiled.Encode(), errCorruptMessage, errInvalidRecord)
	}
}

func TestC11OtherMagic(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	f := func(magic int8, code int16) {
		t.Helper()
		spoiled := batchOf("v")
		spoiled.Magic = magic
		parts := c.ProduceParts(9, -1, topic, brokertest.Part{Records: spoiled.Encode()}, brokertest.Part{Partition: 1, Records: batchOf("v").Encode()})
		want(t, fmt.Sprintf("magic %d", magic), parts[0].ErrorCode, code)
		want(t, "base offset", parts[0].BaseOffset, -1)
		want(t, "the good partition", parts[1].ErrorCode, errNone)
		want(t, "log end", c.LogEnd(topic, 0), 0)
	}
	f(0, errInvalidRecord)
	f(1, errInvalidRecord)
	t.Run("unknown", func(t *testing.T) {
		b.SkipOnKafka(t, "an unknown magic fails its whole request")
		for _, magic := range []int8{3, 4, 127, -1, -128} {
			f(magic, errCorruptMessage)
		}
	})
}

// roundTrip produces records with the codec and demands them back exactly, at consecutive offsets.
func roundTrip(t *testing.T, c *brokertest.Conn, topic brokertest.Topic, what string, b *brokertest.Batch) {
	t.Helper()
	raw := b.Encode()
	from := c.LogEnd(topic, 0)
	rp := c.Produce(topic, 0, raw)
	if rp.ErrorCode != 0 {
		t.Errorf("%s: error %d", what, rp.ErrorCode)
		return
	}
	want(t, what+": base offset", rp.BaseOffset, from)
	want(t, what+": log end", c.LogEnd(topic, 0), from+int64(len(b.Records)))
	sameRecords(t, what, c.Records(topic, 0, from), b.Records, from)
}

// sameRecords compares what was fetched with what was sent, whose first record has offset from.
func sameRecords(t *testing.T, what string, got, sent []brokertest.Record, from int64) {
	t.Helper()
	if len(got) != len(sent) {
		t.Errorf("%s: %d records, want %d", what, len(got), len(sent))
		return
	}
	for i := range sent {
		if diff := differs(got[i], sent[i], from+int64(i)); diff != "" {
			t.Errorf("%s: record %d: %s", what, i, diff)
			return
		}
	}
}

// differs names the first difference of a fetched record from the sent one, null and empty apart.
func differs(got, sent brokertest.Record, offset int64) string {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	switch {
	case got.Offset != offset:
		return fmt.Sprintf("offset %d, want %d", got.Offset, offset)
	case got.Timestamp != sent.Timestamp:
		return fmt.Sprintf("timestamp %d, want %d", got.Timestamp, sent.Timestamp)
	case !same(got.Key, sent.Key):
		return fmt.Sprintf("key %q (null %v), want %q (null %v)", got.Key, got.Key == nil, sent.Key, sent.Key == nil)
	case !same(got.Value, sent.Value):
		return fmt.Sprintf("value of %d bytes (null %v), want %d (null %v)", len(got.Value), got.Value == nil, len(sent.Value), sent.Value == nil)
	case len(got.Headers) != len(sent.Headers):
		return fmt.Sprintf("%d headers, want %d", len(got.Headers), len(sent.Headers))
	}
	for i, h := range sent.Headers {
		if got.Headers[i].Key != h.Key || !same(got.Headers[i].Value, h.Value) {
			return fmt.Sprintf("header %d is %q=%q, want %q=%q", i, got.Headers[i].Key, got.Headers[i].Value, h.Key, h.Value)
		}
	}
	return ""
}

func TestC13CodecsRoundTrip(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, map[string]string{"max.message.bytes": "3000000"})
	record := func(i, size int) brokertest.Record {
		return brokertest.Record{
			Key: fmt.Appendf(nil, "key-%d", i), Value: bytes.Repeat([]byte{byte('a' + i%26)}, size), Timestamp: now() + int64(i),
			Headers: []brokertest.Header{{Key: "n", Value: fmt.Append(nil, i)}, {Key: "n", Value: nil}},
		}
	}
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, count := range []int{1, 2, 1000} {
			var records []brokertest.Record
			for i := range count {
				records = append(records, record(i, 100))
			}
			roundTrip(t, c, topic, fmt.Sprintf("%s %d", name, count), brokertest.NewBatch(records...).Compressed(int16(codec)))
			if codec == int(brokertest.Snappy) {
				java := brokertest.NewBatch(records...).Compressed(brokertest.Snappy)
				java.Payload = brokertest.SnappyJava(1, 1, java.EncodeRecords())
				roundTrip(t, c, topic, fmt.Sprintf("snappy of Java %d", count), java)
			}
		}
		roundTrip(t, c, topic, name+" 1 MiB", brokertest.NewBatch(record(0, 1<<20)).Compressed(int16(codec)))
	}
}

func TestC17LargestBatch(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	sized := func(total int) []byte {
		value := make([]byte, total-200)
		for {
			raw := batchOf(string(value)).Encode()
			if len(raw) == total {
				return raw
			}
			value = make([]byte, len(value)+total-len(raw))
		}
	}
	const largest = 1048588
	want(t, "largest", c.Produce(topic, 0, sized(largest)).ErrorCode, errNone)
	parts := c.ProduceParts(9, -1, topic, brokertest.Part{Records: sized(largest + 1)}, brokertest.Part{Partition: 1, Records: batchOf("v").Encode()})
	want(t, "one more", parts[0].ErrorCode, errMessageTooLarge)
	want(t, "base offset", parts[0].BaseOffset, -1)
	want(t, "the good partition", parts[1].ErrorCode, errNone)
	want(t, "log end", c.LogEnd(topic, 0), 1)
	// The wire size counts, not what it decodes to.
	roundTrip(t, c, topic, "3 MiB of zeros", batchOf(string(make([]byte, 3<<20))).Compressed(brokertest.Zstd))
}

func TestC18BatchLargerThanASegment(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, map[string]string{"segment.bytes": "1048576", "max.message.bytes": "3000000"})
	large := batchOf(string(make([]byte, 2<<20)))
	rp := c.Produce(topic, 0, large.Encode())
	if wantOneOf(t, "error", rp.ErrorCode, errNone, errRecordListTooLarge); rp.ErrorCode == errNone {
		sameRecords(t, "batch", c.Records(topic, 0, 0), large.Records, 0)
	} else {
		want(t, "log end", c.LogEnd(topic, 0), 0)
	}
	roundTrip(t, c, topic, "next", batchOf("small"))
}

func TestC19ControlBitOfAClient(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	spoiled := batchOf("v")
	spoiled.Attributes = brokertest.ControlBit
	refused(t, c, topic, "control", spoiled.Encode(), errInvalidRecord)
	spoiled = batchOf("v").Compressed(brokertest.Gzip)
	spoiled.Attributes = brokertest.ControlBit
	refused(t, c, topic, "compressed control", spoiled.Encode(), errInvalidRecord)
}

func TestC20TimestampTypeBitOfAClient(t *testing.T) {
	b, c := start(t)
	spoiled := batchOf("v")
	spoiled.Attributes = brokertest.TimestampTypeBit
	refused(t, c, b.NewTopic(t, 1, map[string]string{"message.timestamp.type": "LogAppendTime"}), "log append time", spoiled.Encode(), errInvalidTimestamp)
	topic := b.NewTopic(t, 1, nil)
	rp := c.Produce(topic, 0, spoiled.Encode())
	if wantOneOf(t, "create time", rp.ErrorCode, errNone, errInvalidTimestamp); rp.ErrorCode == errNone {
		want(t, "served bit", c.Batches(topic, 0, 0)[0].Attributes&brokertest.TimestampTypeBit, 0)
	} else {
		want(t, "log end", c.LogEnd(topic, 0), 0)
	}
}

func TestC21CreateTimes(t *testing.T) {
	b, c := start(t)
	at := func(timestamps ...int64) *brokertest.Batch {
		var records []brokertest.Record
		for _, ts := range timestamps {
			records = append(records, brokertest.Record{Value: []byte("v"), Timestamp: ts})
		}
		return brokertest.NewBatch(records...)
	}
	const hour = int64(3600_000)
	const decade = 10 * 365 * 24 * hour
	open := b.NewTopic(t, 1, map[string]string{"message.timestamp.after.max.ms": "9223372036854775807", "retention.ms": "-1"})
	for _, codec := range []int16{brokertest.None, brokertest.LZ4} {
		roundTrip(t, c, open, "-1", at(-1).Compressed(codec))
		roundTrip(t, c, open, "0 and 1", at(0, 1).Compressed(codec))
		roundTrip(t, c, open, "decreasing", at(1000, 999, 5).Compressed(codec))
		roundTrip(t, c, open, "decades", at(now()-decade, now()+decade, now()).Compressed(codec))
	}
	defaults := b.NewTopic(t, 1, nil)
	refused(t, c, defaults, "two hours ahead", at(now()+2*hour).Encode(), errInvalidTimestamp)
	refused(t, c, defaults, "second record two hours ahead", at(now(), now()+2*hour).Encode(), errInvalidTimestamp)
	refused(t, c, defaults, "compressed, two hours ahead", at(now()+2*hour).Compressed(brokertest.Gzip).Encode(), errInvalidTimestamp)
	roundTrip(t, c, defaults, "half an hour ahead", at(now()+hour/2))
	limited := b.NewTopic(t, 1, map[string]string{"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"})
	refused(t, c, limited, "two hours ago", at(now()-2*hour).Encode(), errInvalidTimestamp)
	roundTrip(t, c, limited, "-1 is exempt", at(-1))
	// Below -1: taken, and the batch's largest timestamp is -1.
	from := c.LogEnd(open, 0)
	c.MustProduce(open, 0, at(-5, -7))
	want(t, "largest timestamp", c.Batches(open, 0, from)[0].MaxTimestamp, -1)
}

func TestC22LogAppendTime(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	for _, codec := range []int16{brokertest.None, brokertest.Zstd} {
		from := c.LogEnd(topic, 0)
		before := now()
		rp := c.Produce(topic, 0, brokertest.NewBatch(brokertest.Values(1000, "a", "b")...).Compressed(codec).Encode())
		after := now()
		want(t, "error", rp.ErrorCode, errNone)
		if rp.LogAppendTime < before || rp.LogAppendTime > after {
			t.Errorf("append time %d, want %d to %d", rp.LogAppendTime, before, after)
		}
		batch := c.Batches(topic, 0, from)[0]
		want(t, "bit", batch.Attributes&brokertest.TimestampTypeBit, brokertest.TimestampTypeBit)
		for _, r := range batch.Records {
			want(t, "record's time", r.Timestamp, rp.LogAppendTime)
		}
		found := c.ListOffset(topic, 0, rp.LogAppendTime)
		want(t, "time found", found.Timestamp, rp.LogAppendTime)
	}
	want(t, "old time", c.ListOffset(topic, 0, 1000).Offset, 0)
	create := b.NewTopic(t, 1, nil)
	want(t, "append time with CreateTime", c.Produce(create, 0, batchOf("v").Encode()).LogAppendTime, -1)
}

func TestC23NullsAndHeaders(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	many := make([]brokertest.Header, 1000)
	for i := range many {
		many[i] = brokertest.Header{Key: fmt.Sprint("h", i%7), Value: fmt.Append(nil, i)}
	}
	ts := now()
	records := []brokertest.Record{
		{Timestamp: ts},
		{Timestamp: ts, Key: []byte{}, Value: []byte{}},
		{Timestamp: ts, Key: nil, Value: []byte{}},
		{Timestamp: ts, Key: []byte{}, Value: nil},
		{Timestamp: ts, Headers: []brokertest.Header{{Key: "a", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "a", Value: []byte("x")}}},
		{Timestamp: ts, Headers: []brokertest.Header{{Key: "", Value: []byte("empty key")}}},
		{Timestamp: ts, Headers: []brokertest.Header{{Key: "\xff\xfe\x00", Value: []byte{0, 255}}}},
		{Timestamp: ts, Value: []byte("v"), Headers: many},
	}
	for _, codec := range []int16{brokertest.None, brokertest.Gzip, brokertest.Snappy, brokertest.LZ4, brokertest.Zstd} {
		roundTrip(t, c, topic, fmt.Sprint("codec ", codec), brokertest.NewBatch(records...).Compressed(codec))
	}
}

func TestC24CompactedTopicWantsKeys(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, map[string]string{"cleanup.policy": "compact"})
	batch := batchOf("a", "b", "c")
	batch.Records[0].Key, batch.Records[2].Key = []byte("k"), []byte{}
	rp := c.Produce(topic, 0, batch.Encode())
	want(t, "error", rp.ErrorCode, errInvalidRecord)
	if len(rp.ErrorRecords) != 1 || rp.ErrorRecords[0].RelativeOffset != 1 {
		t.Errorf("record errors %+v, want index 1", rp.ErrorRecords)
	}
	want(t, "log end", c.LogEnd(topic, 0), 0)
}

func TestC28UnknownPartitions(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	parts := c.ProduceParts(9, -1, topic, brokertest.Part{Partition: 99, Records: batchOf("v").Encode()}, brokertest.Part{Partition: 0, Records: batchOf("v").Encode()})
	want(t, "partition 99", parts[0].ErrorCode, errUnknownTopicOrPartition)
	want(t, "partition 0", parts[1].ErrorCode, errNone)
	missing := brokertest.Topic{Name: brokertest.FreshName("missing")}
	want(t, "unknown topic", c.Produce(missing, 0, batchOf("v").Encode()).ErrorCode, errUnknownTopicOrPartition)
	rt := c.Request(brokertest.MetadataRequest(missing.Name), 9).(*kmsg.MetadataResponse).Topics[0]
	want(t, "produce creates nothing", rt.ErrorCode, errUnknownTopicOrPartition)
	internal := c.Request(brokertest.MetadataRequest("__consumer_offsets"), 9).(*kmsg.MetadataResponse).Topics[0]
	if internal.ErrorCode == errNone {
		rp := c.ProduceParts(9, -1, brokertest.Topic{Name: "__consumer_offsets"}, brokertest.Part{Records: batchOf("v").Encode()})[0]
		want(t, "internal topic", rp.ErrorCode, errInvalidTopic)
	}
}

func TestC29OrderOfRequestsInFlight(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	var ids []int32
	req := brokertest.ProduceRequest(9, -1, topic)
	for i := range 5 {
		ids = append(ids, c.Send(brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Records: batchOf(fmt.Sprint(i)).Encode()}), 9))
	}
	for i, id := range ids {
		want(t, "base offset", c.Receive(req, id).(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset, int64(i))
	}
	for i, r := range c.Records(topic, 0, 0) {
		want(t, "value", string(r.Value), fmt.Sprint(i))
	}
	eightProducers(t, b)
}

// eightProducers writes batches of three from eight connections, five in flight on each, and checks that every
// record is where its batch's answer put it.
func eightProducers(t *testing.T, b *brokertest.Broker) {
	topic := b.NewTopic(t, 1, nil)
	const rounds = 50
	type put struct {
		base  int64
		value string
	}
	puts := make(chan put, 8*rounds)
	done := make(chan struct{})
	for p := range 8 {
		c := brokertest.Dial(t, b.Addr)
		go func() {
			defer func() { done <- struct{}{} }()
			var ids []int32
			req := brokertest.ProduceRequest(9, -1, topic)
			receive := func(i int) {
				resp, err := c.TryReceive(req, ids[i], brokertest.Patience)
				if err != nil {
					t.Errorf("producer %d: %v", p, err)
					return
				}
				rp := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
				puts <- put{rp.BaseOffset, fmt.Sprintf("%d-%d", p, i)}
			}
			for i := range rounds {
				name := fmt.Sprintf("%d-%d", p, i)
				ids = append(ids, c.Send(brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Records: batchOf(name+"/0", name+"/1", name+"/2").Encode()}), 9))
				if i >= 5 {
					receive(i - 5)
				}
			}
			for i := rounds - 5; i < rounds; i++ {
				receive(i)
			}
		}()
	}
	for range 8 {
		<-done
	}
	close(puts)
	records := brokertest.Dial(t, b.Addr).Records(topic, 0, 0)
	want(t, "records", len(records), 8*rounds*3)
	for p := range puts {
		for i := range int64(3) {
			want(t, "record at its base offset", string(records[p.base+i].Value), fmt.Sprintf("%s/%d", p.value, i))
		}
	}
}

func TestC30SamePartitionTwice(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	req := brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Records: batchOf("first").Encode()}, brokertest.Part{Records: batchOf("second").Encode()})
	resp := c.Request(req, 9).(*kmsg.ProduceResponse)
	acked := int64(0)
	for _, rp := range resp.Topics[0].Partitions {
		if rp.ErrorCode == 0 {
			acked++
		}
	}
	if end := c.LogEnd(topic, 0); end < acked || end > 2 || acked == 0 {
		t.Errorf("%d acknowledged, log end %d", acked, end)
	}
}

func TestC31TransactionsAreRefused(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	id, epoch := c.ProducerID()
	batch := batchOf("v").Idempotent(id, epoch, 0)
	batch.Attributes = brokertest.TransactionalBit
	anError(t, c, topic, "transactional bit", batch.Encode())
	without := batchOf("v")
	without.Attributes = brokertest.TransactionalBit
	anError(t, c, topic, "transactional bit without a producer id", without.Encode())
	req := brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Records: batch.Encode()})
	req.TransactionID = kmsg.StringPtr("tx")
	if code := c.Request(req, 9).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code == errNone {
		t.Error("a batch of a transaction was accepted")
	}
	want(t, "log end", c.LogEnd(topic, 0), 0)
}

func TestC32DisconnectBeforeTheAck(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	const rounds = 50
	for range rounds {
		one := brokertest.Dial(t, b.Addr)
		one.Send(brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Records: batchOf("v").Encode()}), 9)
		one.NetConn.Close()
	}
	brokertest.Eventually(t, "all records are there", func() bool { return c.LogEnd(topic, 0) == rounds })
	want(t, "records", len(c.Records(topic, 0, 0)), rounds)
}
