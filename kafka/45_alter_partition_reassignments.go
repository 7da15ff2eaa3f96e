package kafka

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
)

// AlterPartitionReassignments (45), versions 0 to 1 (KIP-455; v1 whether the number of replicas may change, KIP-860).
// A partition has one replica, on the one broker, so that the only reassignment that is possible changes nothing. Tools
// ask for it where they move partitions between directories with AlterReplicaLogDirs.

// alterPartitionReassignments answers each partition.
func (s *Server) alterPartitionReassignments(r *request) kmsg.Response {
	req := r.body.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	image := s.image()
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = in.Topic
		for _, p := range in.Partitions {
			answer := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			code, message := reassign(image, in.Topic, p.Partition, p.Replicas)
			answer.Partition, answer.ErrorCode, answer.ErrorMessage = p.Partition, code, textOrNull(message)
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// reassign judges the new replicas of a partition; null takes a reassignment back.
func reassign(image *cluster.Image, topic string, partition int32, replicas []int32) (code int16, message string) {
	t := image.TopicByName([]byte(topic))
	if t == nil || t.Partition(partition) == nil {
		return codeUnknownTopicOrPartition, fmt.Sprintf("there is no partition %d of a topic %q", partition, topic)
	}
	switch now := t.Partition(partition).Replicas; {
	case replicas == nil:
		return codeNoReassignmentInProgress, "there is nothing to take back"
	case slices.Equal(replicas, now):
		return codeNone, ""
	default:
		return codeInvalidReplicaAssignment, fmt.Sprintf("the replicas are %v and cannot be others: a broker is a cluster of its own here so far", now)
	}
}
