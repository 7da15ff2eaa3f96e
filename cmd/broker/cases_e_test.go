package broker_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// decoded is DecodeBatches that fails the test.
func decoded(t *testing.T, what string, raw []byte) []*brokertest.Batch {
	t.Helper()
	batches, err := brokertest.DecodeBatches(raw)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return batches
}

func TestE01FirstBatchIsLargerThanTheLimits(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	sent := batchOf(string(bytes.Repeat([]byte("x"), 100_000)))
	c.MustProduce(topic, 0, sent)
	for version := int16(4); version <= c.Versions()[1][1]; version++ {
		req := brokertest.FetchRequest(version, 0, topic, brokertest.FetchFrom{BytesMax: 1})
		req.MaxBytes = 1
		rp := c.FetchParts(req)[0]
		want(t, "error", rp.ErrorCode, errNone)
		batches := decoded(t, "records", rp.RecordBatches)
		if len(batches) != 1 {
			t.Fatalf("v%d: %d batches, want one", version, len(batches))
		}
		sameRecords(t, fmt.Sprintf("v%d", version), batches[0].Records, sent.Records, 0)
	}
}

func TestE02OnlyTheFirstPartitionExceeds(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	for p := range int32(2) {
		c.MustProduce(topic, p, batchOf(string(bytes.Repeat([]byte("x"), 500<<10))))
	}
	req := brokertest.FetchRequest(12, 0, topic, brokertest.FetchFrom{Partition: 0, BytesMax: 1024}, brokertest.FetchFrom{Partition: 1, BytesMax: 1024})
	parts := c.FetchParts(req)
	if len(parts[0].RecordBatches) < 500<<10 {
		t.Errorf("first partition has %d bytes", len(parts[0].RecordBatches))
	}
	want(t, "second partition's error", parts[1].ErrorCode, errNone)
	want(t, "second partition's bytes", len(parts[1].RecordBatches), 0)
	want(t, "second partition's high watermark", parts[1].HighWatermark, 1)
}

func TestE03LongPoll(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	began := time.Now()
	rp := c.FetchParts(brokertest.FetchRequest(12, 1000, topic, brokertest.FetchFrom{}))[0]
	if waited := time.Since(began); waited < 950*time.Millisecond || waited > 1900*time.Millisecond {
		t.Errorf("idle poll of 1000 ms was answered after %v", waited)
	}
	want(t, "error", rp.ErrorCode, errNone)
	want(t, "high watermark", rp.HighWatermark, 0)
	if rp.RecordBatches == nil || len(rp.RecordBatches) != 0 {
		t.Errorf("idle records %v, want empty and not null", rp.RecordBatches)
	}

	req := brokertest.FetchRequest(12, 30_000, topic, brokertest.FetchFrom{})
	id := c.Send(req, 12)
	if _, err := c.ReadFrame(200 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the poll must wait: %v", err)
	}
	brokertest.Dial(t, b.Addr).MustProduce(topic, 0, batchOf("v"))
	began = time.Now()
	resp := c.Receive(req, id).(*kmsg.FetchResponse)
	if waited := time.Since(began); waited > 500*time.Millisecond { // 50 ms on an idle machine
		t.Errorf("woken %v after the acknowledgement", waited)
	}
	want(t, "records", len(decoded(t, "records", resp.Topics[0].Partitions[0].RecordBatches)), 1)
}

func TestE04OneBadPartitionIsAnsweredAtOnce(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	epoch := c.ListOffset(topic, 0, -1).LeaderEpoch
	f := func(what string, code int16, spoil func(p *kmsg.FetchRequestTopicPartition)) {
		t.Helper()
		req := brokertest.FetchRequest(12, 10_000, topic, brokertest.FetchFrom{Partition: 0}, brokertest.FetchFrom{Partition: 1})
		spoil(&req.Topics[0].Partitions[0])
		began := time.Now()
		parts := c.FetchParts(req)
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("%s: answered after %v", what, waited)
		}
		for _, p := range parts {
			if p.Partition == 1 {
				want(t, what+": the good partition", p.ErrorCode, errNone)
			} else {
				want(t, what, p.ErrorCode, code)
			}
		}
	}
	f("out of range", errOffsetOutOfRange, func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 5 })
	f("newer leader epoch", errUnknownLeaderEpoch, func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = epoch + 1 })
	t.Run("unknown", func(t *testing.T) {
		b.SkipOnKafka(t, "it holds 3 and 100 until max_wait")
		f("unknown partition", errUnknownTopicOrPartition, func(p *kmsg.FetchRequestTopicPartition) { p.Partition = 99 })
	})
}

