package broker_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// sequenced sends one batch of count records with the given sequence and returns the answer.
func sequenced(c *brokertest.Conn, topic brokertest.Topic, id int64, epoch int16, sequence int32, count int) kmsg.ProduceResponseTopicPartition {
	values := make([]string, count)
	for i := range values {
		values[i] = fmt.Sprint(int(sequence) + i)
	}
	return c.Produce(topic, 0, batchOf(values...).Idempotent(id, epoch, sequence).Encode())
}

func TestD01ResendOfAnyOfFiveBatches(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	id, epoch := c.ProducerID()
	c.MustProduce(topic, 0, batchOf("of another"))
	for i := range int32(5) {
		want(t, "base offset", sequenced(c, topic, id, epoch, 2*i, 2).BaseOffset, int64(1+2*i))
	}
	for i := range int32(5) {
		rp := sequenced(c, topic, id, epoch, 2*i, 2)
		want(t, "resend", rp.ErrorCode, errNone)
		want(t, "original base offset", rp.BaseOffset, int64(1+2*i))
	}
	want(t, "log end", c.LogEnd(topic, 0), 11)
	want(t, "next", sequenced(c, topic, id, epoch, 10, 1).BaseOffset, 11)
}

func TestD02ResendOfAnOlderBatch(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	id, epoch := c.ProducerID()
	for i := range int32(7) {
		want(t, "error", sequenced(c, topic, id, epoch, i, 1).ErrorCode, errNone)
	}
	rp := sequenced(c, topic, id, epoch, 0, 1)
	want(t, "resend of the first of seven", rp.ErrorCode, errOutOfOrderSequence)
	want(t, "base offset", rp.BaseOffset, -1)
	want(t, "log end", c.LogEnd(topic, 0), 7)
}

func TestD03SkippedSequence(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	id, epoch := c.ProducerID()
	sequenced(c, topic, id, epoch, 0, 1)
	want(t, "skipped", sequenced(c, topic, id, epoch, 2, 1).ErrorCode, errOutOfOrderSequence)
	want(t, "log end", c.LogEnd(topic, 0), 1)
	want(t, "correct next", sequenced(c, topic, id, epoch, 1, 1).ErrorCode, errNone)
	want(t, "log end", c.LogEnd(topic, 0), 2)
}

func TestD03SequenceWraps(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	id, epoch := c.ProducerID()
	want(t, "first", sequenced(c, topic, id, epoch, math.MaxInt32-1, 4).ErrorCode, errNone) // MaxInt32-1, MaxInt32, 0, 1
	want(t, "wrong after the wrap", sequenced(c, topic, id, epoch, 3, 1).ErrorCode, errOutOfOrderSequence)
	want(t, "next", sequenced(c, topic, id, epoch, 2, 1).ErrorCode, errNone)
	rp := sequenced(c, topic, id, epoch, math.MaxInt32-1, 4)
	want(t, "resend over the wrap", rp.ErrorCode, errNone)
	want(t, "its base offset", rp.BaseOffset, 0)
	want(t, "log end", c.LogEnd(topic, 0), 5)
}

func TestD06Epochs(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	id, epoch := c.ProducerID()
	want(t, "first", sequenced(c, topic, id, epoch, 0, 1).ErrorCode, errNone)
	want(t, "next epoch, sequence 3", sequenced(c, topic, id, epoch+1, 3, 1).ErrorCode, errOutOfOrderSequence)
	want(t, "next epoch, sequence 0", sequenced(c, topic, id, epoch+1, 0, 1).ErrorCode, errNone)
	rp := sequenced(c, topic, id, epoch, 1, 1)
	want(t, "older epoch", rp.ErrorCode, errInvalidProducerEpoch)
	want(t, "base offset", rp.BaseOffset, -1)
	want(t, "log end", c.LogEnd(topic, 0), 2)
}

func TestD07ProducerIDWithoutSequence(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	id, epoch := c.ProducerID()
	refused(t, c, topic, "sequence -1", batchOf("v").Idempotent(id, epoch, -1).Encode(), errInvalidRecord)
}

func TestD08RestartKeepsTheLastFive(t *testing.T) {
	for name, end := range map[string]func(*brokertest.Broker, *testing.T){
		"stop": func(b *brokertest.Broker, t *testing.T) { b.Stop(t) },
		"kill": func(b *brokertest.Broker, t *testing.T) { b.Kill(t) },
	} {
		t.Run(name, func(t *testing.T) {
			b := brokertest.Start(t, nil)
			b.SkipOnKafka(t, "only the last batch is known after a restart")
			topic := b.NewTopic(t, 1, nil)
			c := brokertest.Dial(t, b.Addr)
			id, epoch := c.ProducerID()
			for i := range int32(7) {
				want(t, "error", sequenced(c, topic, id, epoch, i, 1).ErrorCode, errNone)
			}
			end(b, t)
			b.Restart(t)
			c = brokertest.Dial(t, b.Addr)
			want(t, "log end", c.LogEnd(topic, 0), 7)
			want(t, "the second of seven", sequenced(c, topic, id, epoch, 1, 1).ErrorCode, errOutOfOrderSequence)
			for i := int32(2); i < 7; i++ {
				rp := sequenced(c, topic, id, epoch, i, 1)
				want(t, "resend", rp.ErrorCode, errNone)
				want(t, "original base offset", rp.BaseOffset, int64(i))
			}
			want(t, "log end", c.LogEnd(topic, 0), 7)
			want(t, "next", sequenced(c, topic, id, epoch, 7, 1).BaseOffset, 7)
		})
	}
}

