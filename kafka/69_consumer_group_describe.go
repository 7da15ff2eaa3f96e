package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// ConsumerGroupDescribe (69), versions 0 to 1 (KIP-848; v1 the type of a member, for groups that change their
// protocol).

// consumerGroupDescribe shows groups of the consumer protocol with their members.
func (s *Server) consumerGroupDescribe(r *request) {
	req := r.body.(*kmsg.ConsumerGroupDescribeRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	describe := func(c *group.Coordinator, _ group.Now) {
		for _, id := range req.Groups {
			out := c.ConsumerDescribe(id)
			if req.IncludeAuthorizedOperations && out.ErrorCode == codeNone {
				out.AuthorizedOperations = operationsOfGroup
			}
			resp.Groups = append(resp.Groups, out)
		}
		r.finish(resp)
	}
	if s.groups.run(describe) {
		return
	}
	for _, id := range req.Groups {
		out := kmsg.NewConsumerGroupDescribeResponseGroup()
		out.Group, out.ErrorCode = id, codeNotCoordinator
		resp.Groups = append(resp.Groups, out)
	}
	r.finish(resp)
}