func TestE05FetchOffsetsAtTheBounds(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("a", "b", "c", "d"))
	c.Request(brokertest.DeleteRecordsRequest(topic, 0, 2), 2)
	f := func(offset int64, code int16, records int) {
		t.Helper()
		rp := c.Fetch(topic, 0, offset)
		what := fmt.Sprint("offset ", offset)
		want(t, what, rp.ErrorCode, code)
		if code != errNone {
			want(t, what+": high watermark", rp.HighWatermark, -1)
			want(t, what+": bytes", len(rp.RecordBatches), 0)
			return
		}
		want(t, what+": high watermark", rp.HighWatermark, 4)
		want(t, what+": log start", rp.LogStartOffset, 2)
		n := 0
		for _, batch := range decoded(t, what, rp.RecordBatches) {
			for _, r := range batch.Records {
				if r.Offset >= offset {
					n++
				}
			}
		}
		want(t, what+": records", n, records)
	}
	f(2, errNone, 2)
	f(3, errNone, 1)
	f(4, errNone, 0)
	f(5, errOffsetOutOfRange, 0)
	f(1, errOffsetOutOfRange, 0)
	f(0, errOffsetOutOfRange, 0)
	f(-5, errOffsetOutOfRange, 0)
	f(-1, errOffsetOutOfRange, 0)
	f(1<<62, errOffsetOutOfRange, 0)
}

func TestE06FetchAtEveryOffset(t *testing.T) {
	b, c := start(t)
	for codec := brokertest.None; codec <= brokertest.Zstd; codec++ {
		topic := b.NewTopic(t, 1, nil)
		for i := range 3 {
			var values []string
			for j := range 10 {
				values = append(values, fmt.Sprint(10*i+j))
			}
			c.MustProduce(topic, 0, batchOf(values...).Compressed(codec))
		}
		for offset := range int64(30) {
			records := c.Records(topic, 0, offset)
			want(t, "records", len(records), int(30-offset))
			for i, r := range records {
				want(t, "offset", r.Offset, offset+int64(i))
				want(t, "value", string(r.Value), fmt.Sprint(r.Offset))
			}
		}
	}
}

func TestE12ReadCommittedOfPlainData(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("v"))
	for _, version := range []int16{4, 11, 12, 16} {
		for isolation := range int8(2) { // E13 is isolation 0
			req := brokertest.FetchRequest(version, 0, topic, brokertest.FetchFrom{})
			req.IsolationLevel = isolation
			rp := c.FetchParts(req)[0]
			want(t, "error", rp.ErrorCode, errNone)
			want(t, "high watermark", rp.HighWatermark, 1)
			want(t, "last stable offset", rp.LastStableOffset, 1)
			want(t, "aborted transactions", len(rp.AbortedTransactions), 0)
			want(t, "batches", len(decoded(t, "records", rp.RecordBatches)), 1)
		}
	}
}

func TestE13ReadUncommittedHasNoAbortedTransactions(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	for version := int16(4); version <= c.Versions()[1][1]; version++ {
		rp := c.FetchParts(brokertest.FetchRequest(version, 0, topic, brokertest.FetchFrom{}))[0]
		want(t, "aborted transactions", len(rp.AbortedTransactions), 0)
	}
}

