package cluster

import (
	"encoding/binary"
	"fmt"

	"millrace/engine/model"
	"millrace/perf/fields"
)

// Command is one of the commands of this package.
type Command interface {
	// AppendCommand appends the encoded command to dst.
	AppendCommand(dst []byte) []byte
	apply(t *transaction) []byte
}

// The kinds of commands as they stand in the log. They are never renumbered.
const (
	kindRegisterBroker byte = iota + 1
	kindCreateTopics
	kindDeleteTopics
	kindCreatePartitions
	kindAlterConfigs
	kindAllocateProducerIDs
	kindRaiseLeaderEpochs
)

// commandVersion is the version of every command so far.
const commandVersion = 1

func commandName(kind byte) string {
	names := [...]string{"", "RegisterBroker", "CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs",
		"AllocateProducerIDs", "RaiseLeaderEpochs"}
	if kind == 0 || int(kind) >= len(names) {
		return ""
	}
	return names[kind]
}

// AppendCommand implements Command.
func (c RegisterBroker) AppendCommand(dst []byte) []byte {
	dst = append(dst, kindRegisterBroker, commandVersion)
	dst = fields.AppendText(dst, c.ClusterID)
	return appendBroker(dst, &Broker{NodeID: c.NodeID, Rack: c.Rack, Incarnation: c.Incarnation, Endpoints: c.Endpoints, Registered: c.Time})
}

func parseRegisterBroker(r *reader) RegisterBroker {
	clusterID := r.Text()
	b := r.broker()
	return RegisterBroker{ClusterID: clusterID, NodeID: b.NodeID, Rack: b.Rack, Incarnation: b.Incarnation, Endpoints: b.Endpoints, Time: b.Registered}
}

func appendAssignments(dst []byte, assignments [][]int32) []byte {
	if assignments == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(assignments))+1)
	for _, replicas := range assignments {
		dst = appendInts(dst, replicas)
	}
	return dst
}

func (r *reader) assignments() [][]int32 {
	n := r.Uvarint()
	if n == 0 {
		return nil
	}
	if n--; n > uint64(len(r.Rest())) {
		r.Fail(fields.ErrTruncated)
		return nil
	}
	list := make([][]int32, n)
	for i := range list {
		list[i] = r.ints()
	}
	return list
}

// AppendCommand implements Command.
func (c CreateTopics) AppendCommand(dst []byte) []byte {
	dst = append(dst, kindCreateTopics, commandVersion)
	dst = appendTime(dst, c.Time)
	dst = binary.AppendUvarint(dst, uint64(len(c.Topics)))
	for i := range c.Topics {
		t := &c.Topics[i]
		dst = append(dst, t.ID[:]...)
		dst = fields.AppendText(dst, t.Name)
		dst = binary.AppendVarint(dst, int64(t.Partitions))
		dst = binary.AppendVarint(dst, int64(t.ReplicationFactor))
		dst = appendAssignments(dst, t.Assignments)
		dst = appendMap(dst, t.Configs)
	}
	return dst
}

func parseCreateTopics(r *reader) CreateTopics {
	c := CreateTopics{Time: r.time()}
	c.Topics = make([]NewTopic, r.Count(len(model.TopicID{})+5))
	for i := range c.Topics {
		t := &c.Topics[i]
		t.ID = r.ID()
		t.Name = r.Text()
		t.Partitions = r.Int32()
		t.ReplicationFactor = int16(r.Int32())
		t.Assignments = r.assignments()
		t.Configs = r.strings()
	}
	return c
}

// AppendCommand implements Command.
func (c DeleteTopics) AppendCommand(dst []byte) []byte {
	dst = append(dst, kindDeleteTopics, commandVersion)
	dst = binary.AppendUvarint(dst, uint64(len(c.IDs)))
	for _, id := range c.IDs {
		dst = append(dst, id[:]...)
	}
	return dst
}

