package kafka

import (
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
)

// DescribeLogDirs (35), versions 1 to 5 (KIP-113; v4 sizes of the volume, KIP-827; v5 cordoned directories,
// KIP-1066). There is one directory. Partitions that are not here are left out: the answer has no place
// for an error of theirs.

// describeLogDirs asks the file system for the size of its volume.
func (s *Server) describeLogDirs(r *request) kmsg.Response {
	req := r.body.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = s.o.DataDir
	dir.TotalBytes, dir.UsableBytes = volumeOf(s.o.DataDir)
	if s.o.Store.Failed() != nil {
		dir.ErrorCode = codeKafkaStorageError
	}
	image := s.image()
	if req.Topics == nil {
		if !r.describes(s, partitionsOfAll(image)) {
			return nil
		}
		image.Topics(func(t *cluster.Topic) bool {
			out := kmsg.NewDescribeLogDirsResponseDirTopic()
			out.Topic = t.Name
			for i := range t.Partitions {
				s.addLogSize(&out, t, int32(i))
			}
			if len(out.Partitions) > 0 {
				dir.Topics = append(dir.Topics, out)
			}
			return true
		})
	}
	var done repeated[partitionName]
	for i := range req.Topics {
		in := &req.Topics[i]
		t := image.TopicByName([]byte(in.Topic))
		if t == nil {
			continue
		}
		out := kmsg.NewDescribeLogDirsResponseDirTopic()
		out.Topic = in.Topic
		for _, p := range in.Partitions {
			if t.Partition(p) != nil && !done.again(partitionName{in.Topic, p}) {
				s.addLogSize(&out, t, p)
			}
		}
		if len(out.Partitions) > 0 {
			dir.Topics = append(dir.Topics, out)
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp
}

func (s *Server) addLogSize(out *kmsg.DescribeLogDirsResponseDirTopic, t *cluster.Topic, partition int32) {
	sh := s.shard(t.ID, partition)
	if sh == nil {
		return
	}
	p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
	p.Partition, p.Size = partition, sh.Size()
	out.Partitions = append(out.Partitions, p)
}

// volumeOf returns the size of the file system and what is left of it, -1 where that is not known.
func volumeOf(dir string) (total, usable int64) {
	var stat syscall.Statfs_t
	if dir == "" || syscall.Statfs(dir, &stat) != nil {
		return -1, -1
	}
	return int64(stat.Blocks) * stat.Bsize, int64(stat.Bavail) * stat.Bsize
}