func TestE14TopicIsDeletedUnderALongPoll(t *testing.T) {
	b, c := start(t)
	for _, version := range []int16{12, 13} {
		topic := b.NewTopic(t, 1, nil)
		req := brokertest.FetchRequest(version, 30_000, topic, brokertest.FetchFrom{})
		id := c.Send(req, version)
		if _, err := c.ReadFrame(200 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the poll must wait: %v", err)
		}
		brokertest.Dial(t, b.Addr).Request(brokertest.DeleteTopicsRequest(topic.Name), 5)
		began := time.Now()
		resp := c.Receive(req, id).(*kmsg.FetchResponse)
		if waited := time.Since(began); waited > 2*time.Second { // 500 ms on an idle machine
			t.Errorf("v%d: answered %v after the deletion", version, waited)
		}
		code := resp.ErrorCode
		if len(resp.Topics) > 0 {
			code = resp.Topics[0].Partitions[0].ErrorCode
		}
		wantOneOf(t, fmt.Sprintf("v%d poll", version), code, errUnknownTopicOrPartition, errUnknownTopicID)
	}
}

func TestE15TopicIsRecreatedUnderItsName(t *testing.T) {
	b, c := start(t)
	old := b.NewTopic(t, 2, nil)
	c.MustProduce(old, 0, batchOf("old 0", "old 1"))
	session := brokertest.FetchRequest(13, 0, old, brokertest.FetchFrom{Partition: 0, Offset: 2}, brokertest.FetchFrom{Partition: 1})
	session.SessionEpoch = 0
	opened := c.Request(session, 13).(*kmsg.FetchResponse)
	if opened.SessionID == 0 {
		t.Fatal("no session")
	}
	deleted := c.Request(brokertest.DeleteTopicsRequest(old.Name), 5).(*kmsg.DeleteTopicsResponse)
	want(t, "delete", deleted.Topics[0].ErrorCode, errNone)
	brokertest.Eventually(t, "the topic is gone", func() bool {
		return c.Request(brokertest.MetadataRequest(old.Name), 12).(*kmsg.MetadataResponse).Topics[0].ErrorCode == errUnknownTopicOrPartition
	})
	fresh := b.CreateTopic(t, old.Name, 1, nil)
	c.MustProduce(fresh, 0, batchOf("new 0", "new 1", "new 2"))
	if fresh.ID == old.ID {
		t.Fatal("the new topic has the old id")
	}
	want(t, "v13 with the old id", c.FetchParts(brokertest.FetchRequest(13, 0, old, brokertest.FetchFrom{}))[0].ErrorCode, errUnknownTopicID)
	want(t, "v13 with the new id", string(decoded(t, "new", c.FetchParts(brokertest.FetchRequest(13, 0, fresh, brokertest.FetchFrom{}))[0].RecordBatches)[0].Records[0].Value), "new 0")
	want(t, "v12 by name", string(c.Records(fresh, 0, 0)[0].Value), "new 0")

	next := kmsg.NewPtrFetchRequest()
	next.MaxBytes, next.SessionID, next.SessionEpoch = 1<<20, opened.SessionID, 1
	resp := c.Request(next, 13).(*kmsg.FetchResponse)
	if resp.ErrorCode != errNone {
		wantOneOf(t, "running session", resp.ErrorCode, errInconsistentTopicID, errUnknownTopicID)
	}
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			wantOneOf(t, "running session's partition", rp.ErrorCode, errUnknownTopicOrPartition, errUnknownTopicID, errInconsistentTopicID)
			want(t, "its bytes", len(rp.RecordBatches), 0)
		}
	}
}

func TestE16CurrentLeaderEpoch(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	epoch := c.ListOffset(topic, 0, -1).LeaderEpoch
	f := func(current int32, code int16) {
		t.Helper()
		req := brokertest.FetchRequest(12, 0, topic, brokertest.FetchFrom{})
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = current
		want(t, fmt.Sprintf("fetch with %d at %d", current, epoch), c.FetchParts(req)[0].ErrorCode, code)
		list := brokertest.ListOffsetsRequest(topic, 0, -1)
		list.Topics[0].Partitions[0].CurrentLeaderEpoch = current
		want(t, "list offsets", c.Request(list, 5).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode, code)
	}
	f(-1, errNone)
	f(epoch, errNone)
	f(epoch+1, errUnknownLeaderEpoch)
	if epoch > 0 {
		f(epoch-1, errFencedLeaderEpoch)
	}
}

