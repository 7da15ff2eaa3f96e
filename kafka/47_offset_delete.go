package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// OffsetDelete (47), version 0 (KIP-496).

// offsetDelete forgets committed offsets of topics that no member of the group reads.
func (s *Server) offsetDelete(r *request) {
	req := r.body.(*kmsg.OffsetDeleteRequest)
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	image := s.image()
	var places []group.Place
	var at []*int16
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, out := &req.Topics[i], &resp.Topics[i]
		out.Topic = in.Topic
		out.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(in.Partitions))
		topic := image.TopicByName([]byte(in.Topic))
		for j := range in.Partitions {
			answer := &out.Partitions[j]
			answer.Partition = in.Partitions[j].Partition
			if topic == nil || topic.Partition(answer.Partition) == nil {
				answer.ErrorCode = codeUnknownTopicOrPartition
				continue
			}
			places = append(places, group.Place{Topic: topic.ID, Name: topic.Name, Partition: answer.Partition})
			at = append(at, &answer.ErrorCode)
		}
	}
	done := func(err error, codes []int16) {
		if err != nil {
			resp.ErrorCode, _ = codeOfGroup(err)
			resp.Topics = nil
		}
		for i, code := range codes {
			*at[i] = code
		}
		r.finish(resp)
	}
	if !s.groups.run(func(c *group.Coordinator, now group.Now) { c.DeleteOffsets(now, req.Group, places, done) }) {
		resp.ErrorCode, resp.Topics = codeNotCoordinator, nil
		r.finish(resp)
	}
}
