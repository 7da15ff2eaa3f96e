package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
)

// CreatePartitions (37), versions 0 to 3 (KIP-195).

// createPartitions answers each topic once.
func (s *Server) createPartitions(r *request) kmsg.Response {
	req := r.body.(*kmsg.CreatePartitionsRequest)
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	counts := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		counts[req.Topics[i].Topic]++
	}
	var command cluster.CreatePartitions
	var at []int
	for i := range req.Topics {
		in := &req.Topics[i]
		n := counts[in.Topic]
		if n == 0 {
			continue // answered already
		}
		counts[in.Topic] = 0
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = in.Topic
		if n > 1 {
			out.ErrorCode, out.ErrorMessage = codeInvalidRequest, textOrNull("topic stands in the request more than once")
		} else {
			command.Topics = append(command.Topics, newPartitions(in))
			at = append(at, len(resp.Topics))
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(at) == 0 {
		return resp
	}
	outcomes, err := s.runCreatePartitions(r, req, command)
	for i, index := range at {
		out := &resp.Topics[index]
		switch {
		case err != nil:
			out.ErrorCode, out.ErrorMessage = codeOf(err), textOrNull(err.Error())
		case outcomes[i].Failed():
			out.ErrorCode, out.ErrorMessage = codeOfOutcome(outcomes[i].Code), textOrNull(outcomes[i].Message)
		}
	}
	return resp
}

func (s *Server) runCreatePartitions(r *request, req *kmsg.CreatePartitionsRequest, command cluster.CreatePartitions) ([]cluster.Outcome, error) {
	_, cordoned := s.o.Shards.Cordoned(nil)
	if req.ValidateOnly || cordoned {
		outcomes := s.image().CheckCreatePartitions(command)
		for i := range outcomes {
			refuseCordoned(&outcomes[i], cordoned)
		}
		return outcomes, nil
	}
	ctx, cancel := r.deadline(req.TimeoutMillis)
	defer cancel()
	return s.client().CreatePartitions(ctx, command)
}

func newPartitions(in *kmsg.CreatePartitionsRequestTopic) cluster.NewPartitions {
	n := cluster.NewPartitions{Topic: in.Topic, Count: in.Count}
	if in.Assignment != nil {
		n.Assignments = make([][]int32, len(in.Assignment))
		for i := range in.Assignment {
			n.Assignments[i] = in.Assignment[i].Replicas
		}
	}
	return n
}
