package kafka

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId (22), versions 0 to 5 (KIP-98, KIP-360), for idempotent producers. Transactions do not
// exist yet: a transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client
// takes as final, where "not supported" or "coordinator not available" would make some of them retry for
// ever.

// initProducerID hands out a producer id that nobody had before. A producer that comes with an id and an
// epoch of its own gets a new id as well, as in Kafka.
func (s *Server) initProducerID(r *request) kmsg.Response {
	req := r.body.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		resp.ErrorCode = codeInvalidRequest
		return resp
	case req.TransactionalID != nil && *req.TransactionalID == "":
		resp.ErrorCode = codeInvalidRequest
		return resp
	case req.TransactionalID != nil:
		resp.ErrorCode = codeTransactionalIDAuthorizationFailed
		return resp
	}
	id, err := s.o.ProducerIDs.Next(r.ctx)
	if err != nil {
		// Clients retry this one; a timeout would end some of them.
		s.o.Logger.Warn("no producer id", slog.Any("error", err))
		resp.ErrorCode = codeCoordinatorLoadInProgress
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}
