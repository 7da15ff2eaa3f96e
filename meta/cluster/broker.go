package cluster

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"millrace/perf/fields"
)

const minBrokerBytes = 21 // id, rack, incarnation, epoch, endpoints, time

func appendEndpoints(dst []byte, list []Endpoint) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, e := range list {
		dst = fields.AppendText(dst, e.Listener)
		dst = fields.AppendText(dst, e.Host)
		dst = binary.AppendVarint(dst, int64(e.Port))
	}
	return dst
}

func (r *reader) endpoints() []Endpoint {
	var list []Endpoint
	for range r.Count(3) {
		list = append(list, Endpoint{Listener: r.Text(), Host: r.Text(), Port: r.Int32()})
	}
	return list
}

func appendBroker(dst []byte, b *Broker) []byte {
	dst = binary.AppendVarint(dst, int64(b.NodeID))
	dst = fields.AppendText(dst, b.Rack)
	dst = append(dst, b.Incarnation[:]...)
	dst = binary.AppendVarint(dst, b.Epoch)
	dst = appendEndpoints(dst, b.Endpoints)
	return appendTime(dst, b.Registered)
}

func (r *reader) broker() *Broker {
	return &Broker{
		NodeID:      r.Int32(),
		Rack:        r.Text(),
		Incarnation: r.ID(),
		Epoch:       r.Varint(),
		Endpoints:   r.endpoints(),
		Registered:  r.time(),
	}
}

func (c RegisterBroker) apply(t *transaction) []byte {
	if t.next.ClusterID != "" && t.next.ClusterID != c.ClusterID {
		return RegisterBrokerResult{Outcome: Outcome{ErrClusterMismatch,
			fmt.Sprintf("broker %d belongs to cluster %q, this is cluster %q", c.NodeID, c.ClusterID, t.next.ClusterID)}}.append(nil)
	}
	if c.NodeID < 0 || c.ClusterID == "" {
		return RegisterBrokerResult{Outcome: Outcome{ErrInvalidRequest,
			fmt.Sprintf("broker %d of cluster %q: both must be set", c.NodeID, c.ClusterID)}}.append(nil)
	}
	t.next.ClusterID = c.ClusterID
	b := &Broker{NodeID: c.NodeID, Rack: c.Rack, Incarnation: c.Incarnation, Epoch: int64(t.next.Version), Endpoints: c.Endpoints, Registered: c.Time}
	t.next.brokers = slices.Clone(t.next.brokers)
	at, found := slices.BinarySearchFunc(t.next.brokers, c.NodeID, func(b *Broker, id int32) int { return cmp.Compare(b.NodeID, id) })
	if found {
		t.next.brokers[at] = b
	} else {
		t.next.brokers = slices.Insert(t.next.brokers, at, b)
	}
	t.delta.Brokers = true
	return RegisterBrokerResult{Epoch: b.Epoch}.append(nil)
}

func (c RaiseLeaderEpochs) apply(t *transaction) []byte {
	var raised int64
	t.before.Topics(func(topic *Topic) bool {
		leads := func(p Partition) bool { return p.Leader == c.NodeID }
		if !slices.ContainsFunc(topic.Partitions, leads) {
			return true
		}
		changed := *topic
		changed.Partitions = slices.Clone(topic.Partitions)
		for i := range changed.Partitions {
			if p := &changed.Partitions[i]; leads(*p) {
				p.LeaderEpoch++
				p.PartitionEpoch++
				raised++
			}
		}
		t.put(&changed)
		return true
	})
	return RaiseLeaderEpochsResult{Partitions: raised}.append(nil)
}
