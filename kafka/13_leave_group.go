package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// LeaveGroup (13), versions 0 to 5: v3 several members, also by instance id (KIP-345), v5 reason (KIP-800).

// leaveGroup takes members out.
func (s *Server) leaveGroup(r *request) {
	req := r.body.(*kmsg.LeaveGroupRequest)
	if !s.groups.run(func(c *group.Coordinator, now group.Now) { c.Leave(now, req, r.finish) }) {
		resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
		resp.ErrorCode = codeNotCoordinator
		r.finish(resp)
	}
}
