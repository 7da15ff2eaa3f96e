package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestI08DeleteRecordsOfAnEmptyLog(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 3)
	f := func(want, topic string, asked ...[2]int64) {
		t.Helper()
		for v := int16(0); v <= 2; v++ {
			req := kmsg.NewPtrDeleteRecordsRequest()
			in := kmsg.NewDeleteRecordsRequestTopic()
			in.Topic = topic
			for _, a := range asked {
				in.Partitions = append(in.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: int32(a[0]), Offset: a[1]})
			}
			req.Topics = append(req.Topics, in)
			got := ""
			for _, p := range ask[*kmsg.DeleteRecordsResponse](h, v, req).Topics[0].Partitions {
				got += fmt.Sprintf("%d:code %d low %d ", p.Partition, p.ErrorCode, p.LowWatermark)
			}
			equal(h, "answer", got, want)
		}
	}
	f("0:code 0 low 0 1:code 0 low 0 2:code 1 low -1 9:code 3 low -1 ", "a", [2]int64{0, -1}, [2]int64{1, 0}, [2]int64{2, 5}, [2]int64{9, 0})
	f("0:code 1 low -1 ", "a", [2]int64{0, -2})
	f("0:code 0 low 0 ", "a", [2]int64{0, -2}, [2]int64{0, 0})
	f("0:code 3 low -1 ", "none", [2]int64{0, -1})
}

func TestF09OffsetForLeaderEpochOfAnEmptyLog(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 2)
	f := func(want, topic string, asked ...[3]int32) {
		t.Helper()
		for v := int16(2); v <= 4; v++ {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			in := kmsg.NewOffsetForLeaderEpochRequestTopic()
			in.Topic = topic
			for _, a := range asked {
				in.Partitions = append(in.Partitions, kmsg.OffsetForLeaderEpochRequestTopicPartition{Partition: a[0], CurrentLeaderEpoch: a[1], LeaderEpoch: a[2]})
			}
			req.Topics = append(req.Topics, in)
			got := ""
			for _, p := range ask[*kmsg.OffsetForLeaderEpochResponse](h, v, req).Topics[0].Partitions {
				got += fmt.Sprintf("%d:code %d (%d,%d) ", p.Partition, p.ErrorCode, p.LeaderEpoch, p.EndOffset)
			}
			equal(h, "answer", got, want)
		}
	}
	f("0:code 0 (0,0) 1:code 75 (-1,-1) 1:code 74 (-1,-1) 9:code 3 (-1,-1) ", "a", [3]int32{0, -1, 0}, [3]int32{1, 5, 0}, [3]int32{1, -3, 0}, [3]int32{9, -1, 0})
	f("0:code 0 (-1,-1) 1:code 0 (-1,-1) ", "a", [3]int32{0, -1, -1}, [3]int32{1, -1, 7})
	f("0:code 3 (-1,-1) ", "none", [3]int32{0, -1, 0})
}

func TestDescribeProducersEchoesOnce(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, topic := range []string{"a", "none", "a b"} {
		req.Topics = append(req.Topics, kmsg.DescribeProducersRequestTopic{Topic: topic, Partitions: []int32{0, 7, 0}})
	}
	got := ""
	for _, out := range ask[*kmsg.DescribeProducersResponse](h, 0, req).Topics {
		for _, p := range out.Partitions {
			got += fmt.Sprintf("%s-%d/%d ", out.Topic, p.Partition, p.ErrorCode)
		}
	}
	equal(h, "answer", got, "a-0/0 a-7/3 none-0/3 none-7/3 a b-0/17 a b-7/17 ")
}

func TestDescribeLogDirs(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 2)
	h.create("b", 1)
	f := func(want string, topics []kmsg.DescribeLogDirsRequestTopic) {
		t.Helper()
		for v := int16(1); v <= 5; v++ {
			req := kmsg.NewPtrDescribeLogDirsRequest()
			req.Topics = topics
			resp := ask[*kmsg.DescribeLogDirsResponse](h, v, req)
			equal(h, "directories", len(resp.Dirs), 1)
			dir := resp.Dirs[0]
			equal(h, "directory", dir.Dir, h.s.o.Shards.Stores()[0].Dir())
			equal(h, "volume", v < 4 || dir.TotalBytes > dir.UsableBytes && dir.UsableBytes > 0, true)
			got := ""
			for _, out := range dir.Topics {
				for _, p := range out.Partitions {
					got += fmt.Sprintf("%s-%d ", out.Topic, p.Partition)
				}
			}
			equal(h, "partitions", got, want)
		}
	}
	f("a-0 a-1 b-0 ", nil)
	f("", []kmsg.DescribeLogDirsRequestTopic{})
	f("a-1 ", []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{1, 7, 1, -1}}, {Topic: "none", Partitions: []int32{0}}, {Topic: "b"}})
}

func TestD13ProducerIDsAreDistinct(t *testing.T) {
	h := newHandlerTest(t)
	seen := map[int64]bool{}
	for v := int16(0); v <= 5; v++ {
		for range 1000 {
			resp := ask[*kmsg.InitProducerIDResponse](h, v, kmsg.NewPtrInitProducerIDRequest())
			if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 || seen[resp.ProducerID] {
				t.Fatalf("answer %+v", resp)
			}
			seen[resp.ProducerID] = true
		}
	}
	h.apply.err = fmt.Errorf("no quorum")
	for range 1000 { // what is left of the block
		if resp := ask[*kmsg.InitProducerIDResponse](h, 5, kmsg.NewPtrInitProducerIDRequest()); resp.ErrorCode != 0 {
			equal(h, "code", resp.ErrorCode, codeCoordinatorLoadInProgress)
			equal(h, "id", resp.ProducerID, -1)
			return
		}
	}
	t.Error("ids are handed out although none can be allocated")
}

func TestD14TransactionalIDIsRefused(t *testing.T) {
	h := newHandlerTest(t)
	f := func(transactionalID *string, id int64, epoch, want int16) {
		t.Helper()
		for v := int16(3); v <= 5; v++ {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch = transactionalID, id, epoch
			resp := ask[*kmsg.InitProducerIDResponse](h, v, req)
			equal(h, "code", resp.ErrorCode, want)
			equal(h, "an id is there", resp.ProducerID >= 0, want == 0)
		}
	}
	name, empty := "orders", ""
	f(&name, -1, -1, codeTransactionalIDAuthorizationFailed)
	f(&name, 5, 5, codeTransactionalIDAuthorizationFailed)
	f(&empty, -1, -1, codeInvalidRequest)
	f(nil, 5, -1, codeInvalidRequest)
	f(nil, -1, 5, codeInvalidRequest)
	f(nil, 5, 5, 0)
}
