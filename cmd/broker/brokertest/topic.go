package brokertest

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is a topic that exists, by both of its names.
type Topic struct {
	Name string
	ID   [16]byte
}

// FreshName returns a topic name that no other test uses, also on a broker that outlives the test.
func FreshName(prefix string) string {
	var random [6]byte
	rand.Read(random[:])
	return prefix + "-" + hex.EncodeToString(random[:])
}

// NewTopic creates a topic with a fresh name; anything but success fails the test.
func (b *Broker) NewTopic(t testing.TB, partitions int32, configs map[string]string) Topic {
	t.Helper()
	return b.CreateTopic(t, FreshName("cases"), partitions, configs)
}

// CreateTopic is NewTopic with a given name.
func (b *Broker) CreateTopic(t testing.TB, name string, partitions int32, configs map[string]string) Topic {
	t.Helper()
	c := Dial(t, b.Addr)
	resp := c.Request(CreateTopicsRequest(false, NewTopicSpec(name, partitions, configs)), 7).(*kmsg.CreateTopicsResponse)
	rt := resp.Topics[0]
	if rt.ErrorCode != 0 {
		message := ""
		if rt.ErrorMessage != nil {
			message = *rt.ErrorMessage
		}
		t.Fatalf("create topic %s: error %d %s", name, rt.ErrorCode, message)
	}
	topic := Topic{Name: name, ID: rt.TopicID}
	if Outside() != "" { // Apache Kafka answers 6 for tens of milliseconds after it said NONE
		Eventually(t, "every partition of "+name+" has its leader", func() bool {
			for p := range partitions {
				if c.ListOffset(topic, p, -1).ErrorCode != 0 {
					return false
				}
			}
			return true
		})
	}
	return topic
}

// Eventually polls until cond holds and fails the test when it does not within Patience.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	EventuallyWithin(t, Patience, what, cond)
}

// EventuallyWithin is Eventually with another patience.
func EventuallyWithin(t testing.TB, patience time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-tick.C
	}
}

// Produce sends one batch with acks -1 at version 9 and returns the partition's answer.
func (c *Conn) Produce(topic Topic, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	return c.ProduceParts(9, -1, topic, Part{partition, records})[0]
}

// MustProduce is Produce that demands success and returns the base offset.
func (c *Conn) MustProduce(topic Topic, partition int32, b *Batch) int64 {
	c.t.Helper()
	rp := c.Produce(topic, partition, b.Encode())
	if rp.ErrorCode != 0 {
		c.t.Fatalf("produce to %s-%d: error %d", topic.Name, partition, rp.ErrorCode)
	}
	return rp.BaseOffset
}

// ProduceParts sends one topic's partitions and returns their answers in the request's order. Each partition must be
// answered once; Apache Kafka answers in an order of its own.
func (c *Conn) ProduceParts(version, acks int16, topic Topic, parts ...Part) []kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	resp := c.Request(ProduceRequest(version, acks, topic, parts...), version).(*kmsg.ProduceResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != len(parts) {
		c.t.Fatalf("produce reply has another shape than its request: %+v", resp)
	}
	rt := resp.Topics[0]
	if version <= 12 && rt.Topic != topic.Name || version >= 13 && rt.TopicID != topic.ID {
		c.t.Fatalf("produce reply names topic %q %x", rt.Topic, rt.TopicID)
	}
	answers := make([]kmsg.ProduceResponseTopicPartition, len(parts))
	for i, part := range parts {
		at := slices.IndexFunc(rt.Partitions, func(rp kmsg.ProduceResponseTopicPartition) bool { return rp.Partition == part.Partition })
		if at < 0 {
			c.t.Fatalf("produce reply does not name partition %d: %+v", part.Partition, rt.Partitions)
		}
		answers[i] = rt.Partitions[at]
	}
	return answers
}

// ListOffset asks for one timestamp at version 9 and returns the partition's answer.
func (c *Conn) ListOffset(topic Topic, partition int32, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	return c.ListOffsetV(9, topic, partition, timestamp)
}

