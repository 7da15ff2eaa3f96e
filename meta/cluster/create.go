package cluster

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// CheckCreateTopics tells what CreateTopics would answer for the image, without making anything.
func (i *Image) CheckCreateTopics(c CreateTopics) []CreateTopicResult {
	return c.run(newTransaction(i))
}

func (c CreateTopics) apply(t *transaction) []byte {
	return appendCreateTopicResults(nil, c.run(t))
}

// run makes what can be made; each topic is judged alone. A request for too many partitions is refused as
// a whole, so that its outcome does not depend on the order of its topics.
func (c CreateTopics) run(t *transaction) []CreateTopicResult {
	results := make([]CreateTopicResult, len(c.Topics))
	var total int64
	names := make(map[string]int, len(c.Topics))
	for i := range c.Topics {
		total += max(int64(c.Topics[i].Partitions), int64(len(c.Topics[i].Assignments)), 0)
		names[c.Topics[i].Name]++
	}
	for i := range c.Topics {
		topic := &c.Topics[i]
		switch {
		case total > PartitionsPerRequestMax:
			results[i].Outcome = Outcome{ErrTooManyPartitions,
				fmt.Sprintf("%d partitions in one request are more than %d", total, PartitionsPerRequestMax)}
		case names[topic.Name] > 1:
			results[i].Outcome = Outcome{ErrInvalidRequest, fmt.Sprintf("topic %q stands in the request more than once", topic.Name)}
		default:
			results[i] = t.createTopic(topic, c)
		}
	}
	return results
}

func (t *transaction) createTopic(n *NewTopic, c CreateTopics) CreateTopicResult {
	if o := t.checkNewName(n); o.Failed() {
		return CreateTopicResult{Outcome: o}
	}
	partitions, o := t.newPartitions(n)
	if o.Failed() {
		return CreateTopicResult{Outcome: o}
	}
	topic := &Topic{ID: n.ID, Name: n.Name, Created: c.Time, Partitions: partitions, Configs: n.Configs}
	t.put(topic)
	return CreateTopicResult{Topic: topic}
}

// checkNewName judges names before anything else: that a topic exists wins over every other fault.
// Collisions are sought among the topics from before the command, as Kafka does it.
func (t *transaction) checkNewName(n *NewTopic) Outcome {
	if err := CheckTopicName(n.Name); err != nil {
		return Outcome{ErrInvalidName, err.Error()}
	}
	if t.topicByName(n.Name) != nil {
		return Outcome{ErrTopicExists, fmt.Sprintf("topic %q already exists", n.Name)}
	}
	if key, ok := collisionKey(n.Name); ok {
		if names := t.before.collisions(key); len(names) > 0 {
			return Outcome{ErrNameCollision, fmt.Sprintf("topic %q differs only in dots and underscores from existing topics: %s",
				n.Name, strings.Join(names, ", "))}
		}
	}
	if n.ID.IsZero() {
		return Outcome{ErrInvalidRequest, fmt.Sprintf("topic %q has no id", n.Name)}
	}
	if t.topicByID(n.ID) != nil {
		return Outcome{ErrTopicIDExists, fmt.Sprintf("id %s of topic %q is taken", n.ID, n.Name)}
	}
	return Outcome{}
}

func (t *transaction) newPartitions(n *NewTopic) ([]Partition, Outcome) {
	if n.Assignments != nil {
		switch {
		case n.ReplicationFactor != -1:
			return nil, Outcome{ErrInvalidRequest, "a manual partition assignment was given, but the replication factor is not -1"}
		case n.Partitions != -1:
			return nil, Outcome{ErrInvalidRequest, "a manual partition assignment was given, but the number of partitions is not -1"}
		}
		return t.assigned(n.Assignments, 0)
	}
	switch {
	case n.Partitions <= 0:
		return nil, Outcome{ErrInvalidPartitions, fmt.Sprintf("number of partitions must be larger than 0, not %d", n.Partitions)}
	case n.ReplicationFactor <= 0:
		return nil, Outcome{ErrInvalidReplicationFactor, fmt.Sprintf("replication factor must be larger than 0, not %d", n.ReplicationFactor)}
	}
	start := binary.BigEndian.Uint32(n.ID[:])
	return t.placed(int(n.Partitions), int(n.ReplicationFactor), start)
}

