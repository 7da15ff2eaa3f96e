package cluster

import (
	"hash/maphash"
	"time"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"millrace/engine/model"
)

// Endpoint is an address that a broker is reached at.
type Endpoint struct {
	Listener string // name of the listener
	Host     string
	Port     int32
}

// Broker is a registered broker.
type Broker struct {
	NodeID      int32
	Rack        string // empty: none
	Incarnation [16]byte
	Epoch       int64 // rises with each registration
	Endpoints   []Endpoint
	Registered  time.Time
}

// Endpoint returns the address of the named listener.
func (b *Broker) Endpoint(listener string) (Endpoint, bool) {
	for _, e := range b.Endpoints {
		if e.Listener == listener {
			return e, true
		}
	}
	return Endpoint{}, false
}

// Partition is one partition of a topic. Its slices may be shared and are never changed.
type Partition struct {
	Leader         int32 // -1: none
	LeaderEpoch    int32
	PartitionEpoch int32
	Replicas       []int32
	ISR            []int32
}

// Topic is one topic. It is immutable: a change makes a new Topic with the same ID.
type Topic struct {
	ID            model.TopicID
	Name          string
	Created       time.Time
	Partitions    []Partition
	Configs       map[string]string // overrides
	ConfigVersion uint64            // rises with each change of Configs; see AlterConfigs
}

// Partition returns a partition, nil if there is none of this number.
func (t *Topic) Partition(number int32) *Partition {
	if number < 0 || int(number) >= len(t.Partitions) {
		return nil
	}
	return &t.Partitions[number]
}

// ConfigResource is the set of dynamic configs of brokers or of a group.
type ConfigResource struct {
	Configs map[string]string
	Version uint64 // rises with each change; see AlterConfigs
}

// AllBrokers is the scope of the dynamic configs that are the defaults of all brokers.
const AllBrokers int32 = -1

// Image is the cluster state at one version. It is immutable and safe for concurrent use.
type Image struct {
	// ClusterID is a base64 uuid of 22 characters, empty before the first broker registered.
	ClusterID string
	// Version is the number of commands applied.
	Version uint64

	brokers        []*Broker // by node id
	brokerConfigs  map[int32]*ConfigResource
	groupConfigs   map[string]*ConfigResource
	seed           maphash.Seed // of the hashes of the three tries
	byName         trie[*Topic]
	byID           trie[*Topic]
	byCollision    trie[[]string]       // names with dots as underscores -> names
	ordered        *iradix.Tree[*Topic] // by name, for iteration
	partitionCount int
	nextProducerID int64
}

// Brokers returns the registered brokers in the order of their ids. The slice must not be changed.
func (i *Image) Brokers() []*Broker { return i.brokers }

// Broker returns a registered broker, nil if there is none.
func (i *Image) Broker(nodeID int32) *Broker {
	for _, b := range i.brokers {
		if b.NodeID == nodeID {
			return b
		}
	}
	return nil
}

// TopicByName returns the topic of that name, nil if there is none. It does not allocate.
func (i *Image) TopicByName(name []byte) *Topic {
	t, _ := i.byName.get(maphash.Bytes(i.seed, name), name)
	return t
}

// TopicByID returns the topic with that id, nil if there is none. It does not allocate.
func (i *Image) TopicByID(id model.TopicID) *Topic {
	t, _ := i.byID.get(maphash.Bytes(i.seed, id[:]), id[:])
	return t
}

// Topics calls f for every topic in the order of names until f returns false.
func (i *Image) Topics(f func(*Topic) bool) {
	i.TopicsFrom("", f)
}

// TopicsFrom calls f in the order of names for every topic whose name is first or comes after it, until f
// returns false.
func (i *Image) TopicsFrom(first string, f func(*Topic) bool) {
	it := i.ordered.Root().Iterator()
	if first != "" {
		it.SeekLowerBound([]byte(first))
	}
	for _, t, ok := it.Next(); ok; _, t, ok = it.Next() {
		if !f(t) {
			return
		}
	}
}

// TopicCount returns the number of topics.
func (i *Image) TopicCount() int { return i.byName.len }

// PartitionCount returns the number of partitions of all topics.
func (i *Image) PartitionCount() int { return i.partitionCount }

// BrokerConfigs returns the dynamic configs of a broker, or of all brokers for AllBrokers. It is never nil.
// The map must not be changed.
func (i *Image) BrokerConfigs(scope int32) *ConfigResource {
	if c := i.brokerConfigs[scope]; c != nil {
		return c
	}
	return &ConfigResource{}
}

// BrokerConfigVersion returns a number that rises with each change of dynamic broker configs of any scope.
func (i *Image) BrokerConfigVersion() uint64 {
	var version uint64
	for _, c := range i.brokerConfigs { // resources are never removed, see alterBroker
		version += c.Version
	}
	return version
}

// BrokerConfigScopes returns the scopes that have dynamic configs, in ascending order.
func (i *Image) BrokerConfigScopes() []int32 {
	return sortedKeys(i.brokerConfigs)
}

// GroupConfigs returns the configs of a group. It is never nil. The map must not be changed.
func (i *Image) GroupConfigs(group string) *ConfigResource {
	if c := i.groupConfigs[group]; c != nil {
		return c
	}
	return &ConfigResource{}
}

// GroupsWithConfigs returns the groups that have configs, in order.
func (i *Image) GroupsWithConfigs() []string { return sortedKeys(i.groupConfigs) }
