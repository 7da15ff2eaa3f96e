package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
	"millrace/kafka/group"
	"millrace/kafka/group/consumer"
	"millrace/meta/cluster"
)

// OffsetFetch (9), versions 1 to 10: v2 all topics by null and a code of the whole, v5 leader epochs, v7
// require_stable (without an effect while there are no transactions), v8 several groups (KIP-709), v9 member id and
// epoch (of KIP-848 groups only), v10 topics by id.

// offsetFetch reads what is applied. A group that does not exist has no offsets, which is no error, and an offset
// that was never committed is -1 with empty metadata.
func (s *Server) offsetFetch(r *request) kmsg.Response {
	req := r.body.(*kmsg.OffsetFetchRequest)
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	code := codeNone
	if s.groups.ended() {
		code = codeNotCoordinator
	}
	if r.version >= 8 {
		for i := range req.Groups {
			in := &req.Groups[i]
			out := kmsg.NewOffsetFetchResponseGroup()
			out.Group, out.ErrorCode = in.Group, code
			if code == codeNone {
				var memberID *string
				if r.version >= 9 {
					memberID = in.MemberID
				}
				out.ErrorCode, _ = consumer.CodeOf(s.o.Groups.CheckFetch(in.Group, memberID, in.MemberEpoch))
			}
			if out.ErrorCode == codeNone {
				out.Topics = s.offsetsOf(r.version, in)
			}
			resp.Groups = append(resp.Groups, out)
		}
		return resp
	}
	if resp.ErrorCode = code; code != codeNone && r.version >= 2 {
		return resp
	}
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = req.Group
	if req.Topics != nil {
		asked.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
		for i := range req.Topics {
			asked.Topics[i].Topic, asked.Topics[i].Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
		}
	}
	for _, t := range s.offsetsOf(r.version, &asked) {
		out := kmsg.NewOffsetFetchResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewOffsetFetchResponseTopicPartition()
			answer.Partition, answer.Offset, answer.LeaderEpoch, answer.Metadata, answer.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			if code != codeNone {
				answer.ErrorCode, answer.Offset = code, -1
			}
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// offsetsOf returns what is asked of one group, or all of it.
func (s *Server) offsetsOf(version int16, asked *kmsg.OffsetFetchRequestGroup) []kmsg.OffsetFetchResponseGroupTopic {
	image := s.image()
	if asked.Topics == nil {
		return s.allOffsetsOf(image, asked.Group)
	}
	list := make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(asked.Topics))
	for i := range asked.Topics {
		in := &asked.Topics[i]
		out := kmsg.NewOffsetFetchResponseGroupTopic()
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(in.Partitions))
		topic, missing := namedOrIdentified(image, version >= 10, in.Topic, in.TopicID)
		for j, p := range in.Partitions {
			o, found := group.Offset{}, false
			if topic != nil {
				o, found = s.o.Groups.Offset(asked.Group, topic.ID, p)
			}
			out.Partitions[j] = fetchedOffset(p, o, found)
			if topic == nil && version >= 10 {
				out.Partitions[j].ErrorCode = missing
			}
		}
		list = append(list, out)
	}
	return list
}

// allOffsetsOf returns all that is committed of topics that exist.
func (s *Server) allOffsetsOf(image *cluster.Image, id string) []kmsg.OffsetFetchResponseGroupTopic {
	list := []kmsg.OffsetFetchResponseGroupTopic{}
	var last model.TopicID
	for _, o := range s.o.Groups.Offsets(id) {
		if image.TopicByID(o.Topic) == nil {
			continue
		}
		if len(list) == 0 || last != o.Topic {
			out := kmsg.NewOffsetFetchResponseGroupTopic()
			out.Topic, out.TopicID = o.Name, o.Topic
			list, last = append(list, out), o.Topic
		}
		out := &list[len(list)-1]
		out.Partitions = append(out.Partitions, fetchedOffset(o.Partition, o.Offset, true))
	}
	return list
}

func fetchedOffset(partition int32, o group.Offset, found bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, -1, -1, kmsg.StringPtr("")
	if found {
		p.Offset, p.LeaderEpoch, p.Metadata = o.Offset, o.LeaderEpoch, kmsg.StringPtr(o.Metadata)
	}
	return p
}
