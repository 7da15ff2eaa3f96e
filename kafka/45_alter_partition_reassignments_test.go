package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestReassignments(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 2)
	f := func(want, topic string, partition int32, replicas []int32) {
		t.Helper()
		for v := int16(0); v <= 1; v++ {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			in, p := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			p.Partition, p.Replicas = partition, replicas
			in.Topic, in.Partitions = topic, append(in.Partitions, p)
			req.Topics = append(req.Topics, in)
			resp := ask[*kmsg.AlterPartitionAssignmentsResponse](h, v, req)
			out := resp.Topics[0].Partitions[0]
			equal(h, "message", out.ErrorMessage == nil, out.ErrorCode == 0)
			equal(h, fmt.Sprint("v", v), fmt.Sprintf("%s-%d/%d/%d", resp.Topics[0].Topic, out.Partition, resp.ErrorCode, out.ErrorCode), want)
		}
	}
	f("a-1/0/0", "a", 1, []int32{1})
	f("a-0/0/85", "a", 0, nil)
	f("a-2/0/3", "a", 2, []int32{1})
	f("a--1/0/3", "a", -1, []int32{1})
	f("b-0/0/3", "b", 0, []int32{1})
	f("a-0/0/39", "a", 0, []int32{})
	f("a-0/0/39", "a", 0, []int32{7})
	f("a-0/0/39", "a", 0, []int32{1, 1})
	list := ask[*kmsg.ListPartitionReassignmentsResponse](h, 0, kmsg.NewPtrListPartitionReassignmentsRequest())
	equal(h, "under way", len(list.Topics), 0)
}
