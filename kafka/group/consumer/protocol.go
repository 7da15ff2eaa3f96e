package consumer

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
	"millrace/kafka/group/assignor"
)

// ProtocolType is the protocol type of classic groups of consumers.
const ProtocolType = "consumer"

// embedded is what the metadata of a classic consumer says, versions 0 to 3.
type embedded struct {
	version int16
	topics  []string
	owned   []kmsg.ConsumerMemberMetadataOwnedPartition
	rack    string
}

// parseMetadata reads the metadata that a classic member gives with a protocol. Later versions are read as
// version 3: they may only add fields.
func parseMetadata(src []byte) (embedded, error) {
	var m kmsg.ConsumerMemberMetadata
	if err := m.ReadFrom(src); err != nil {
		return embedded{}, fmt.Errorf("parse consumer metadata: %w", err)
	}
	if m.Version < 0 || len(m.Topics) > topicNamesMax {
		return embedded{}, fmt.Errorf("parse consumer metadata: %w", errMalformed)
	}
	e := embedded{version: min(m.Version, 3), topics: sortedNames(m.Topics), owned: m.OwnedPartitions}
	if m.Rack != nil {
		e.rack = *m.Rack
	}
	return e, nil
}

// ownedTopics is what the metadata says the member owns, of the topics that exist.
func (g *Group) ownedTopics(e embedded) reported {
	owned := reported{}
	for _, t := range e.owned {
		if topic, ok := g.opts.Topics.Topic(t.Topic); ok {
			owned[topic.ID] = append(owned[topic.ID], t.Partitions...)
		}
	}
	return owned
}

// parseAssignment reads the assignment that a classic leader gave to a member. Topics that do not exist are
// left out. No bytes are no partitions.
func parseAssignment(src []byte, topics Topics) (map[model.TopicID][]int32, error) {
	if len(src) == 0 {
		return nil, nil
	}
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(src); err != nil {
		return nil, fmt.Errorf("parse consumer assignment: %w", err)
	}
	if a.Version < 0 {
		return nil, fmt.Errorf("parse consumer assignment: %w", errMalformed)
	}
	found := map[model.TopicID][]int32{}
	for _, t := range a.Topics {
		if topic, ok := topics.Topic(t.Topic); ok {
			for _, p := range t.Partitions {
				if p >= 0 {
					found[topic.ID] = append(found[topic.ID], p)
				}
			}
		}
	}
	return found, nil
}

// appendAssignment encodes partitions as the assignment of a classic member. Topics that do not exist any
// more are left out.
func appendAssignment(version int16, partitions assignor.Assignment, topics Topics) []byte {
	a := kmsg.ConsumerMemberAssignment{Version: version}
	for _, id := range sortedIDs(partitions) {
		if t, ok := topics.TopicByID(id); ok {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t.Name, Partitions: partitions[id]})
		}
	}
	return a.AppendTo(nil)
}

// lists are the partitions of an Owned without their epochs.
func (o Owned) lists() assignor.Assignment {
	a := assignor.Assignment{}
	o.each(func(topic model.TopicID, partition, _ int32) { a[topic] = append(a[topic], partition) })
	return a
}
