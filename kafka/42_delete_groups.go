package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// DeleteGroups (42), versions 0 to 3 (KIP-229; v3 error messages, KIP-1043).

// deleteGroups forgets groups without members, and answers when all of them are gone. One that is named twice is
// answered once.
func (s *Server) deleteGroups(r *request) {
	req := r.body.(*kmsg.DeleteGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	var seen repeated[string]
	for _, id := range req.Groups {
		if seen.again(id) {
			continue
		}
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group, out.ErrorCode = id, codeNotCoordinator
		resp.Groups = append(resp.Groups, out)
	}
	if len(resp.Groups) == 0 {
		r.finish(resp)
		return
	}
	left := len(resp.Groups)
	remove := func(c *group.Coordinator, now group.Now) {
		for i := range resp.Groups {
			out := &resp.Groups[i]
			c.DeleteGroup(now, out.Group, func(err error) {
				out.ErrorCode, out.ErrorMessage = codeOfGroup(err)
				if left--; left == 0 {
					r.finish(resp)
				}
			})
		}
	}
	if !s.groups.run(remove) {
		r.finish(resp)
	}
}
