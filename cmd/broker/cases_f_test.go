package broker_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// wantOffset asks for a timestamp and demands offset and time of the answer.
func wantOffset(t *testing.T, c *brokertest.Conn, topic brokertest.Topic, ask, offset, timestamp int64) {
	t.Helper()
	rp := c.ListOffset(topic, 0, ask)
	what := fmt.Sprint("timestamp ", ask)
	want(t, what, rp.ErrorCode, errNone)
	want(t, what+": offset", rp.Offset, offset)
	want(t, what+": time", rp.Timestamp, timestamp)
}

func TestF01LatestAndEarliest(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	wantOffset(t, c, topic, -1, 0, -1)
	wantOffset(t, c, topic, -2, 0, -1)
	wantOffset(t, c, topic, -3, -1, -1)
	ts := now()
	c.MustProduce(topic, 0, brokertest.NewBatch(brokertest.Values(ts, "a", "b", "c")...))
	c.MustProduce(topic, 0, brokertest.NewBatch(brokertest.Values(ts-10, "d", "e")...))
	wantOffset(t, c, topic, -1, 5, -1)
	wantOffset(t, c, topic, -2, 0, -1)
	rp := c.ListOffset(topic, 0, -3)
	want(t, "largest timestamp", rp.Timestamp, ts)
	wantOneOf(t, "its offset", rp.Offset, 0, 1, 2)
	c.Request(brokertest.DeleteRecordsRequest(topic, 0, 2), 2)
	for version := int16(1); version <= c.Versions()[2][1]; version++ {
		for isolation := range int8(2) {
			for ask, offset := range map[int64]int64{-1: 5, -2: 2} {
				req := brokertest.ListOffsetsRequest(topic, 0, ask)
				req.IsolationLevel = isolation
				rp := c.Request(req, version).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
				what := fmt.Sprintf("v%d timestamp %d isolation %d", version, ask, isolation)
				want(t, what, rp.ErrorCode, errNone)
				want(t, what+": offset", rp.Offset, offset)
				want(t, what+": time", rp.Timestamp, -1)
				if version >= 4 && rp.LeaderEpoch < 0 {
					t.Errorf("%s: leader epoch %d", what, rp.LeaderEpoch)
				}
			}
		}
	}
}

func TestF02TimesBetweenRecords(t *testing.T) {
	b, c := start(t)
	for _, codec := range []int16{brokertest.None, brokertest.LZ4} {
		topic := b.NewTopic(t, 1, map[string]string{"retention.ms": "-1"})
		for _, ts := range []int64{2, 4, 6, 8} {
			c.MustProduce(topic, 0, brokertest.NewBatch(brokertest.Values(ts, "v")...).Compressed(codec))
		}
		for i, offset := range []int64{0, 0, 1, 1, 2, 2, 3, 3, -1} {
			ask := int64(i + 1)
			timestamp := int64(-1)
			if offset >= 0 {
				timestamp = 2 * (offset + 1)
			}
			wantOffset(t, c, topic, ask, offset, timestamp)
		}
	}
}

func TestF03TimeInsideABatch(t *testing.T) {
	b, c := start(t)
	for codec := brokertest.None; codec <= brokertest.Zstd; codec++ {
		topic := b.NewTopic(t, 1, map[string]string{"retention.ms": "-1"})
		records := brokertest.Values(10, "a", "b", "c")
		records[1].Timestamp, records[2].Timestamp = 20, 30
		c.MustProduce(topic, 0, brokertest.NewBatch(records...).Compressed(codec))
		wantOffset(t, c, topic, 15, 1, 20)
		wantOffset(t, c, topic, 20, 1, 20)
		wantOffset(t, c, topic, 21, 2, 30)
		wantOffset(t, c, topic, 31, -1, -1)
		wantOffset(t, c, topic, 0, 0, 10)
	}
	// Out of order: the first record at or after the time, by offset.
	topic := b.NewTopic(t, 1, map[string]string{"retention.ms": "-1"})
	records := brokertest.Values(50, "a", "b", "c")
	records[1].Timestamp, records[2].Timestamp = 10, 70
	c.MustProduce(topic, 0, brokertest.NewBatch(records...))
	wantOffset(t, c, topic, 5, 0, 50)
	wantOffset(t, c, topic, 60, 2, 70)
}

func TestF05SpecialTimestamps(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("a", "b", "c"))
	c.Request(brokertest.DeleteRecordsRequest(topic, 0, 1), 2)
	f := func(version int16, ask int64, code int16, offset int64) {
		t.Helper()
		rp := c.ListOffsetV(version, topic, 0, ask)
		what := fmt.Sprintf("v%d timestamp %d", version, ask)
		want(t, what, rp.ErrorCode, code)
		want(t, what+": offset", rp.Offset, offset)
		if offset == -1 && version >= 4 {
			want(t, what+": leader epoch", rp.LeaderEpoch, -1)
		}
	}
	for version := int16(1); version <= c.Versions()[2][1]; version++ {
		if version >= 8 {
			f(version, -4, errNone, 1)
		} else {
			f(version, -4, errUnsupportedVersion, -1)
		}
		if version >= 9 {
			f(version, -5, errNone, -1)
		} else {
			f(version, -5, errUnsupportedVersion, -1)
		}
		if version >= 11 {
			f(version, -6, errNone, -1)
		} else {
			f(version, -6, errUnsupportedVersion, -1)
		}
		f(version, -7, errUnsupportedVersion, -1)
		f(version, -100, errUnsupportedVersion, -1)
	}
}

