package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// TestLargeBatchesKeepTheirPlace: batches that decompress to more than an event loop does itself stand in a pipeline
// among small ones, and still the sequences of their producer follow one another.
func TestLargeBatchesKeepTheirPlace(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	large := strings.Split(strings.Repeat(strings.Repeat("v", 100_000)+" ", 30), " ")
	id, epoch := c.ProducerID()
	sequence, requests := int32(0), []*kmsg.ProduceRequest{}
	for codec := brokertest.None; codec <= brokertest.Zstd; codec++ {
		for i := range 6 {
			values := []string{"small", "batch"}
			if i%2 == 1 && codec != brokertest.None {
				values = large
			}
			batch := batchOf(values...).Compressed(codec).Idempotent(id, epoch, sequence)
			sequence += int32(len(values))
			requests = append(requests, brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Partition: 1, Records: batch.Encode()}))
		}
	}
	before := int64(0)
	var correlations []int32
	for _, req := range requests {
		correlations = append(correlations, c.Send(req, 9))
	}
	for i, req := range requests {
		rp := c.Receive(req, correlations[i]).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		want(t, fmt.Sprint("code of request ", i), rp.ErrorCode, errNone)
		if i > 0 && rp.BaseOffset <= before {
			t.Errorf("request %d: offset %d after %d", i, rp.BaseOffset, before)
		}
		before = rp.BaseOffset
	}
	want(t, "records", c.LogEnd(topic, 1), int64(sequence))
	if b.AdminAddr != "" && metricOf(t, b, "millrace_kafka_produces_left_total") < 12 {
		t.Error("the event loop decompressed large batches")
	}
}

// TestLargeProduceAnswersEachPartition: what a worker goes on with within a request gets the answers that it would get
// from the event loop.
func TestLargeProduceAnswersEachPartition(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 12, nil)
	large := batchOf(strings.Repeat("v", 900_000)).Encode()
	var parts []brokertest.Part
	for p := range int32(13) { // the last one does not exist
		parts = append(parts, brokertest.Part{Partition: p, Records: large})
	}
	parts[1].Records = decompressionBombs()["zstd without its size"]
	parts[3].Records = batchOf("").Compressed(brokertest.Gzip).Encode()[:70]
	parts[5].Records = batchOf(strings.Split(strings.Repeat("tiny ", 50_000), " ")...).Encode()
	want5 := int64(50_001)
	wanted := func(p int32) (code int16, end int64) {
		switch p {
		case 1:
			return errMessageTooLarge, 0
		case 3:
			return errInvalidRecord, 0
		case 5:
			return errNone, want5
		case 12:
			return errUnknownTopicOrPartition, 0
		}
		return errNone, 1
	}
	for _, rp := range c.ProduceParts(9, -1, topic, parts...) {
		code, _ := wanted(rp.Partition)
		want(t, fmt.Sprint("code of partition ", rp.Partition), rp.ErrorCode, code)
	}
	for p := range int32(12) {
		_, end := wanted(p)
		want(t, fmt.Sprint("end of partition ", p), c.LogEnd(topic, p), end)
	}
	req := brokertest.ProduceRequest(9, 0, topic, parts[6:9]...)
	req.Topics = append(req.Topics, req.Topics[0], req.Topics[0])
	c.Send(req, 9) // without an answer: what follows is answered when it is stored
	want(t, "end of partition 7 after acks=0", c.LogEnd(topic, 7), 4)
	req.Topics[2].Partitions[2].Partition = 77
	c.Send(req, 9)
	c.MustClose()
}