func parseDeleteTopics(r *reader) DeleteTopics {
	c := DeleteTopics{IDs: make([]model.TopicID, r.Count(len(model.TopicID{})))}
	for i := range c.IDs {
		c.IDs[i] = r.ID()
	}
	return c
}

// AppendCommand implements Command.
func (c CreatePartitions) AppendCommand(dst []byte) []byte {
	dst = append(dst, kindCreatePartitions, commandVersion)
	dst = binary.AppendUvarint(dst, uint64(len(c.Topics)))
	for i := range c.Topics {
		t := &c.Topics[i]
		dst = fields.AppendText(dst, t.Topic)
		dst = binary.AppendVarint(dst, int64(t.Count))
		dst = appendAssignments(dst, t.Assignments)
	}
	return dst
}

func parseCreatePartitions(r *reader) CreatePartitions {
	c := CreatePartitions{Topics: make([]NewPartitions, r.Count(3))}
	for i := range c.Topics {
		c.Topics[i] = NewPartitions{Topic: r.Text(), Count: r.Int32(), Assignments: r.assignments()}
	}
	return c
}

// AppendCommand implements Command.
func (c AlterConfigs) AppendCommand(dst []byte) []byte {
	dst = append(dst, kindAlterConfigs, commandVersion)
	dst = binary.AppendUvarint(dst, uint64(len(c.Resources)))
	for i := range c.Resources {
		r := &c.Resources[i]
		dst = append(dst, byte(r.Kind))
		dst = fields.AppendText(dst, r.Name)
		dst = binary.AppendVarint(dst, int64(r.Broker))
		dst = binary.AppendUvarint(dst, r.Version)
		dst = appendMap(dst, r.Configs)
	}
	return dst
}

func parseAlterConfigs(r *reader) AlterConfigs {
	c := AlterConfigs{Resources: make([]ResourceConfigs, r.Count(5))}
	for i := range c.Resources {
		c.Resources[i] = ResourceConfigs{Kind: ResourceKind(r.Byte()), Name: r.Text(), Broker: r.Int32(),
			Version: r.Uvarint(), Configs: r.strings()}
	}
	return c
}

// AppendCommand implements Command.
func (c AllocateProducerIDs) AppendCommand(dst []byte) []byte {
	return binary.AppendVarint(append(dst, kindAllocateProducerIDs, commandVersion), int64(c.Count))
}

// AppendCommand implements Command.
func (c RaiseLeaderEpochs) AppendCommand(dst []byte) []byte {
	return binary.AppendVarint(append(dst, kindRaiseLeaderEpochs, commandVersion), int64(c.NodeID))
}

// ParseCommand reads one encoded command. It keeps nothing of src. Any bytes may come in; what is not a
// command, or is of a kind or version that this program does not know, is an error that names it.
func ParseCommand(src []byte) (Command, error) {
	r := &reader{fields.New(src)}
	kind, version := r.Byte(), r.Byte()
	name := commandName(kind)
	switch {
	case r.Err() != nil:
		return nil, fmt.Errorf("parse command: %w", r.Err())
	case name == "":
		return nil, fmt.Errorf("parse command: kind %d is unknown to this program: it was written by a newer one", kind)
	case version != commandVersion:
		return nil, fmt.Errorf("parse command: version %d of %s is unknown (this program knows %d): it was written by a newer one",
			version, name, commandVersion)
	}
	var c Command
	switch kind {
	case kindRegisterBroker:
		c = parseRegisterBroker(r)
	case kindCreateTopics:
		c = parseCreateTopics(r)
	case kindDeleteTopics:
		c = parseDeleteTopics(r)
	case kindCreatePartitions:
		c = parseCreatePartitions(r)
	case kindAlterConfigs:
		c = parseAlterConfigs(r)
	case kindAllocateProducerIDs:
		c = AllocateProducerIDs{Count: r.Int32()}
	case kindRaiseLeaderEpochs:
		c = RaiseLeaderEpochs{NodeID: r.Int32()}
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return c, nil
}
