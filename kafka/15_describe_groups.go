package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// DescribeGroups (15), versions 0 to 6: v3 authorized operations (KIP-430), v4 instance ids (KIP-345), v6
// GROUP_ID_NOT_FOUND where older ones show a dead group (KIP-1043).

// operationsOfGroup are what may be done with a group without an authorizer, as bits by operation.
const operationsOfGroup = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// describeGroups shows groups with their members.
func (s *Server) describeGroups(r *request) {
	req := r.body.(*kmsg.DescribeGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	describe := func(c *group.Coordinator, _ group.Now) {
		for _, id := range req.Groups {
			out := c.Describe(id, r.version)
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
		out := kmsg.NewDescribeGroupsResponseGroup()
		out.Group, out.ErrorCode = id, codeNotCoordinator
		resp.Groups = append(resp.Groups, out)
	}
	r.finish(resp)
}
