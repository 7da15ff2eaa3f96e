package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
)

// DescribeTopicPartitions (75), version 0 (KIP-966): topics in the order of their names, at most so many
// partitions at once; where the answer ends, the cursor of the next request begins.

// describedPartitionsMax is Kafka's max.request.partition.size.limit.
const describedPartitionsMax = 2000

// describeTopicPartitions lists all topics where none is named.
func (s *Server) describeTopicPartitions(r *request) kmsg.Response {
	req := r.body.(*kmsg.DescribeTopicPartitionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	d := partitionDescriber{image: s.image(), resp: resp, left: max(1, min(int(req.ResponsePartitionLimit), describedPartitionsMax))}
	names := make([]string, 0, len(req.Topics))
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if c := req.Cursor; c != nil {
		if c.Partition < 0 || len(names) > 0 && !slices.Contains(names, c.Topic) {
			refuseAll(resp, names)
			return resp
		}
		d.first, d.firstPartition = c.Topic, int(c.Partition)
	}
	if len(names) == 0 {
		d.image.TopicsFrom(d.first, func(t *cluster.Topic) bool { return d.topic(t.Name) })
		return resp
	}
	for _, name := range names {
		if name >= d.first && !d.topic(name) {
			break
		}
	}
	return resp
}

func refuseAll(resp *kmsg.DescribeTopicPartitionsResponse, names []string) {
	for _, name := range names {
		out := kmsg.NewDescribeTopicPartitionsResponseTopic()
		out.Topic, out.ErrorCode = &name, codeInvalidRequest
		resp.Topics = append(resp.Topics, out)
	}
}

type partitionDescriber struct {
	image          *cluster.Image
	resp           *kmsg.DescribeTopicPartitionsResponse
	left           int    // partitions that the answer may still hold
	first          string // topic that the cursor names
	firstPartition int
}

// topic adds one topic and returns false when the answer is full.
func (d *partitionDescriber) topic(name string) bool {
	if d.left == 0 {
		d.stopAt(name, 0)
		return false
	}
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic = &name
	out.AuthorizedOperations = operationsOfTopic
	t := d.image.TopicByName([]byte(name))
	if t == nil {
		out.ErrorCode = codeUnknownTopicOrPartition
		if cluster.CheckTopicName(name) != nil {
			out.ErrorCode = codeInvalidTopic
		}
		d.resp.Topics = append(d.resp.Topics, out)
		return true
	}
	out.TopicID = t.ID
	from := 0
	if name == d.first {
		from = min(d.firstPartition, len(t.Partitions))
	}
	to := min(len(t.Partitions), from+d.left)
	for i := from; i < to; i++ {
		out.Partitions = append(out.Partitions, d.partition(t, i))
	}
	d.left -= to - from
	d.resp.Topics = append(d.resp.Topics, out)
	if to < len(t.Partitions) {
		d.stopAt(name, to)
		return false
	}
	return true
}

func (d *partitionDescriber) partition(t *cluster.Topic, i int) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	p := &t.Partitions[i]
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.Partition, out.LeaderID, out.LeaderEpoch, out.Replicas, out.ISR = int32(i), p.Leader, p.LeaderEpoch, p.Replicas, p.ISR
	out.EligibleLeaderReplicas, out.LastKnownELR = []int32{}, []int32{}
	out.OfflineReplicas = offlineReplicas(d.image, p)
	if p.Leader < 0 {
		out.ErrorCode = codeLeaderNotAvailable
	}
	return out
}

func (d *partitionDescriber) stopAt(topic string, partition int) {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, int32(partition)
	d.resp.NextCursor = &c
}
