package engine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"millrace/engine/model"
)

// known is what the index store says of one shard.
type known struct {
	logStart   int64 // -1: nothing
	checkpoint *checkpointValue
	segments   []segmentMeta // by number
	producers  []producerState
	cleaned    cleanedValue
	damaged    bool // some of it could not be read: everything is found again from the segments
}

// loadCatalogue reads what the index store says of all shards. Values that cannot be read cost their shard a
// full scan, not the start.
func (s *Store) loadCatalogue() (map[model.ShardID]*known, error) {
	return s.index.catalogue(keyStart, keyCheckpoint, keySegment, keyProducer, keyCleaned)
}

// catalogue reads the keys of some kinds.
func (x *indexStore) catalogue(kinds ...byte) (map[model.ShardID]*known, error) {
	shards := make(map[model.ShardID]*known)
	of := func(id model.ShardID) *known {
		k := shards[id]
		if k == nil {
			k = &known{logStart: -1}
			shards[id] = k
		}
		return k
	}
	for _, kind := range kinds {
		err := x.scan([]byte{kind}, []byte{kind + 1}, func(key, value []byte) error {
			id, rest, ok := parseShardKey(key)
			if !ok {
				x.log.Warn("index store has a key that is not understood", "key", fmt.Sprintf("%x", key))
				return nil
			}
			k := of(id)
			if err := k.take(kind, rest, value); err != nil {
				k.damaged = true
				x.log.Error("index store entry is damaged", "shard", id.String(), "key", fmt.Sprintf("%x", key), "err", err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return shards, nil
}

func (k *known) take(kind byte, rest, value []byte) error {
	switch kind {
	case keyStart:
		if len(value) != 9 || value[0] != valueVersion {
			return fmt.Errorf("log start: %w", ErrCorrupt)
		}
		k.logStart = int64(binary.BigEndian.Uint64(value[1:]))
	case keyCheckpoint:
		k.checkpoint = new(checkpointValue)
		return k.checkpoint.parse(value)
	case keySegment:
		var m segmentMeta
		if err := m.parse(rest, value); err != nil {
			return err
		}
		k.segments = append(k.segments, m)
	case keyProducer:
		p, err := parseProducer(rest, value)
		if err != nil {
			return err
		}
		k.producers = append(k.producers, p)
	case keyCleaned:
		return k.cleaned.parse(value)
	}
	return nil
}

// distrust forgets what a full scan finds again.
func (k *known) distrust() {
	k.checkpoint, k.segments, k.producers, k.cleaned = nil, nil, nil, cleanedValue{}
}

// restoreProducers fills the table, the longest silent first. What a truncation took is left out.
func (sh *Shard) restoreProducers(states []producerState, next int64) {
	slices.SortFunc(states, func(a, b producerState) int { return int(min(max(a.seen-b.seen, -1), 1)) })
	for i := range states {
		from := &states[i]
		kept := from.batches
		for len(kept) > 0 && kept[len(kept)-1].lastOffset >= next {
			kept = kept[:len(kept)-1]
		}
		if len(kept) == 0 && len(from.batches) > 0 {
			sh.producers.dropped = append(sh.producers.dropped, from.id)
			continue
		}
		if p := sh.producers.restore(from.id); p != nil {
			p.epoch, p.seen, p.batches = from.epoch, from.seen, kept
		}
	}
}
