package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
	"millrace/meta/cluster"
)

// OffsetCommit (8), versions 2 to 10: retention in v2 to v4 only (KIP-211), v6 leader epochs (KIP-320), v7 static
// members (KIP-345), v9 GROUP_ID_NOT_FOUND and KIP-848's errors, v10 topics by id (KIP-848).

// offsetCommit answers when the offsets are kept. A partition that does not exist is refused without regard to the
// group, and where none is left the group is not asked, as in Kafka.
func (s *Server) offsetCommit(r *request) {
	req := r.body.(*kmsg.OffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	commit := &group.Commit{Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID,
		Generation: req.Generation, Version: r.version, Retention: -1}
	if r.version < 5 {
		commit.Retention = req.RetentionTimeMillis
	}
	image := s.image()
	var at []*int16
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, out := &req.Topics[i], &resp.Topics[i]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		topic, missing := namedOrIdentified(image, r.version >= 10, in.Topic, in.TopicID)
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(in.Partitions))
		for j := range in.Partitions {
			p, answer := &in.Partitions[j], &out.Partitions[j]
			answer.Partition = p.Partition
			switch {
			case topic == nil:
				answer.ErrorCode = missing
				continue
			case topic.Partition(p.Partition) == nil:
				answer.ErrorCode = codeUnknownTopicOrPartition
				continue
			}
			o := group.CommitOffset{Topic: topic.ID, Name: topic.Name, Partition: p.Partition, Offset: p.Offset, LeaderEpoch: -1, Metadata: textIn(p.Metadata)}
			if r.version >= 6 {
				o.LeaderEpoch = p.LeaderEpoch
			}
			commit.Offsets = append(commit.Offsets, o)
			at = append(at, &answer.ErrorCode)
		}
	}
	if len(at) == 0 {
		r.finish(resp)
		return
	}
	done := func(codes []int16) {
		for i, code := range codes {
			*at[i] = code
		}
		r.finish(resp)
	}
	if !s.groups.run(func(c *group.Coordinator, now group.Now) { c.Commit(now, commit, done) }) {
		for i := range at {
			*at[i] = codeNotCoordinator
		}
		r.finish(resp)
	}
}

// namedOrIdentified looks a topic up by its name or its id; missing is the code for one that is not there.
func namedOrIdentified(image *cluster.Image, byID bool, name string, id [16]byte) (topic *cluster.Topic, missing int16) {
	if byID {
		return image.TopicByID(id), codeUnknownTopicID
	}
	return image.TopicByName([]byte(name)), codeUnknownTopicOrPartition
}

// textIn is a text that may be missing.
func textIn(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
