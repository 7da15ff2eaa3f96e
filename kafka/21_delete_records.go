package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
)

// DeleteRecords (21), versions 0 to 2 (KIP-107): moves the log start of partitions up. What was asked last
// counts for a partition that is named twice.

// deleteRecords waits until the new log starts are durable.
func (s *Server) deleteRecords(r *request) kmsg.Response {
	req := r.body.(*kmsg.DeleteRecordsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	image := s.image()
	last := make(map[partitionName]int64)
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			last[partitionName{req.Topics[i].Topic, p.Partition}] = p.Offset
		}
	}
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = in.Topic
		for _, p := range in.Partitions {
			name := partitionName{in.Topic, p.Partition}
			offset, due := last[name]
			if !due {
				continue
			}
			delete(last, name)
			answer := kmsg.NewDeleteRecordsResponseTopicPartition()
			answer.Partition = p.Partition
			answer.LowWatermark, answer.ErrorCode = s.deleteRecordsOf(image, name, offset)
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (s *Server) deleteRecordsOf(image *cluster.Image, name partitionName, offset int64) (int64, int16) {
	sh, code := s.locate(image, name.topic, name.partition)
	if code != codeNone {
		return -1, code
	}
	if c := s.topicConfig(image, image.TopicByName([]byte(name.topic))); c.CleanupCompact && !c.CleanupDelete {
		return -1, codePolicyViolation
	}
	state := sh.State()
	if offset == -1 {
		offset = state.HighWatermark
	}
	if offset < 0 || offset > state.HighWatermark {
		return -1, codeOffsetOutOfRange
	}
	logStart, err := sh.DeleteRecords(offset)
	if err != nil {
		return -1, codeOf(err)
	}
	return logStart, codeNone
}
