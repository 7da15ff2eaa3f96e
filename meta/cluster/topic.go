package cluster

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"millrace/engine/model"
	"millrace/perf/fields"
)

// Limits of what a cluster holds. They bound what one request and one snapshot can cost.
const (
	// PartitionsPerRequestMax bounds the partitions that one CreateTopics or CreatePartitions adds.
	PartitionsPerRequestMax = 100_000
	// PartitionsMax bounds the partitions of all topics.
	PartitionsMax = 1_000_000
	// TopicNameBytesMax bounds a topic's name.
	TopicNameBytesMax = 249
)

// CheckTopicName tells what is wrong with a name for a new topic: Kafka's rules, 1 to 249 characters of
// a-z, A-Z, 0-9, dot, underscore and hyphen, and neither "." nor "..".
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("topic name is invalid: it is empty")
	case name == "." || name == "..":
		return fmt.Errorf("topic name is invalid: it must not be %q", name)
	case len(name) > TopicNameBytesMax:
		return fmt.Errorf("topic name is invalid: %d bytes are more than %d", len(name), TopicNameBytesMax)
	}
	for i := range len(name) {
		c := name[i]
		legal := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !legal {
			return fmt.Errorf("topic name %q is invalid: only ASCII letters and digits, '.', '_' and '-' are allowed", name)
		}
	}
	return nil
}

// collisionKey returns the name with dots as underscores, under which metric systems would confuse it
// with others; ok is false for a name that has neither and can meet no other.
func collisionKey(name string) (key string, ok bool) {
	if !strings.ContainsAny(name, "._") {
		return "", false
	}
	return strings.ReplaceAll(name, ".", "_"), true
}

func equalPartitions(a, b *Partition) bool {
	return a.Leader == b.Leader && a.LeaderEpoch == b.LeaderEpoch && a.PartitionEpoch == b.PartitionEpoch &&
		slices.Equal(a.Replicas, b.Replicas) && slices.Equal(a.ISR, b.ISR)
}

// appendPartitions writes runs of equal partitions once: on a small cluster a topic is one run.
func appendPartitions(dst []byte, partitions []Partition) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(partitions)))
	for from := 0; from < len(partitions); {
		p := &partitions[from]
		to := from + 1
		for to < len(partitions) && equalPartitions(p, &partitions[to]) {
			to++
		}
		dst = binary.AppendUvarint(dst, uint64(to-from))
		dst = binary.AppendVarint(dst, int64(p.Leader))
		dst = binary.AppendVarint(dst, int64(p.LeaderEpoch))
		dst = binary.AppendVarint(dst, int64(p.PartitionEpoch))
		dst = appendInts(dst, p.Replicas)
		dst = appendInts(dst, p.ISR)
		from = to
	}
	return dst
}

func (r *reader) partitions(max int) []Partition {
	n := r.Uvarint()
	if n == 0 || n > uint64(max) {
		r.Fail(fmt.Errorf("topic of %d partitions, 1 to %d can be", n, max))
		return nil
	}
	var list []Partition
	for uint64(len(list)) < n && r.Err() == nil {
		run := r.Uvarint()
		p := Partition{Leader: r.Int32(), LeaderEpoch: r.Int32(), PartitionEpoch: r.Int32(), Replicas: r.ints(), ISR: r.ints()}
		if len(p.Replicas) == 0 {
			r.Fail(fmt.Errorf("partition %d of %d has no replica", len(list), n))
			return nil
		}
		if run == 0 || run > n-uint64(len(list)) {
			r.Fail(fmt.Errorf("run of %d partitions at %d of %d", run, len(list), n))
			return nil
		}
		if slices.Equal(p.Replicas, p.ISR) {
			p.ISR = p.Replicas
		}
		if list == nil {
			list = make([]Partition, 0, n)
		}
		for range run {
			list = append(list, p)
		}
	}
	return list
}

func appendTopic(dst []byte, t *Topic) []byte {
	dst = append(dst, t.ID[:]...)
	dst = fields.AppendText(dst, t.Name)
	dst = appendTime(dst, t.Created)
	dst = binary.AppendUvarint(dst, t.ConfigVersion)
	dst = appendMap(dst, t.Configs)
	return appendPartitions(dst, t.Partitions)
}

func (r *reader) topic(partitionsMax int) *Topic {
	return &Topic{
		ID:            model.TopicID(r.ID()),
		Name:          r.Text(),
		Created:       r.time(),
		ConfigVersion: r.Uvarint(),
		Configs:       r.strings(),
		Partitions:    r.partitions(partitionsMax),
	}
}