func TestE16OlderLeaderEpochIsFenced(t *testing.T) {
	b := brokertest.Start(t, nil)
	topic := b.NewTopic(t, 1, nil)
	c := brokertest.Dial(t, b.Addr)
	c.MustProduce(topic, 0, batchOf("before the kill"))
	epoch := c.ListOffset(topic, 0, -1).LeaderEpoch
	b.Kill(t)
	b.Restart(t)
	c = brokertest.Dial(t, b.Addr)
	c.MustProduce(topic, 0, batchOf("v"))
	raised := c.ListOffset(topic, 0, -1).LeaderEpoch
	if raised <= epoch {
		t.Fatalf("leader epoch %d after a kill, was %d", raised, epoch)
	}
	req := brokertest.FetchRequest(12, 0, topic, brokertest.FetchFrom{})
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
	want(t, "older epoch", c.FetchParts(req)[0].ErrorCode, errFencedLeaderEpoch)
}

func TestE18ReplyStaysWithinMaxBytes(t *testing.T) {
	b, c := start(t)
	const partitions = 100
	topic := b.NewTopic(t, partitions, nil)
	const batchBytes = 100_000
	var from []brokertest.FetchFrom
	for p := range int32(partitions) {
		c.MustProduce(topic, p, batchOf(string(bytes.Repeat([]byte{byte(p)}, batchBytes))))
		from = append(from, brokertest.FetchFrom{Partition: p, BytesMax: 1 << 20})
	}
	for _, limit := range []int32{1 << 20, 5 << 20} {
		req := brokertest.FetchRequest(12, 0, topic, from...)
		req.MaxBytes = limit
		total := 0
		for _, rp := range c.FetchParts(req) {
			want(t, "error", rp.ErrorCode, errNone)
			want(t, "high watermark", rp.HighWatermark, 1)
			total += len(rp.RecordBatches)
		}
		if total > int(limit)+batchBytes+200 || total < int(limit)-batchBytes-200 {
			t.Errorf("%d bytes for a limit of %d", total, limit)
		}
	}
}

func TestE22EveryPartitionIsEchoedOnce(t *testing.T) {
	b, c := start(t)
	first, second := b.NewTopic(t, 1, nil), b.NewTopic(t, 1, nil)
	missing := brokertest.Topic{Name: brokertest.FreshName("missing"), ID: [16]byte{7}}
	for _, version := range []int16{4, 12, 13} {
		req := brokertest.FetchRequest(version, 0, first, brokertest.FetchFrom{Partition: 0}, brokertest.FetchFrom{Partition: 5}, brokertest.FetchFrom{Partition: 6})
		req.Topics = append(req.Topics, brokertest.FetchTopic(missing, brokertest.FetchFrom{Partition: 1}, brokertest.FetchFrom{Partition: 2}))
		req.Topics = append(req.Topics, brokertest.FetchTopic(second, brokertest.FetchFrom{Partition: 0, Offset: 9}))
		got := map[string]int16{}
		for _, rt := range c.Request(req, version).(*kmsg.FetchResponse).Topics {
			for _, rp := range rt.Partitions {
				key := fmt.Sprintf("%s-%d", rt.Topic, rp.Partition)
				if version >= 13 {
					key = fmt.Sprintf("%x-%d", rt.TopicID, rp.Partition)
				}
				if _, twice := got[key]; twice {
					t.Errorf("v%d: %s is answered twice", version, key)
				}
				got[key] = rp.ErrorCode
			}
		}
		f := func(topic brokertest.Topic, partition int32, code int16) {
			t.Helper()
			key := fmt.Sprintf("%s-%d", topic.Name, partition)
			if version >= 13 {
				key = fmt.Sprintf("%x-%d", topic.ID, partition)
			}
			have, ok := got[key]
			want(t, key+" is answered", ok, true)
			want(t, fmt.Sprintf("v%d %s", version, key), have, code)
		}
		unknown := int16(errUnknownTopicOrPartition)
		if version >= 13 {
			unknown = errUnknownTopicID
		}
		f(first, 0, errNone)
		f(first, 5, errUnknownTopicOrPartition)
		f(first, 6, errUnknownTopicOrPartition)
		f(missing, 1, unknown)
		f(missing, 2, unknown)
		f(second, 0, errOffsetOutOfRange)
		want(t, "answers", len(got), 6)
	}
}

