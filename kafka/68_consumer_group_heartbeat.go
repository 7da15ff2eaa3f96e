package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// ConsumerGroupHeartbeat (68), versions 0 to 1 (KIP-848; v1 regular expressions and member ids that clients make).

// consumerGroupHeartbeat answers when what the member is told is kept.
func (s *Server) consumerGroupHeartbeat(r *request) {
	req := r.body.(*kmsg.ConsumerGroupHeartbeatRequest)
	client := r.client()
	if !s.groups.run(func(c *group.Coordinator, now group.Now) { c.ConsumerHeartbeat(now, req, client, r.finish) }) {
		resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
		resp.ErrorCode = codeNotCoordinator
		r.finish(resp)
	}
}