// placed spreads partitions over the registered brokers, each partition one broker further on.
func (t *transaction) placed(count, factor int, start uint32) ([]Partition, Outcome) {
	brokers := t.next.brokers
	if factor > len(brokers) {
		return nil, Outcome{ErrInvalidReplicationFactor,
			fmt.Sprintf("replication factor %d is larger than the number of brokers, %d", factor, len(brokers))}
	}
	if o := t.checkRoom(count); o.Failed() {
		return nil, o
	}
	// One slice of replicas per first broker is shared by all partitions that begin there.
	replicas := make([][]int32, len(brokers))
	partitions := make([]Partition, count)
	for i := range partitions {
		first := int((uint64(start) + uint64(i)) % uint64(len(brokers)))
		if replicas[first] == nil {
			list := make([]int32, factor)
			for r := range list {
				list[r] = brokers[(first+r)%len(brokers)].NodeID
			}
			replicas[first] = list
		}
		partitions[i] = newPartition(replicas[first])
	}
	return partitions, Outcome{}
}

func newPartition(replicas []int32) Partition {
	return Partition{Leader: replicas[0], Replicas: replicas, ISR: replicas}
}

// assigned follows a manual assignment. factor is what earlier partitions have, 0 for a new topic.
func (t *transaction) assigned(assignments [][]int32, factor int) ([]Partition, Outcome) {
	if len(assignments) == 0 {
		return nil, Outcome{ErrInvalidPartitions, "a manual partition assignment names no partition"}
	}
	if o := t.checkRoom(len(assignments)); o.Failed() {
		return nil, o
	}
	partitions := make([]Partition, len(assignments))
	for i, replicas := range assignments {
		if len(replicas) == 0 {
			return nil, Outcome{ErrInvalidAssignment, "the manual partition assignment includes an empty replica list"}
		}
		if factor == 0 {
			factor = len(replicas)
		}
		if len(replicas) != factor {
			return nil, Outcome{ErrInvalidAssignment, fmt.Sprintf(
				"the manual partition assignment includes a partition with %d replica(s), other partitions have %d", len(replicas), factor)}
		}
		for at, id := range replicas {
			if t.next.Broker(id) == nil {
				return nil, Outcome{ErrInvalidAssignment, fmt.Sprintf("the manual partition assignment includes broker %d, which is not registered", id)}
			}
			if slices.Contains(replicas[:at], id) {
				return nil, Outcome{ErrInvalidAssignment, fmt.Sprintf("the manual partition assignment includes broker %d more than once in one partition", id)}
			}
		}
		partitions[i] = newPartition(slices.Clone(replicas))
	}
	return partitions, Outcome{}
}

func (t *transaction) checkRoom(count int) Outcome {
	if t.next.partitionCount+count > PartitionsMax {
		return Outcome{ErrTooManyPartitions, fmt.Sprintf("the cluster has %d partitions; %d more would pass its limit of %d",
			t.next.partitionCount, count, PartitionsMax)}
	}
	return Outcome{}
}

func (c DeleteTopics) apply(t *transaction) []byte {
	outcomes := make([]Outcome, len(c.IDs))
	for i, id := range c.IDs {
		if topic := t.topicByID(id); topic != nil {
			t.remove(topic)
		} else {
			outcomes[i] = Outcome{ErrUnknownTopicID, fmt.Sprintf("there is no topic with id %s", id)}
		}
	}
	return appendOutcomes(nil, outcomes)
}
