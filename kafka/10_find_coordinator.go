package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator (10), versions 0 to 6: v1 types of keys, v4 several keys (KIP-699), v6 share groups (KIP-932).
// There are no transactions and no share groups yet. A transactional id is refused with
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client takes as final, where "not available" would make them
// ask again for ever; a share key is a type that is not known.

const (
	coordinatorOfGroup       = 0
	coordinatorOfTransaction = 1
)

// findCoordinator names this broker for every group.
func (s *Server) findCoordinator(r *request) kmsg.Response {
	req := r.body.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	kind := int8(coordinatorOfGroup)
	if r.version >= 1 {
		kind = req.CoordinatorType
	}
	answer := kmsg.NewFindCoordinatorResponseCoordinator()
	answer.NodeID, answer.Port = -1, -1
	switch kind {
	case coordinatorOfGroup:
		answer.ErrorCode = codeCoordinatorNotAvailable
		for _, e := range s.endpointsOf(s.image(), r.listener) {
			if e.node == s.o.NodeID {
				answer.ErrorCode, answer.NodeID, answer.Host, answer.Port = codeNone, e.node, e.host, e.port
			}
		}
	case coordinatorOfTransaction:
		answer.ErrorCode = codeTransactionalIDAuthorizationFailed
		answer.ErrorMessage = textOrNull("transactions are not supported")
	default:
		answer.ErrorCode = codeInvalidRequest
		answer.ErrorMessage = textOrNull(fmt.Sprintf("coordinator type %d is not known", kind))
	}
	if r.version < 4 {
		resp.ErrorCode, resp.ErrorMessage = answer.ErrorCode, answer.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = answer.NodeID, answer.Host, answer.Port
		return resp
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, len(req.CoordinatorKeys))
	for i, key := range req.CoordinatorKeys {
		resp.Coordinators[i] = answer
		resp.Coordinators[i].Key = key
	}
	return resp
}
