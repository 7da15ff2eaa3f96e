package cluster

import (
	"time"

	"millrace/engine/model"
)

// RegisterBroker makes a broker known or renews what is known of it. The first one also names the cluster.
type RegisterBroker struct {
	ClusterID   string // must be the cluster's, once that is set
	NodeID      int32
	Rack        string
	Incarnation [16]byte
	Endpoints   []Endpoint
	Time        time.Time
}

// RegisterBrokerResult answers RegisterBroker.
type RegisterBrokerResult struct {
	Outcome
	Epoch int64
}

// NewTopic is a topic to be made. Defaults are resolved by the caller: Partitions and ReplicationFactor
// are the real numbers, unless Assignments says everything (then both are -1).
type NewTopic struct {
	Name              string
	ID                model.TopicID // random, from the caller
	Partitions        int32
	ReplicationFactor int16
	Assignments       [][]int32 // replicas of partition 0, 1, ...; nil: placed here
	Configs           map[string]string
}

// CreateTopics makes topics; each has a result of its own, in the same order.
type CreateTopics struct {
	Time   time.Time
	Topics []NewTopic
}

// CreateTopicResult answers one NewTopic.
type CreateTopicResult struct {
	Outcome
	Topic *Topic // what was (or, from Image.CheckCreateTopics, would be) made; nil where it failed
}

// DeleteTopics deletes topics by id; each has a result of its own, in the same order. Callers look names
// up first: a topic that was re-created in between is not deleted by mistake.
type DeleteTopics struct {
	IDs []model.TopicID
}

// NewPartitions asks for more partitions of one topic.
type NewPartitions struct {
	Topic       string
	Count       int32     // of partitions afterwards
	Assignments [][]int32 // replicas of the added ones; nil: placed here
}

// CreatePartitions adds partitions; each topic has a result of its own, in the same order.
type CreatePartitions struct {
	Topics []NewPartitions
}

// ResourceKind tells what configs belong to.
type ResourceKind uint8

// The kinds.
const (
	TopicResource ResourceKind = iota + 1
	BrokerResource
	GroupResource
)

// ResourceConfigs replaces all configs of one resource. The caller computes them from what it read, with
// the version it read; ErrConflict says that they changed meanwhile.
type ResourceConfigs struct {
	Kind    ResourceKind
	Name    string // of the topic or group
	Broker  int32  // for BrokerResource; AllBrokers: the defaults of all
	Version uint64
	Configs map[string]string
}

// AlterConfigs replaces the configs of resources; each has a result of its own, in the same order.
type AlterConfigs struct {
	Resources []ResourceConfigs
}

// AllocateProducerIDs takes a block of producer ids that nobody ever gets again.
type AllocateProducerIDs struct {
	Count int32
}

// AllocateProducerIDsResult answers AllocateProducerIDs: [First, First+Count).
type AllocateProducerIDsResult struct {
	Outcome
	First int64
}

// RaiseLeaderEpochs raises leader epoch and partition epoch of every partition that the node leads.
type RaiseLeaderEpochs struct {
	NodeID int32
}

// RaiseLeaderEpochsResult answers RaiseLeaderEpochs.
type RaiseLeaderEpochsResult struct {
	Outcome
	Partitions int64
}