func TestF06SamePartitionTwice(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	req := brokertest.ListOffsetsRequest(topic, 0, -1)
	other := req.Topics[0].Partitions[0]
	other.Partition = 1
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, other, req.Topics[0].Partitions[0])
	resp := c.Request(req, 5).(*kmsg.ListOffsetsResponse)
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			if rp.Partition == 0 {
				want(t, "doubled partition", rp.ErrorCode, errInvalidRequest)
			} else {
				want(t, "single partition", rp.ErrorCode, errNone)
			}
		}
	}
}

func TestF07TimeBelowTheLogStart(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, map[string]string{"retention.ms": "-1"})
	records := brokertest.Values(10, "a", "b", "c", "d")
	for i := range records {
		records[i].Timestamp = int64(10 * (i + 1))
	}
	c.MustProduce(topic, 0, brokertest.NewBatch(records...))
	c.Request(brokertest.DeleteRecordsRequest(topic, 0, 2), 2)
	for _, ask := range []int64{0, 5, 10, 15, 20, 30} {
		wantOffset(t, c, topic, ask, 2, 30)
	}
	wantOffset(t, c, topic, 31, 3, 40)
}

// wantEpochEnd asks where an epoch ends.
func wantEpochEnd(t *testing.T, c *brokertest.Conn, topic brokertest.Topic, current, ask int32, code int16, epoch int32, end int64) {
	t.Helper()
	for version := int16(2); version <= 4; version++ {
		p := c.Request(brokertest.EpochRequest(topic, 0, current, ask), version).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
		what := fmt.Sprintf("v%d epoch %d (current %d)", version, ask, current)
		want(t, what, p.ErrorCode, code)
		want(t, what+": epoch", p.LeaderEpoch, epoch)
		want(t, what+": end", p.EndOffset, end)
	}
}

func TestF09EpochEnds(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("a", "b", "c"))
	epoch := c.ListOffset(topic, 0, -1).LeaderEpoch
	wantEpochEnd(t, c, topic, -1, epoch, errNone, epoch, 3)
	wantEpochEnd(t, c, topic, epoch, epoch, errNone, epoch, 3)
	wantEpochEnd(t, c, topic, -1, epoch+7, errNone, -1, -1)
	wantEpochEnd(t, c, topic, -1, -1, errNone, -1, -1)
	wantEpochEnd(t, c, topic, epoch+1, epoch, errUnknownLeaderEpoch, -1, -1)
	c.Request(brokertest.DeleteRecordsRequest(topic, 0, 3), 2)
	wantEpochEnd(t, c, topic, -1, epoch, errNone, epoch, 3)
}

func TestF09EpochEndsAfterKills(t *testing.T) {
	b := brokertest.Start(t, nil)
	topic := b.NewTopic(t, 1, nil)
	var epochs []int32
	var c *brokertest.Conn
	for i := range 3 { // epochs e0@0, e1@100, e2@200
		if i > 0 {
			b.Kill(t)
			b.Restart(t)
		}
		c = brokertest.Dial(t, b.Addr)
		c.MustProduce(topic, 0, batchOf(make([]string, 100)...))
		epochs = append(epochs, c.ListOffset(topic, 0, -1).LeaderEpoch)
	}
	if epochs[1] <= epochs[0] || epochs[2] <= epochs[1] {
		t.Fatalf("leader epochs %v must rise with every kill", epochs)
	}
	wantEpochEnd(t, c, topic, -1, epochs[2], errNone, epochs[2], 300)
	wantEpochEnd(t, c, topic, -1, epochs[1], errNone, epochs[1], 200)
	wantEpochEnd(t, c, topic, -1, epochs[0], errNone, epochs[0], 100)
	wantEpochEnd(t, c, topic, -1, epochs[2]+1, errNone, -1, -1)
	wantEpochEnd(t, c, topic, epochs[1], epochs[1], errFencedLeaderEpoch, -1, -1)
	wantEpochEnd(t, c, topic, epochs[2]+1, epochs[1], errUnknownLeaderEpoch, -1, -1)
	c.Request(brokertest.DeleteRecordsRequest(topic, 0, 150), 2)
	wantEpochEnd(t, c, topic, -1, epochs[0], errNone, epochs[0], 150) // below the first known epoch: echoed, its start
	wantEpochEnd(t, c, topic, -1, epochs[1], errNone, epochs[1], 200)
}