// ListOffsetV is ListOffset at a given version.
func (c *Conn) ListOffsetV(version int16, topic Topic, partition int32, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	resp := c.Request(ListOffsetsRequest(topic, partition, timestamp), version).(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != topic.Name || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != partition {
		c.t.Fatalf("list offsets reply does not echo %s-%d: %+v", topic.Name, partition, resp)
	}
	return resp.Topics[0].Partitions[0]
}

// LogEnd returns the partition's latest offset.
func (c *Conn) LogEnd(topic Topic, partition int32) int64 {
	c.t.Helper()
	rp := c.ListOffset(topic, partition, -1)
	if rp.ErrorCode != 0 {
		c.t.Fatalf("latest offset of %s-%d: error %d", topic.Name, partition, rp.ErrorCode)
	}
	return rp.Offset
}

// LogStart returns the partition's earliest offset.
func (c *Conn) LogStart(topic Topic, partition int32) int64 {
	c.t.Helper()
	rp := c.ListOffset(topic, partition, -2)
	if rp.ErrorCode != 0 {
		c.t.Fatalf("earliest offset of %s-%d: error %d", topic.Name, partition, rp.ErrorCode)
	}
	return rp.Offset
}

// Fetch reads one partition once, at version 12, without waiting.
func (c *Conn) Fetch(topic Topic, partition int32, offset int64) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return c.FetchParts(FetchRequest(12, 0, topic, FetchFrom{Partition: partition, Offset: offset}))[0]
}

// FetchParts sends a request of one topic and returns its partitions' answers.
func (c *Conn) FetchParts(req *kmsg.FetchRequest) []kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	resp := c.Request(req, req.Version).(*kmsg.FetchResponse)
	if resp.ErrorCode != 0 {
		c.t.Fatalf("fetch: error %d", resp.ErrorCode)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != len(req.Topics[0].Partitions) {
		c.t.Fatalf("fetch reply has another shape than its request: %+v", resp)
	}
	return resp.Topics[0].Partitions
}

// Batches fetches from offset to the log end and returns all batches, strictly decoded. The first record at or
// after offset must be in the first batch.
func (c *Conn) Batches(topic Topic, partition int32, offset int64) []*Batch {
	c.t.Helper()
	var all []*Batch
	for end := c.LogEnd(topic, partition); offset < end; {
		rp := c.Fetch(topic, partition, offset)
		if rp.ErrorCode != 0 {
			c.t.Fatalf("fetch %s-%d at %d: error %d", topic.Name, partition, offset, rp.ErrorCode)
		}
		batches, err := DecodeBatches(rp.RecordBatches)
		if err != nil {
			c.t.Fatalf("fetch %s-%d at %d: %v", topic.Name, partition, offset, err)
		}
		if len(batches) == 0 {
			c.t.Fatalf("fetch %s-%d at %d: no batch below the log end %d", topic.Name, partition, offset, end)
		}
		last := batches[len(batches)-1]
		next := last.BaseOffset + int64(last.LastOffsetDelta) + 1
		if next <= offset {
			c.t.Fatalf("fetch %s-%d at %d ends at %d", topic.Name, partition, offset, next)
		}
		all = append(all, batches...)
		offset = next
	}
	return all
}

// Records is Batches as records, without those below offset.
func (c *Conn) Records(topic Topic, partition int32, offset int64) []Record {
	c.t.Helper()
	var records []Record
	for _, b := range c.Batches(topic, partition, offset) {
		for _, r := range b.Records {
			if r.Offset >= offset {
				records = append(records, r)
			}
		}
	}
	return records
}

// ProducerID takes a fresh producer id.
func (c *Conn) ProducerID() (id int64, epoch int16) {
	c.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp := c.Request(req, 4).(*kmsg.InitProducerIDResponse)
	if resp.ErrorCode != 0 {
		c.t.Fatalf("init producer id: error %d", resp.ErrorCode)
	}
	return resp.ProducerID, resp.ProducerEpoch
}

// Versions returns the advertised range of every API.
func (c *Conn) Versions() map[int16][2]int16 {
	c.t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "brokertest", "1"
	resp := c.Request(req, 3).(*kmsg.ApiVersionsResponse)
	ranges := make(map[int16][2]int16, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		ranges[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return ranges
}
