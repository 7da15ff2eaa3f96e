package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlerTest) listOffsets(version int16, isolation int8, topic string, asked ...[3]int64) string {
	h.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, a := range asked {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = int32(a[0]), a[1], int32(a[2])
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	got := ""
	for _, out := range ask[*kmsg.ListOffsetsResponse](h, version, req).Topics {
		equal(h, "topic", out.Topic, topic)
		for _, p := range out.Partitions {
			got += fmt.Sprintf("%d:code %d offset %d ts %d epoch %d ", p.Partition, p.ErrorCode, p.Offset, p.Timestamp, p.LeaderEpoch)
		}
	}
	return got
}

const nothing = "offset -1 ts -1 epoch -1 "

func TestF01EmptyLog(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	for v := int16(4); v <= 11; v++ {
		for _, isolation := range []int8{0, 1} {
			equal(h, "latest", h.listOffsets(v, isolation, "a", [3]int64{0, -1, -1}), "0:code 0 offset 0 ts -1 epoch 0 ")
			equal(h, "earliest", h.listOffsets(v, isolation, "a", [3]int64{0, -2, -1}), "0:code 0 offset 0 ts -1 epoch 0 ")
			equal(h, "by time", h.listOffsets(v, isolation, "a", [3]int64{0, 5, -1}), "0:code 0 "+nothing)
		}
	}
	equal(h, "isolation level 7", h.listOffsets(7, 7, "a", [3]int64{0, -1, -1}), "0:code 42 "+nothing)
}

func TestF05Specials(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	from := map[int64]int16{-3: 7, -4: 8, -5: 9, -6: 11, -7: 99}
	for at, first := range from {
		for v := int16(1); v <= 11; v++ {
			want := "0:code 0 " + nothing
			if at == -4 {
				want = "0:code 0 offset 0 ts -1 epoch 0 "
			}
			if v < first {
				want = "0:code 35 " + nothing
			}
			equal(h, fmt.Sprint(at, " v", v), h.listOffsets(v, 0, "a", [3]int64{0, at, -1}), want)
		}
	}
}

func TestF06PartitionTwice(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 2)
	equal(h, "answer", h.listOffsets(7, 0, "a", [3]int64{0, -1, -1}, [3]int64{1, -1, -1}, [3]int64{0, -2, -1}),
		"0:code 42 "+nothing+"1:code 0 offset 0 ts -1 epoch 0 ")
}

func TestE16LeaderEpochs(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	equal(h, "newer", h.listOffsets(7, 0, "a", [3]int64{0, -1, 5}), "0:code 75 "+nothing)
	equal(h, "older", h.listOffsets(7, 0, "a", [3]int64{0, -1, -2}), "0:code 74 "+nothing)
	equal(h, "right", h.listOffsets(7, 0, "a", [3]int64{0, -1, 0}), "0:code 0 offset 0 ts -1 epoch 0 ")
}

func TestE22EveryPartitionIsEchoed(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	equal(h, "partitions", h.listOffsets(7, 0, "a", [3]int64{5, -1, -1}, [3]int64{-1, -1, -1}), "5:code 3 "+nothing+"-1:code 3 "+nothing)
	equal(h, "topic", h.listOffsets(7, 0, "none", [3]int64{0, -1, -1}), "0:code 3 "+nothing)
	equal(h, "illegal topic", h.listOffsets(7, 0, "a b", [3]int64{0, -1, -1}), "0:code 3 "+nothing)
}