func TestE23LogStartInsideABatch(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("0", "1", "2", "3", "4").Compressed(brokertest.Gzip))
	c.MustProduce(topic, 0, batchOf("5", "6"))
	c.Request(brokertest.DeleteRecordsRequest(topic, 0, 3), 2)
	records := c.Records(topic, 0, 3)
	want(t, "records", len(records), 4)
	for i, r := range records {
		want(t, "offset", r.Offset, int64(3+i))
		want(t, "value", string(r.Value), fmt.Sprint(3+i))
	}
	want(t, "below the log start", c.Fetch(topic, 0, 2).ErrorCode, errOffsetOutOfRange)
}

func TestE24ClosedLongPollsLeaveNothing(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.Alive()
	before := openFiles(t, b)
	const polls = 500
	conns := make([]*brokertest.Conn, polls)
	for i := range conns {
		conns[i] = brokertest.Dial(t, b.Addr)
		conns[i].Send(brokertest.FetchRequest(12, 30_000, topic, brokertest.FetchFrom{}), 12)
	}
	for _, one := range conns {
		one.NetConn.Close()
	}
	brokertest.Eventually(t, "descriptors are given back", func() bool { return openFiles(t, b) <= before+10 })
	c.MustProduce(topic, 0, batchOf("v"))
}

func TestE25ServedHeadersAreTrue(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, map[string]string{"retention.ms": "-1"})
	id, epoch := c.ProducerID()
	records := brokertest.Values(5000, "a", "b", "c")
	records[1].Timestamp, records[2].Timestamp = 9000, 7000
	for i, codec := range []int16{brokertest.None, brokertest.Gzip, brokertest.Snappy, brokertest.LZ4, brokertest.Zstd} {
		c.MustProduce(topic, 0, brokertest.NewBatch(records...).Compressed(codec).Idempotent(id, epoch, int32(3*i)))
	}
	c.MustProduce(topic, 0, brokertest.NewBatch(records...))
	n := int64(0)
	for _, batch := range c.Batches(topic, 0, 0) { // the decoder checks the CRC, the count and the deltas
		highest := int64(-1)
		for _, r := range batch.Records {
			highest = max(highest, r.Timestamp)
		}
		want(t, "largest timestamp", batch.MaxTimestamp, highest)
		want(t, "last offset delta", batch.LastOffsetDelta, batch.Count-1)
		want(t, "base offset", batch.BaseOffset, n)
		want(t, "transactional and control bits", batch.Attributes&(brokertest.TransactionalBit|brokertest.ControlBit), 0)
		if batch.BaseOffset < 15 && batch.ProducerID != -1 {
			want(t, "producer id", batch.ProducerID, id)
			want(t, "producer epoch", batch.ProducerEpoch, epoch)
			want(t, "base sequence", int64(batch.BaseSequence), batch.BaseOffset)
		} else if batch.BaseOffset >= 15 {
			want(t, "no producer id", batch.ProducerID, -1)
			want(t, "no sequence", batch.BaseSequence, -1)
		}
		n += int64(batch.Count)
	}
	want(t, "records", n, 18)
}

func TestE26FetchBeforeV4IsNotAdvertised(t *testing.T) {
	_, c := start(t)
	want(t, "lowest Fetch", c.Versions()[1][0], 4)
}
