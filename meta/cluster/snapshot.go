package cluster

import (
	"encoding/binary"
	"fmt"

	"millrace/engine/model"
	"millrace/perf/fields"
)

// snapshotVersion is the format of appendImage. Version 1 had no configs of groups.
const snapshotVersion = 2

func appendImage(dst []byte, i *Image) []byte {
	dst = append(dst, snapshotVersion)
	dst = fields.AppendText(dst, i.ClusterID)
	dst = binary.AppendUvarint(dst, i.Version)
	dst = binary.AppendVarint(dst, i.nextProducerID)
	dst = binary.AppendUvarint(dst, uint64(len(i.brokers)))
	for _, b := range i.brokers {
		dst = appendBroker(dst, b)
	}
	dst = binary.AppendUvarint(dst, uint64(len(i.brokerConfigs)))
	for _, scope := range i.BrokerConfigScopes() {
		c := i.brokerConfigs[scope]
		dst = binary.AppendVarint(dst, int64(scope))
		dst = binary.AppendUvarint(dst, c.Version)
		dst = appendMap(dst, c.Configs)
	}
	dst = binary.AppendUvarint(dst, uint64(len(i.groupConfigs)))
	for _, group := range i.GroupsWithConfigs() {
		c := i.groupConfigs[group]
		dst = fields.AppendText(dst, group)
		dst = binary.AppendUvarint(dst, c.Version)
		dst = appendMap(dst, c.Configs)
	}
	dst = binary.AppendUvarint(dst, uint64(i.TopicCount()))
	i.Topics(func(t *Topic) bool {
		dst = appendTopic(dst, t)
		return true
	})
	return dst
}

func parseImage(src []byte) (*Image, error) {
	r := &reader{fields.New(src)}
	version := r.Byte()
	if r.Err() == nil && (version < 1 || version > snapshotVersion) {
		return nil, fmt.Errorf("snapshot version %d is unknown (this program knows 1 to %d)", version, snapshotVersion)
	}
	t := newTransaction(emptyImage())
	t.next.ClusterID = r.Text()
	t.next.Version = r.Uvarint()
	t.next.nextProducerID = r.Varint()
	for range r.Count(minBrokerBytes) {
		t.next.brokers = append(t.next.brokers, r.broker())
	}
	if n := r.Count(3); n > 0 {
		t.next.brokerConfigs = make(map[int32]*ConfigResource, n)
		for range n {
			scope := r.Int32()
			t.next.brokerConfigs[scope] = &ConfigResource{Version: r.Uvarint(), Configs: r.strings()}
		}
	}
	if version >= 2 {
		r.groupConfigs(&t.next)
	}
	for range r.Count(len(model.TopicID{}) + 5) {
		topic := r.topic(PartitionsMax - t.next.partitionCount)
		if r.Err() != nil {
			break
		}
		if t.topicByName(topic.Name) != nil {
			return nil, fmt.Errorf("topic %q stands twice in the snapshot", topic.Name)
		}
		t.put(topic)
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("snapshot is damaged: %w", err)
	}
	return t.commit().Image, nil
}

func (r *reader) groupConfigs(i *Image) {
	n := r.Count(3)
	if n == 0 {
		return
	}
	i.groupConfigs = make(map[string]*ConfigResource, n)
	for range n {
		group := r.Text()
		i.groupConfigs[group] = &ConfigResource{Version: r.Uvarint(), Configs: r.strings()}
	}
}
