package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
)

// A request of a few bytes may ask for what is known of every partition. Such answers are wide: they are made
// for at most widePartitionsMax partitions at once, and not at all while much waits for slow readers.
const (
	widePartitionsMin   = 1024 // below it an answer is not wide
	widePartitionsMax   = 1 << 16
	widePartitionOnWire = 48 // bytes that a partition takes in an answer, about
)

// wideReplies counts the partitions of the wide answers that are being made.
type wideReplies struct {
	mu   sync.Mutex
	free sync.Cond // on mu
	used int
}

// acquire waits until n more partitions may be described. Who describes them needs nothing that a waiter has.
func (w *wideReplies) acquire(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.used > 0 && w.used+n > widePartitionsMax {
		w.free.Wait()
	}
	w.used += n
}

func (w *wideReplies) release(n int) {
	w.mu.Lock()
	w.used -= n
	w.mu.Unlock()
	w.free.Broadcast()
}

// describes is told by a handler how many partitions its answer will describe, before it makes that. It waits
// for its turn; false says that the request is not to be answered. A handler calls it once.
func (r *request) describes(s *Server, partitions int) bool {
	if partitions < widePartitionsMin {
		return true
	}
	if r.conn != nil && r.conn.ServerOutboundBytes() > s.o.Config.QueuedRequestBytesMax/2 {
		r.reason = "many partitions are asked for while much waits for slow readers"
		return false
	}
	s.wide.acquire(partitions)
	r.wide = partitions
	return true
}

// partitionsOfAll counts the partitions of all topics.
func partitionsOfAll(image *cluster.Image) int {
	n := 0
	image.Topics(func(t *cluster.Topic) bool { n += len(t.Partitions); return true })
	return n
}

// partitionsAskedFor counts the partitions of the topics that a Metadata request asks for, by name or by id.
func partitionsAskedFor(image *cluster.Image, req *kmsg.MetadataRequest) int {
	n := 0
	for i := range req.Topics {
		asked := &req.Topics[i]
		t := image.TopicByID(asked.TopicID)
		if t == nil && asked.Topic != nil {
			t = image.TopicByName([]byte(*asked.Topic))
		}
		if t != nil {
			n += len(t.Partitions)
		}
	}
	return n
}
