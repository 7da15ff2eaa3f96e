package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine"
	"millrace/meta/cluster"
)

// AlterReplicaLogDirs (34), versions 1 to 2 (KIP-113): moves partitions to other data directories. The answer says that
// a move was begun; DescribeLogDirs shows how far it came. What is asked last counts for a partition; asking for the
// directory that it is in ends a move of it. A cordoned one is INVALID_REPLICA_ASSIGNMENT (KIP-1066). A restart ends all moves, and the partitions are where they were.

// alterReplicaLogDirs begins moves and answers each partition.
func (s *Server) alterReplicaLogDirs(r *request) kmsg.Response {
	req := r.body.(*kmsg.AlterReplicaLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.AlterReplicaLogDirsResponse)
	image, stores := s.image(), s.o.Shards.Stores()
	for i := range req.Dirs {
		var to *engine.Store
		for _, store := range stores {
			if store.Dir() == req.Dirs[i].Dir {
				to = store
			}
		}
		for j := range req.Dirs[i].Topics {
			in := &req.Dirs[i].Topics[j]
			out := kmsg.NewAlterReplicaLogDirsResponseTopic()
			out.Topic = in.Topic
			for _, partition := range in.Partitions {
				p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				p.Partition, p.ErrorCode = partition, s.moveTo(image, to, in.Topic, partition)
				out.Partitions = append(out.Partitions, p)
			}
			resp.Topics = append(resp.Topics, out)
		}
	}
	return resp
}

func (s *Server) moveTo(image *cluster.Image, to *engine.Store, topic string, partition int32) int16 {
	sh, code := s.locate(image, topic, partition)
	cordoned, _ := s.o.Shards.Cordoned(to)
	switch {
	case to == nil:
		return codeLogDirNotFound
	case to.Failed() != nil:
		return codeKafkaStorageError
	case code != codeNone:
		return code
	case cordoned && sh.Store() != to: // where it is already, a move ends
		return codeInvalidReplicaAssignment
	}
	s.o.Shards.Move(sh, to)
	return codeNone
}
