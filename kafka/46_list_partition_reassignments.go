package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// ListPartitionReassignments (46), version 0 (KIP-455).

// listPartitionReassignments answers that there are none: those that are possible are done at once.
func (s *Server) listPartitionReassignments(r *request) kmsg.Response {
	return r.body.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
}
