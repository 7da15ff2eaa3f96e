package kafka

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// SyncGroup (14), versions 0 to 5: v3 static members (KIP-345), v5 protocol type and name (KIP-559), which a request
// must carry there.

// syncGroup answers when the leader's assignment is kept.
func (s *Server) syncGroup(r *request) {
	req := r.body.(*kmsg.SyncGroupRequest)
	refuse := func(code int16) {
		resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.ErrorCode = code
		r.finish(resp)
	}
	if r.version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		refuse(codeInconsistentGroupProtocol)
		return
	}
	for i := range req.GroupAssignment {
		req.GroupAssignment[i].MemberAssignment = bytes.Clone(req.GroupAssignment[i].MemberAssignment)
	}
	r.forget()
	if !s.groups.run(func(c *group.Coordinator, now group.Now) { c.Sync(now, req, r.finish) }) {
		refuse(codeNotCoordinator)
	}
}
