package model

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"millrace/perf"
)

// TopicID names a topic for its whole life; a re-created topic gets a new one.
type TopicID [16]byte

// String returns 32 hexadecimal digits.
func (t TopicID) String() string { return hex.EncodeToString(t[:]) }

// IsZero tells whether no topic is named.
func (t TopicID) IsZero() bool { return t == TopicID{} }

// ShardID names one partition's log.
type ShardID struct {
	Topic     TopicID
	Partition int32
}

// String returns the name of the shard's directory: topic id in hexadecimal, a dash, the partition.
func (s ShardID) String() string { return fmt.Sprintf("%s-%d", s.Topic, s.Partition) }

// Identity is the number that stands in every append of the shard and seeds its checksums. It is equal on
// all replicas, so that followers store what they are sent.
func (s ShardID) Identity() uint32 {
	var b [20]byte
	copy(b[:], s.Topic[:])
	binary.BigEndian.PutUint32(b[16:], uint32(s.Partition))
	return perf.CRC32C(b[:])
}
