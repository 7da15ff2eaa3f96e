package kafka

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// JoinGroup (11), versions 0 to 9: v1 rebalance timeout, v4 required member id (KIP-394), v5 static members
// (KIP-345), v7 protocol type (KIP-559), v8 reason (KIP-800), v9 skip_assignment (KIP-814).

// joinGroup answers when the generation begins, which may take minutes: no bytes of the frame are kept for it.
func (s *Server) joinGroup(r *request) {
	req := r.body.(*kmsg.JoinGroupRequest)
	for i := range req.Protocols {
		req.Protocols[i].Metadata = bytes.Clone(req.Protocols[i].Metadata)
	}
	r.forget()
	client := r.client()
	if !s.groups.run(func(c *group.Coordinator, now group.Now) { c.Join(now, req, client, r.finish) }) {
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode, resp.MemberID, resp.Generation = codeNotCoordinator, req.MemberID, -1
		r.finish(resp)
	}
}
