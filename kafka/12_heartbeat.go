package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// Heartbeat (12), versions 0 to 4: v3 static members (KIP-345).

// heartbeat keeps a member's session and tells whether it has to join again.
func (s *Server) heartbeat(r *request) {
	req := r.body.(*kmsg.HeartbeatRequest)
	if !s.groups.run(func(c *group.Coordinator, now group.Now) { c.Heartbeat(now, req, r.finish) }) {
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = codeNotCoordinator
		r.finish(resp)
	}
}
