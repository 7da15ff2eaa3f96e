package kafka

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/meta/cluster"
)

// Bounds of the time that a request may ask the broker to take over it.
const (
	timeoutMin = time.Second
	timeoutMax = 5 * time.Minute
)

// locate returns the log of a partition, or the code that says why there is none to use here.
func (s *Server) locate(image *cluster.Image, topic string, partition int32) (*engine.Shard, int16) {
	t := image.TopicByName([]byte(topic))
	if t == nil {
		return nil, codeUnknownTopicOrPartition
	}
	p := t.Partition(partition)
	switch {
	case p == nil:
		return nil, codeUnknownTopicOrPartition
	case p.Leader != s.o.NodeID:
		return nil, codeNotLeaderOrFollower
	}
	sh := s.shard(t.ID, partition)
	if sh == nil {
		return nil, codeNotLeaderOrFollower
	}
	if sh.State().Quarantined {
		return nil, codeKafkaStorageError
	}
	return sh, codeNone
}

// checkEpoch compares the leader epoch that a client knows with the log's; -1 is unchecked (KIP-320).
func checkEpoch(known int32, state engine.State) int16 {
	switch {
	case state.Deleted:
		return codeUnknownTopicOrPartition
	case known == -1 || known == state.LeaderEpoch:
		return codeNone
	case known < state.LeaderEpoch:
		return codeFencedLeaderEpoch
	default:
		return codeUnknownLeaderEpoch
	}
}

// client proposes changes of the cluster state.
func (s *Server) client() *cluster.Client {
	return cluster.NewClient(s.o.Proposer, s.o.ClusterCode, s.o.Cluster)
}

// deadline bounds a proposal by what the client asked for. A time that is too short to do anything in is
// lengthened, since the change would be made all the same and only the answer lost.
func (r *request) deadline(milliseconds int32) (context.Context, context.CancelFunc) {
	d := min(max(time.Duration(milliseconds)*time.Millisecond, timeoutMin), timeoutMax)
	return context.WithTimeout(r.ctx, d)
}

// newTopicID returns a random id. Ids whose text begins with a dash are passed over, as in Kafka, since
// they are a nuisance on command lines.
func newTopicID() model.TopicID {
	for {
		var id model.TopicID
		rand.Read(id[:]) // never fails
		if first := id[0] >> 2; first != 62 && !id.IsZero() {
			return id
		}
	}
}

// endpointsOf returns the registered brokers with the addresses that are reached through one listener, in
// the order of their ids. This broker is always among them, with the address it advertises there.
func (s *Server) endpointsOf(image *cluster.Image, listener string) []brokerEndpoint {
	list := make([]brokerEndpoint, 0, len(image.Brokers())+1)
	for _, e := range s.o.Advertised {
		if e.Listener == listener {
			list = append(list, brokerEndpoint{node: s.o.NodeID, host: e.Host, port: e.Port, rack: s.o.Rack})
		}
	}
	for _, b := range image.Brokers() {
		if b.NodeID == s.o.NodeID {
			continue
		}
		if e, ok := b.Endpoint(listener); ok {
			list = append(list, brokerEndpoint{node: b.NodeID, host: e.Host, port: e.Port, rack: b.Rack})
		}
	}
	slices.SortFunc(list, func(a, b brokerEndpoint) int { return cmp.Compare(a.node, b.node) })
	return list
}

type brokerEndpoint struct {
	node int32
	host string
	port int32
	rack string // empty: none
}

// textOrNull is how a text that may be missing goes out.
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// repeated tells of keys that come a second time. The zero value knows none.
type repeated[K comparable] struct{ seen map[K]struct{} }

func (r *repeated[K]) again(key K) bool {
	if r.seen == nil {
		r.seen = make(map[K]struct{})
	}
	if _, ok := r.seen[key]; ok {
		return true
	}
	r.seen[key] = struct{}{}
	return false
}
