package engine

import (
	"encoding/binary"
	"fmt"

	"millrace/engine/model"
)

// Kinds of keys in the index store. A key is its kind, and for all but keyClean the topic id (16 bytes) and
// the partition (u32), so that what belongs to a shard stands together within its kind. Integers are
// big-endian; docs/format.md lists keys and values.
const (
	keyClean      = 'c' // the last stop was clean
	keyStart      = 'l' // log start
	keyCheckpoint = 'k' // recovery checkpoint
	keySegment    = 's' // + number u64: a segment whose file is durable
	keyProducer   = 'p' // + producer id u64
	keyIndex      = 'i' // + number u64, generation u32, offset u64
	keyCleaned    = 'd' // how far compaction came
)

// shardKinds are the kinds that belong to shards.
const shardKinds = string(keyStart) + string(keyCheckpoint) + string(keySegment) + string(keyProducer) + string(keyIndex) +
	string(keyCleaned)

const shardKeySize = 1 + 16 + 4

// valueVersion stands first in every value.
const valueVersion = 1

// appendShardKey appends the part of a key that names the shard.
func appendShardKey(dst []byte, kind byte, id model.ShardID) []byte {
	dst = append(dst, kind)
	dst = append(dst, id.Topic[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(id.Partition))
}

// shardKeyEnd returns the first key after all of the shard's of a kind.
func shardKeyEnd(kind byte, id model.ShardID) []byte {
	return prefixEnd(appendShardKey(nil, kind, id))
}

// prefixEnd returns the first key after all that begin with prefix, which is changed.
func prefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i]++; prefix[i] != 0 {
			return prefix[:i+1]
		}
	}
	return nil
}

func parseShardKey(key []byte) (id model.ShardID, rest []byte, ok bool) {
	if len(key) < shardKeySize {
		return id, nil, false
	}
	copy(id.Topic[:], key[1:])
	id.Partition = int32(binary.BigEndian.Uint32(key[17:]))
	return id, key[shardKeySize:], id.Partition >= 0
}

func appendIndexKey(dst []byte, id model.ShardID, number uint64, generation uint32, offset int64) []byte {
	dst = appendShardKey(dst, keyIndex, id)
	dst = binary.BigEndian.AppendUint64(dst, number)
	dst = binary.BigEndian.AppendUint32(dst, generation)
	return binary.BigEndian.AppendUint64(dst, uint64(offset))
}

const indexValueSize = 1 + 1 + 8 + 8

func appendIndexValue(dst []byte, e *indexEntry) []byte {
	block := byte(0)
	if e.block {
		block = 1
	}
	dst = append(dst, valueVersion, block)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.position))
	return binary.BigEndian.AppendUint64(dst, uint64(e.maxBefore))
}

func parseIndexEntry(key, value []byte) (e indexEntry, ok bool) {
	if len(key) != shardKeySize+20 || len(value) != indexValueSize || value[0] != valueVersion {
		return e, false
	}
	e.offset = int64(binary.BigEndian.Uint64(key[shardKeySize+12:]))
	e.block = value[1] == 1
	e.position = int64(binary.BigEndian.Uint64(value[2:]))
	e.maxBefore = int64(binary.BigEndian.Uint64(value[10:]))
	return e, e.offset >= 0 && e.position >= segmentHeaderSize
}

// segmentMeta is what the index store keeps of a segment whose file and directory entry are durable. end and
// bytes are bounds of a sealed segment, and of an active one where it was at the last checkpoint.
type segmentMeta struct {
	number           uint64
	generation       uint32
	sealed           bool
	base, end        int64
	bytes            int64
	epoch            int32
	created          int64
	maxTimestamp     int64
	maxTimestampBase int64
	lastWritten      int64
}

const segmentValueSize = 1 + 1 + 4 + 4 + 7*8

func appendSegmentKey(dst []byte, id model.ShardID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(appendShardKey(dst, keySegment, id), number)
}

