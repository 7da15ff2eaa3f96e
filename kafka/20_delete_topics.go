package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
	"millrace/meta/cluster"
)

// DeleteTopics (20), versions 1 to 6: v5 error messages (KIP-599), v6 topics by id (KIP-516).

// namedTopic is a topic as a DeleteTopics request names it: by name, by id, or wrongly.
type namedTopic struct {
	name *string
	id   model.TopicID
}

// deleteTopics answers each topic once.
func (s *Server) deleteTopics(r *request) kmsg.Response {
	req := r.body.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := make([]namedTopic, 0, len(req.TopicNames)+len(req.Topics))
	if r.version < 6 {
		for i := range req.TopicNames {
			asked = append(asked, namedTopic{name: &req.TopicNames[i]})
		}
	} else {
		for i := range req.Topics {
			asked = append(asked, namedTopic{req.Topics[i].Topic, req.Topics[i].TopicID})
		}
	}
	image := s.image()
	resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, 0, len(asked))
	var command cluster.DeleteTopics
	var at []int
	for _, topic := range judgeDeletions(image, asked) {
		if topic.code == codeNone && !s.o.Config.DeleteTopics {
			topic.refuse(codeTopicDeletionDisabled, "topic deletion is disabled")
			if r.version < 3 {
				topic.code = codeInvalidRequest
			}
		}
		if topic.code == codeNone {
			command.IDs = append(command.IDs, topic.found.ID)
			at = append(at, len(resp.Topics))
		}
		resp.Topics = append(resp.Topics, topic.answer())
	}
	if len(at) == 0 {
		return resp
	}
	ctx, cancel := r.deadline(req.TimeoutMillis)
	defer cancel()
	outcomes, err := s.client().DeleteTopics(ctx, command)
	for i, index := range at {
		out := &resp.Topics[index]
		switch {
		case err != nil:
			out.ErrorCode, out.ErrorMessage = codeOf(err), textOrNull(err.Error())
		case outcomes[i].Failed():
			out.ErrorCode, out.ErrorMessage = codeOfOutcome(outcomes[i].Code), textOrNull(outcomes[i].Message)
			if r.version < 6 && out.ErrorCode == codeUnknownTopicID {
				out.ErrorCode = codeUnknownTopicOrPartition
			}
		}
	}
	return resp
}

// deletion is what becomes of one topic of the request.
type deletion struct {
	asked   namedTopic
	found   *cluster.Topic
	code    int16
	message string
}

func (d *deletion) refuse(code int16, message string) { d.code, d.message = code, message }

func (d *deletion) answer() kmsg.DeleteTopicsResponseTopic {
	out := kmsg.NewDeleteTopicsResponseTopic()
	out.Topic, out.TopicID = d.asked.name, d.asked.id
	if d.found != nil {
		out.TopicID = d.found.ID
		if out.Topic == nil && d.code == codeNone {
			out.Topic = &d.found.Name
		}
	}
	out.ErrorCode, out.ErrorMessage = d.code, textOrNull(d.message)
	return out
}

// judgeDeletions looks the topics up and finds what the request itself got wrong. A topic that is named
// twice, whichever way, is answered once and not deleted.
func judgeDeletions(image *cluster.Image, asked []namedTopic) []deletion {
	list := make([]deletion, 0, len(asked))
	byName, byID := map[string]int{}, map[model.TopicID]int{}
	for _, a := range asked {
		d := deletion{asked: a}
		switch {
		case a.name != nil && !a.id.IsZero():
			d.refuse(codeInvalidRequest, "both a topic name and a topic id are given")
		case a.name == nil && a.id.IsZero():
			d.refuse(codeInvalidRequest, "neither a topic name nor a topic id is given")
		case a.name != nil:
			if first, twice := byName[*a.name]; twice {
				list[first].refuse(codeInvalidRequest, "topic name stands in the request more than once")
				continue
			}
			byName[*a.name] = len(list)
			if d.found = image.TopicByName([]byte(*a.name)); d.found == nil {
				d.refuse(codeUnknownTopicOrPartition, "there is no topic of that name")
			}
		default:
			if first, twice := byID[a.id]; twice {
				list[first].refuse(codeInvalidRequest, "topic id stands in the request more than once")
				continue
			}
			byID[a.id] = len(list)
			if d.found = image.TopicByID(a.id); d.found == nil {
				d.refuse(codeUnknownTopicID, "there is no topic with that id")
			}
		}
		list = append(list, d)
	}
	refuseNamedBothWays(list)
	return list
}

// refuseNamedBothWays finds topics that one entry names and another gives the id of.
func refuseNamedBothWays(list []deletion) {
	first := map[*cluster.Topic]int{}
	for i := range list {
		d := &list[i]
		if d.found == nil {
			continue
		}
		if other, twice := first[d.found]; twice {
			const message = "topic name and topic id of the same topic stand in the request"
			d.refuse(codeInvalidRequest, message)
			list[other].refuse(codeInvalidRequest, message)
			continue
		}
		first[d.found] = i
	}
}
