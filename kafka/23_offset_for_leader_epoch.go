package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// OffsetForLeaderEpoch (23), versions 2 to 4 (KIP-279, KIP-320): where the log of a leader epoch ends, for
// clients and followers that look for the point where their data and the log part.

// offsetForLeaderEpoch answers each partition asked in its place, also one that is named twice.
func (s *Server) offsetForLeaderEpoch(r *request) kmsg.Response {
	req := r.body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	image := s.image()
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = in.Topic
		for j := range in.Partitions {
			p := &in.Partitions[j]
			answer := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			answer.Partition, answer.LeaderEpoch, answer.EndOffset = p.Partition, -1, -1
			sh, code := s.locate(image, in.Topic, p.Partition)
			if code == codeNone {
				code = checkEpoch(p.CurrentLeaderEpoch, sh.State())
			}
			if answer.ErrorCode = code; code == codeNone && p.LeaderEpoch >= 0 {
				answer.LeaderEpoch, answer.EndOffset = sh.EndOffsetForEpoch(p.LeaderEpoch)
			}
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
