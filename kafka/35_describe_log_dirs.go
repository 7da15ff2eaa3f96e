package kafka

import (
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine"
	"millrace/meta/cluster"
)

// DescribeLogDirs (35), versions 1 to 5 (KIP-113; v4 sizes of the volume, KIP-827; v5 cordoned directories,
// KIP-1066). A directory that failed has KAFKA_STORAGE_ERROR and, as in Kafka, no partitions. Partitions that are not
// here are left out: the answer has no place for an error of theirs.

// describeLogDirs asks the file systems for the size of their volumes.
func (s *Server) describeLogDirs(r *request) kmsg.Response {
	req := r.body.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	d := logDirs{server: s, at: make(map[*engine.Store]int)}
	for i, store := range s.o.Shards.Stores() {
		dir := kmsg.NewDescribeLogDirsResponseDir()
		dir.Dir = store.Dir()
		dir.TotalBytes, dir.UsableBytes = volumeOf(dir.Dir)
		dir.IsCordoned, _ = s.o.Shards.Cordoned(store)
		if store.Failed() != nil {
			dir.ErrorCode, dir.TotalBytes, dir.UsableBytes = codeKafkaStorageError, -1, -1
		} else {
			d.at[store] = i
		}
		d.list = append(d.list, dir)
	}
	image := s.image()
	if req.Topics == nil {
		if !r.describes(s, partitionsOfAll(image)) {
			return nil
		}
		image.Topics(func(t *cluster.Topic) bool {
			for i := range t.Partitions {
				d.add(t, int32(i))
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
		for _, p := range in.Partitions {
			if t.Partition(p) != nil && !done.again(partitionName{in.Topic, p}) {
				d.add(t, p)
			}
		}
	}
	resp.Dirs = d.list
	return resp
}

// logDirs puts partitions under the directories that they are in.
type logDirs struct {
	server *Server
	list   []kmsg.DescribeLogDirsResponseDir
	at     map[*engine.Store]int // place in list of those that work
}

func (d *logDirs) add(t *cluster.Topic, partition int32) {
	sh := d.server.shard(t.ID, partition)
	if sh == nil {
		return
	}
	d.put(sh.Store(), t, kmsg.DescribeLogDirsResponseDirTopicPartition{Partition: partition, Size: sh.Size()})
	if to, progress := d.server.o.Shards.Moving(sh.ID()); to != nil {
		lag := max(sh.State().LogEnd-progress.Next.Load(), 0)
		d.put(to, t, kmsg.DescribeLogDirsResponseDirTopicPartition{Partition: partition, Size: progress.Bytes.Load(), OffsetLag: lag, IsFuture: true})
	}
}

func (d *logDirs) put(store *engine.Store, t *cluster.Topic, p kmsg.DescribeLogDirsResponseDirTopicPartition) {
	at, ok := d.at[store]
	if !ok {
		return
	}
	dir := &d.list[at]
	if n := len(dir.Topics); n == 0 || dir.Topics[n-1].Topic != t.Name {
		topic := kmsg.NewDescribeLogDirsResponseDirTopic()
		topic.Topic = t.Name
		dir.Topics = append(dir.Topics, topic)
	}
	topic := &dir.Topics[len(dir.Topics)-1]
	topic.Partitions = append(topic.Partitions, p)
}

// volumeOf returns the size of the file system and what is left of it, -1 where that is not known.
func volumeOf(dir string) (total, usable int64) {
	var stat syscall.Statfs_t
	if dir == "" || syscall.Statfs(dir, &stat) != nil {
		return -1, -1
	}
	return int64(stat.Blocks) * stat.Bsize, int64(stat.Bavail) * stat.Bsize
}
