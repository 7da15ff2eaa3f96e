package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// ListGroups (16), versions 0 to 5: v4 filter by state (KIP-518), v5 types and a filter by them (KIP-848).

// listGroups lists the groups by id.
func (s *Server) listGroups(r *request) {
	req := r.body.(*kmsg.ListGroupsRequest)
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	list := func(c *group.Coordinator, _ group.Now) {
		resp.Groups = c.List(req.StatesFilter, req.TypesFilter)
		r.finish(resp)
	}
	if !s.groups.run(list) {
		resp.ErrorCode = codeNotCoordinator
		r.finish(resp)
	}
}
