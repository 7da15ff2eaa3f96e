package broker_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// peers returns a connection to each of two brokers with one topic of the same content: this one, and the Apache
// Kafka at MILLRACE_TEST_KAFKA. The test skips without that.
func peers(t *testing.T) (own, peer *brokertest.Conn, ownTopic, peerTopic brokertest.Topic) {
	t.Helper()
	addr := os.Getenv("MILLRACE_TEST_KAFKA")
	if addr == "" {
		t.Skip("MILLRACE_TEST_KAFKA does not name an Apache Kafka to compare with")
	}
	b, own := start(t)
	kafka := &brokertest.Broker{Addr: addr}
	peer = brokertest.Dial(t, addr)
	name := brokertest.FreshName("diff")
	ownTopic = b.CreateTopic(t, name, 2, nil)
	if brokertest.Outside() == addr {
		name = brokertest.FreshName("diff")
	}
	peerTopic = kafka.CreateTopic(t, name, 2, nil)
	for c, topic := range map[*brokertest.Conn]brokertest.Topic{own: ownTopic, peer: peerTopic} {
		brokertest.Eventually(t, "the leader answers", func() bool {
			return c.ListOffset(topic, 0, -1).ErrorCode == 0 && c.ListOffset(topic, 1, -1).ErrorCode == 0
		})
		c.MustProduce(topic, 0, brokertest.NewBatch(brokertest.Values(1_700_000_000_000, "a", "b", "c")...))
		c.MustProduce(topic, 0, brokertest.NewBatch(brokertest.Values(1_700_000_001_000, "d")...).Compressed(brokertest.Gzip))
	}
	return own, peer, ownTopic, peerTopic
}

func TestDifferentialVersionRanges(t *testing.T) {
	own, peer, _, _ := peers(t)
	theirs := peer.Versions()
	for key, span := range own.Versions() {
		if theirs[key] != span {
			t.Errorf("%s: %v here, %v there", kmsg.NameForKey(key), span, theirs[key])
		}
	}
}

func TestDifferentialListOffsets(t *testing.T) {
	own, peer, ownTopic, peerTopic := peers(t)
	for version := int16(1); version <= 11; version++ {
		for _, ask := range []int64{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1_700_000_000_000, 1_700_000_000_001, 1_700_000_001_001} {
			a, b := own.ListOffsetV(version, ownTopic, 0, ask), peer.ListOffsetV(version, peerTopic, 0, ask)
			a.LeaderEpoch, b.LeaderEpoch = min(a.LeaderEpoch, 0), min(b.LeaderEpoch, 0) // known or not; the number is each one's own
			want(t, fmt.Sprintf("v%d timestamp %d", version, ask), fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b))
		}
	}
}

func TestDifferentialFetchErrors(t *testing.T) {
	own, peer, ownTopic, peerTopic := peers(t)
	for version := int16(4); version <= 18; version++ {
		for _, partition := range []int32{0, 1, 2, -1} {
			for _, offset := range []int64{0, 1, 3, 4, 5, -1, 1 << 50} {
				ask := func(c *brokertest.Conn, topic brokertest.Topic) string {
					rp := c.FetchParts(brokertest.FetchRequest(version, 0, topic, brokertest.FetchFrom{Partition: partition, Offset: offset}))[0]
					empty := len(rp.RecordBatches) == 0
					return fmt.Sprintf("error %d high watermark %d stable %d start %d replica %d empty %v", rp.ErrorCode, rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset, rp.PreferredReadReplica, empty)
				}
				want(t, fmt.Sprintf("v%d partition %d offset %d", version, partition, offset), ask(own, ownTopic), ask(peer, peerTopic))
			}
		}
	}
}

