package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
)

// DescribeProducers (61), version 0 (KIP-664): the producers that partitions remember.

// describeProducers answers each partition once, however often it is named: one may have many producers.
func (s *Server) describeProducers(r *request) kmsg.Response {
	req := r.body.(*kmsg.DescribeProducersRequest)
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	image := s.image()
	var done repeated[partitionName]
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = in.Topic
		for _, p := range in.Partitions {
			if !done.again(partitionName{in.Topic, p}) {
				out.Partitions = append(out.Partitions, s.producersOf(image, in.Topic, p))
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (s *Server) producersOf(image *cluster.Image, topic string, partition int32) kmsg.DescribeProducersResponseTopicPartition {
	answer := kmsg.NewDescribeProducersResponseTopicPartition()
	answer.Partition = partition
	if err := cluster.CheckTopicName(topic); err != nil {
		answer.ErrorCode, answer.ErrorMessage = codeInvalidTopic, textOrNull(err.Error())
		return answer
	}
	sh, code := s.locate(image, topic, partition)
	if code != codeNone {
		answer.ErrorCode = code
		return answer
	}
	for _, p := range sh.Producers() {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch = p.ID, int32(p.Epoch)
		a.LastSequence, a.LastTimestamp = p.LastSequence, p.LastTimestamp
		a.CoordinatorEpoch, a.CurrentTxnStartOffset = -1, -1
		answer.ActiveProducers = append(answer.ActiveProducers, a)
	}
	return answer
}