func TestD10FailedAppendKeepsTheSequence(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, map[string]string{"max.message.bytes": "1000"})
	id, epoch := c.ProducerID()
	want(t, "first", sequenced(c, topic, id, epoch, 0, 1).ErrorCode, errNone)
	large := batchOf(string(make([]byte, 2000))).Idempotent(id, epoch, 1)
	want(t, "too large", c.Produce(topic, 0, large.Encode()).ErrorCode, errMessageTooLarge)
	late := brokertest.NewBatch(brokertest.Values(now()+2*3600_000, "v")...).Idempotent(id, epoch, 1)
	want(t, "too late", c.Produce(topic, 0, late.Encode()).ErrorCode, errInvalidTimestamp)
	want(t, "same sequence", sequenced(c, topic, id, epoch, 1, 1).ErrorCode, errNone)
	want(t, "log end", c.LogEnd(topic, 0), 2)
}

func TestD12ResendInOtherPieces(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	id, epoch := c.ProducerID()
	want(t, "0-9", sequenced(c, topic, id, epoch, 0, 10).ErrorCode, errNone)
	want(t, "0-4", sequenced(c, topic, id, epoch, 0, 5).ErrorCode, errOutOfOrderSequence)
	want(t, "5-14", sequenced(c, topic, id, epoch, 5, 10).ErrorCode, errOutOfOrderSequence)
	want(t, "log end", c.LogEnd(topic, 0), 10)
}

func TestD13ProducerIDsAreDistinct(t *testing.T) {
	b := brokertest.Start(t, nil)
	seen := map[int64]bool{}
	take := func() {
		c := brokertest.Dial(t, b.Addr)
		for range 1500 { // more than one block of ids
			id, epoch := c.ProducerID()
			if seen[id] || epoch != 0 || id < 0 {
				t.Fatalf("id %d epoch %d; seen before: %v", id, epoch, seen[id])
			}
			seen[id] = true
		}
	}
	take()
	if brokertest.Outside() != "" {
		return
	}
	b.Stop(t)
	b.Restart(t)
	take()
	b.Kill(t)
	b.Restart(t)
	take()
}

func TestD14TransactionalIDIsRefused(t *testing.T) {
	b, c := start(t)
	b.SkipOnKafka(t, "it has transactions")
	if _, ok := c.Versions()[24]; ok {
		t.Skip("transactions are advertised")
	}
	for version := int16(0); version <= c.Versions()[22][1]; version++ {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr("tx"), 1000
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp := c.Request(req, version).(*kmsg.InitProducerIDResponse)
		if resp.ErrorCode == errNone || resp.ProducerID != -1 {
			t.Errorf("v%d: error %d, producer id %d", version, resp.ErrorCode, resp.ProducerID)
		}
	}
	for _, key := range []int16{25, 26, 27, 28} {
		if _, ok := c.Versions()[key]; ok {
			t.Errorf("%s is advertised", kmsg.NameForKey(key))
		}
	}
}

func TestD16ManyProducerIDs(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"producer.id.expiration.ms": "1000"})
	b.SkipOnKafka(t, "it looks for expired producers every ten minutes")
	topic := b.NewTopic(t, 1, nil)
	c := brokertest.Dial(t, b.Addr)
	c.MustProduce(topic, 0, batchOf("v").Idempotent(1_000_000, 0, 0))
	before := residentBytes(t, b)
	const producers, window = 20_000, 100
	req := brokertest.ProduceRequest(9, -1, topic)
	var ids []int32
	for i := range producers {
		ids = append(ids, c.Send(brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Records: batchOf("v").Idempotent(int64(i)+2_000_000, 0, 0).Encode()}), 9))
		if i >= window {
			want(t, "error", c.Receive(req, ids[i-window]).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, errNone)
		}
	}
	for _, id := range ids[producers-window:] {
		c.Receive(req, id)
	}
	if grown := residentBytes(t, b) - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MiB for %d producers", grown>>20, producers)
	}
	// An expired producer goes on where it was.
	brokertest.Eventually(t, "the first producer expires", func() bool { return len(producersOf(c, topic)) == 0 })
	want(t, "expired producer", c.Produce(topic, 0, batchOf("v").Idempotent(1_000_000, 0, 1).Encode()).ErrorCode, errNone)
	want(t, "log end", c.LogEnd(topic, 0), producers+2)
}

// producersOf asks for the producers that a partition knows.
func producersOf(c *brokertest.Conn, topic brokertest.Topic) []kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	resp := c.Request(brokertest.Minimal(61, 0, topic), 0).(*kmsg.DescribeProducersResponse)
	return resp.Topics[0].Partitions[0].ActiveProducers
}

func TestDescribeProducersAnswers(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	want(t, "producers of an empty log", len(producersOf(c, topic)), 0)
	id, epoch := c.ProducerID()
	ts := now()
	c.MustProduce(topic, 0, brokertest.NewBatch(brokertest.Values(ts, "a", "b", "c")...).Idempotent(id, epoch, 0))
	c.MustProduce(topic, 0, batchOf("without an id"))
	got := producersOf(c, topic)
	if len(got) != 1 {
		t.Fatalf("producers %+v, want one", got)
	}
	want(t, "id", got[0].ProducerID, id)
	want(t, "epoch", got[0].ProducerEpoch, int32(epoch))
	want(t, "last sequence", got[0].LastSequence, 2)
	want(t, "last timestamp", got[0].LastTimestamp, ts)
	want(t, "transaction start", got[0].CurrentTxnStartOffset, -1)
}