func (m *segmentMeta) append(dst []byte) []byte {
	sealed := byte(0)
	if m.sealed {
		sealed = 1
	}
	dst = append(dst, valueVersion, sealed)
	dst = binary.BigEndian.AppendUint32(dst, m.generation)
	dst = binary.BigEndian.AppendUint32(dst, uint32(m.epoch))
	for _, v := range [...]int64{m.base, m.end, m.bytes, m.created, m.maxTimestamp, m.maxTimestampBase, m.lastWritten} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

func (m *segmentMeta) parse(rest, value []byte) error {
	if len(rest) != 8 || len(value) != segmentValueSize || value[0] != valueVersion {
		return fmt.Errorf("segment entry: %w", ErrCorrupt)
	}
	be := binary.BigEndian
	m.number = be.Uint64(rest)
	m.sealed = value[1] == 1
	m.generation = be.Uint32(value[2:])
	m.epoch = int32(be.Uint32(value[6:]))
	for i, v := range [...]*int64{&m.base, &m.end, &m.bytes, &m.created, &m.maxTimestamp, &m.maxTimestampBase, &m.lastWritten} {
		*v = int64(be.Uint64(value[10+8*i:]))
	}
	if m.base < 0 || m.end < m.base || m.bytes < segmentHeaderSize {
		return fmt.Errorf("segment entry: %w", ErrCorrupt)
	}
	return nil
}

// checkpointValue says how far a shard's log is known to be durable and whole: recovery scans what follows.
type checkpointValue struct {
	segment       uint64
	position      int64
	next          int64
	highWatermark int64
	epochs        epochList
}

func (c *checkpointValue) append(dst []byte) []byte {
	dst = append(dst, valueVersion)
	for _, v := range [...]int64{int64(c.segment), c.position, c.next, c.highWatermark} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.epochs)))
	for _, e := range c.epochs {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.epoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.start))
	}
	return dst
}

func (c *checkpointValue) parse(value []byte) error {
	const fixed = 1 + 4*8 + 4
	be := binary.BigEndian
	if len(value) < fixed || value[0] != valueVersion || int64(len(value)-fixed) != 12*int64(be.Uint32(value[33:])) {
		return fmt.Errorf("checkpoint: %w", ErrCorrupt)
	}
	c.segment = be.Uint64(value[1:])
	c.position = int64(be.Uint64(value[9:]))
	c.next = int64(be.Uint64(value[17:]))
	c.highWatermark = int64(be.Uint64(value[25:]))
	for b := value[fixed:]; len(b) > 0; b = b[12:] {
		c.epochs = append(c.epochs, epochEntry{int32(be.Uint32(b)), int64(be.Uint64(b[4:]))})
	}
	if c.position < segmentHeaderSize || c.next < 0 {
		return fmt.Errorf("checkpoint: %w", ErrCorrupt)
	}
	return nil
}

// cleanedValue says how far compaction came.
type cleanedValue struct {
	upTo    int64 // every record below was taken into account
	horizon int64 // the earliest at which a tombstone below may go, milliseconds; 0: there is none
}

const cleanedValueSize = 1 + 2*8

func (c *cleanedValue) append(dst []byte) []byte {
	dst = append(dst, valueVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.upTo))
	return binary.BigEndian.AppendUint64(dst, uint64(c.horizon))
}

func (c *cleanedValue) parse(value []byte) error {
	if len(value) != cleanedValueSize || value[0] != valueVersion {
		return fmt.Errorf("compaction: %w", ErrCorrupt)
	}
	c.upTo = int64(binary.BigEndian.Uint64(value[1:]))
	c.horizon = int64(binary.BigEndian.Uint64(value[9:]))
	return nil
}

func appendProducerKey(dst []byte, id model.ShardID, producer int64) []byte {
	return binary.BigEndian.AppendUint64(appendShardKey(dst, keyProducer, id), uint64(producer))
}

const producerBatchSize = 4 + 4 + 3*8

func appendProducerValue(dst []byte, epoch int16, seen int64, batches []producerBatch) []byte {
	dst = append(dst, valueVersion, byte(len(batches)))
	dst = binary.BigEndian.AppendUint16(dst, uint16(epoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(seen))
	for _, b := range batches {
		dst = binary.BigEndian.AppendUint32(dst, uint32(b.baseSequence))
		dst = binary.BigEndian.AppendUint32(dst, uint32(b.lastSequence))
		dst = binary.BigEndian.AppendUint64(dst, uint64(b.baseOffset))
		dst = binary.BigEndian.AppendUint64(dst, uint64(b.lastOffset))
		dst = binary.BigEndian.AppendUint64(dst, uint64(b.maxTimestamp))
	}
	return dst
}

// parseProducer reads a producer's state.
func parseProducer(rest, value []byte) (p producerState, err error) {
	if len(rest) != 8 || len(value) < 12 || value[0] != valueVersion || value[1] > producerBatchesMax ||
		len(value)-12 != int(value[1])*producerBatchSize {
		return p, fmt.Errorf("producer: %w", ErrCorrupt)
	}
	be := binary.BigEndian
	p.id = int64(be.Uint64(rest))
	p.epoch = int16(be.Uint16(value[2:]))
	p.seen = int64(be.Uint64(value[4:]))
	for b := value[12:]; len(b) > 0; b = b[producerBatchSize:] {
		p.batches = append(p.batches, producerBatch{
			int32(be.Uint32(b)), int32(be.Uint32(b[4:])),
			int64(be.Uint64(b[8:])), int64(be.Uint64(b[16:])), int64(be.Uint64(b[24:])),
		})
	}
	return p, nil
}