func TestDifferentialProduceErrors(t *testing.T) {
	own, peer, ownTopic, peerTopic := peers(t)
	spoil := func(f func(b *brokertest.Batch)) []byte {
		b := brokertest.NewBatch(brokertest.Values(1_700_000_002_000, "x", "y")...)
		f(b)
		return b.Encode()
	}
	good := spoil(func(*brokertest.Batch) {})
	for what, records := range map[string][]byte{
		"good":          good,
		"empty":         {},
		"cut":           good[:30],
		"two":           append(append([]byte{}, good...), good...),
		"junk":          append(append([]byte{}, good...), "junk"...),
		"base offset":   spoil(func(b *brokertest.Batch) { b.BaseOffset = 1 }),
		"magic 1":       spoil(func(b *brokertest.Batch) { b.Magic = 1 }),
		"control":       spoil(func(b *brokertest.Batch) { b.Attributes = brokertest.ControlBit }),
		"count":         spoil(func(b *brokertest.Batch) { b.Count = 3 }),
		"delta":         spoil(func(b *brokertest.Batch) { b.LastOffsetDelta = 5 }),
		"crc":           spoil(func(b *brokertest.Batch) { b.CRC = new(uint32) }),
		"sequence -1":   spoil(func(b *brokertest.Batch) { b.ProducerID, b.ProducerEpoch = 5, 0 }),
		"future":        brokertest.NewBatch(brokertest.Values(now()+100*24*3600_000, "x")...).Encode(),
		"negative time": brokertest.NewBatch(brokertest.Values(-5, "x")...).Encode(),
	} {
		for _, version := range []int16{3, 5, 8, 9, 12, 13} {
			for _, acks := range []int16{-1, 1, 2} {
				if acks == 2 && what != "good" {
					continue // two faults: which one is told is nobody's promise
				}
				ask := func(c *brokertest.Conn, topic brokertest.Topic) string {
					start := c.LogEnd(topic, 1)
					rp := c.ProduceParts(version, acks, topic, brokertest.Part{Partition: 1, Records: records})[0]
					base := rp.BaseOffset
					if base >= 0 {
						base -= start
					}
					if rp.ErrorCode != errNone {
						rp.LogStartOffset = -1 // Apache Kafka tells it with some errors
					}
					return fmt.Sprintf("error %d base +%d time %d start %d record errors %d", rp.ErrorCode, base, rp.LogAppendTime, rp.LogStartOffset, len(rp.ErrorRecords))
				}
				want(t, fmt.Sprintf("%s v%d acks %d", what, version, acks), ask(own, ownTopic), ask(peer, peerTopic))
			}
		}
	}
}

func TestDifferentialTopicErrors(t *testing.T) {
	own, peer, _, _ := peers(t)
	for _, name := range []string{"", ".", "..", "a b", "ü"} {
		for version := int16(2); version <= 7; version++ {
			ask := func(c *brokertest.Conn) string {
				rt := create(c, version, true, brokertest.NewTopicSpec(name, 1, nil))
				return fmt.Sprintf("error %d partitions %d replication %d", rt.ErrorCode, rt.NumPartitions, rt.ReplicationFactor)
			}
			want(t, fmt.Sprintf("create %q v%d", name, version), ask(own), ask(peer))
		}
	}
	for key, value := range map[string]string{
		"retention.ms": "-2", "retention.bytes": "-2", "segment.bytes": "1048575", "segment.ms": "0", "max.message.bytes": "-1",
		"min.insync.replicas": "0", "cleanup.policy": "x", "compression.type": "x", "message.timestamp.type": "x",
		"message.timestamp.after.max.ms": "-1", "flush.messages": "0", "flush.ms": "-1", "file.delete.delay.ms": "-1",
		"unclean.leader.election.enable": "maybe", "index.interval.bytes": "-1", "preallocate": "x", "no.such": "1",
		"retention.bytes ": "1", "delete.retention.ms": "-1", "min.cleanable.dirty.ratio": "2", "segment.index.bytes": "3",
	} {
		ask := func(c *brokertest.Conn) int16 {
			return create(c, 7, true, brokertest.NewTopicSpec("diff-config", 1, map[string]string{key: value})).ErrorCode
		}
		want(t, key+"="+value, ask(own), ask(peer))
	}
}

// TestDifferentialTopicConfigs compares names, defaults and types of the topic configs.
func TestDifferentialTopicConfigs(t *testing.T) {
	own, peer, ownTopic, peerTopic := peers(t)
	ask := func(c *brokertest.Conn, topic brokertest.Topic) map[string]string {
		configs := map[string]string{}
		for _, rc := range describe(c, kmsg.ConfigResourceTypeTopic, topic.Name, nil).Configs {
			value := "null"
			if rc.Value != nil {
				value = *rc.Value
			}
			configs[rc.Name] = fmt.Sprintf("%q type %d read only %v sensitive %v", value, rc.ConfigType, rc.ReadOnly, rc.IsSensitive)
		}
		return configs
	}
	here, there := ask(own, ownTopic), ask(peer, peerTopic)
	for name, config := range here {
		if _, ok := there[name]; ok {
			want(t, name, config, there[name])
		}
	}
	for name := range there {
		if _, ok := here[name]; !ok {
			t.Logf("%s is not described here", name)
		}
	}
}
