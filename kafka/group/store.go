package group

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"millrace/engine/model"
)

// snapshotVersion is that of Store.Snapshot.
const snapshotVersion byte = 1

// Store is the durable state of all groups: a machine of the cluster's Raft group. Apply, Snapshot and Restore
// belong to one goroutine; everything else may be called from anywhere.
type Store struct {
	mu      sync.RWMutex
	groups  map[string]*stored
	offsets int // of all groups
}

// stored is what is kept of one group.
type stored struct {
	classic    *Classic // nil: no generation ever got its assignment
	generation int32    // the newest that has begun
	topics     map[model.TopicID]*topicOffsets
}

type topicOffsets struct {
	name       string
	partitions map[int32]Offset
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{groups: make(map[string]*stored)} }

// Apply applies a command of AppendCommand; its result is empty. See meta.Machine.
func (s *Store) Apply(command []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, parseCommand(command, s.applyLocked)
}

func (s *Store) applyLocked(c *Change) {
	switch c.kind {
	case kindPutClassic:
		g := s.groupLocked(c.Group)
		g.classic, g.generation = c.Classic, max(g.generation, c.Classic.Generation)
	case kindPutGeneration:
		g := s.groupLocked(c.Group)
		g.generation = max(g.generation, c.Generation)
	case kindDeleteGroup:
		if g := s.groups[c.Group]; g != nil {
			s.offsets -= g.count()
			delete(s.groups, c.Group)
		}
	case kindPutOffset:
		g := s.groupLocked(c.Group)
		t := g.topics[c.Topic]
		if t == nil {
			t = &topicOffsets{name: c.TopicName, partitions: make(map[int32]Offset)}
			if g.topics == nil {
				g.topics = make(map[model.TopicID]*topicOffsets)
			}
			g.topics[c.Topic] = t
		}
		had := len(t.partitions)
		t.partitions[c.Partition] = c.Offset
		s.offsets += len(t.partitions) - had
	case kindDeleteOffset:
		if g := s.groups[c.Group]; g != nil {
			s.dropLocked(c.Group, g, c.Topic, c.Partition)
		}
	case kindDeleteTopic:
		for id, g := range s.groups {
			if t := g.topics[c.Topic]; t != nil {
				s.offsets -= len(t.partitions)
				delete(g.topics, c.Topic)
				s.forgetLocked(id, g)
			}
		}
	}
}

func (s *Store) groupLocked(id string) *stored {
	g := s.groups[id]
	if g == nil {
		g = &stored{}
		s.groups[id] = g
	}
	return g
}

func (s *Store) dropLocked(id string, g *stored, topic model.TopicID, partition int32) {
	t := g.topics[topic]
	if t == nil {
		return
	}
	had := len(t.partitions)
	delete(t.partitions, partition)
	s.offsets += len(t.partitions) - had
	if len(t.partitions) == 0 {
		delete(g.topics, topic)
	}
	s.forgetLocked(id, g)
}

// forgetLocked drops a group of which nothing is left.
func (s *Store) forgetLocked(id string, g *stored) {
	if g.classic == nil && g.generation == 0 && len(g.topics) == 0 {
		delete(s.groups, id)
	}
}

func (g *stored) count() int {
	n := 0
	for _, t := range g.topics {
		n += len(t.partitions)
	}
	return n
}

// Offset returns a committed offset of a topic that exists.
func (s *Store) Offset(group string, topic model.TopicID, partition int32) (Offset, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if g := s.groups[group]; g != nil {
		if t := g.topics[topic]; t != nil {
			o, ok := t.partitions[partition]
			return o, ok
		}
	}
	return Offset{}, false
}

// Committed is one committed offset with its place.
type Committed struct {
	Topic     model.TopicID
	Name      string
	Partition int32
	Offset
}

// Offsets returns all that a group has committed, by topic name and partition.
func (s *Store) Offsets(group string) []Committed {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.groups[group]
	if g == nil {
		return nil
	}
	list := make([]Committed, 0, g.count())
	for id, t := range g.topics {
		for p, o := range t.partitions {
			list = append(list, Committed{Topic: id, Name: t.name, Partition: p, Offset: o})
		}
	}
	slices.SortFunc(list, func(a, b Committed) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	return list
}

// Sizes returns how many groups and offsets there are.
func (s *Store) Sizes() (groups, offsets int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.groups), s.offsets
}

// has tells whether anything is kept of a group.
func (s *Store) has(group string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.groups[group] != nil
}

// each calls f with every group, by id: its newest generation and its classic state, which may be nil and must not
// be changed.
func (s *Store) each(f func(id string, generation int32, c *Classic)) {
	s.mu.RLock()
	ids := s.idsLocked()
	classic := make([]*Classic, len(ids))
	generations := make([]int32, len(ids))
	for i, id := range ids {
		classic[i], generations[i] = s.groups[id].classic, s.groups[id].generation
	}
	s.mu.RUnlock()
	for i, id := range ids {
		f(id, generations[i], classic[i])
	}
}

func (s *Store) idsLocked() []string {
	ids := make([]string, 0, len(s.groups))
	for id := range s.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// topicsKept returns the topics that any group has offsets of.
func (s *Store) topicsKept() []model.TopicID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	kept := map[model.TopicID]bool{}
	for _, g := range s.groups {
		for id := range g.topics {
			kept[id] = true
		}
	}
	list := make([]model.TopicID, 0, len(kept))
	for id := range kept {
		list = append(list, id)
	}
	slices.SortFunc(list, func(a, b model.TopicID) int { return bytes.Compare(a[:], b[:]) })
	return list
}

// Snapshot appends the whole state to dst: the same state gives the same bytes.
func (s *Store) Snapshot(dst []byte) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	dst = append(dst, snapshotVersion)
	ids := s.idsLocked()
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = appendStored(appendText(dst, id), s.groups[id])
	}
	return dst, nil
}

func appendStored(dst []byte, g *stored) []byte {
	dst = binary.AppendVarint(dst, int64(g.generation))
	if g.classic == nil {
		dst = append(dst, 0)
	} else {
		dst = appendClassic(append(dst, 1), g.classic)
	}
	topics := make([]model.TopicID, 0, len(g.topics))
	for id := range g.topics {
		topics = append(topics, id)
	}
	slices.SortFunc(topics, func(a, b model.TopicID) int { return bytes.Compare(a[:], b[:]) })
	dst = binary.AppendUvarint(dst, uint64(len(topics)))
	for _, id := range topics {
		t := g.topics[id]
		dst = appendText(append(dst, id[:]...), t.name)
		partitions := make([]int32, 0, len(t.partitions))
		for p := range t.partitions {
			partitions = append(partitions, p)
		}
		slices.Sort(partitions)
		dst = binary.AppendUvarint(dst, uint64(len(partitions)))
		for _, p := range partitions {
			o := t.partitions[p]
			dst = appendOffset(binary.AppendVarint(dst, int64(p)), &o)
		}
	}
	return dst
}

// Restore replaces the state by that of a snapshot.
func (s *Store) Restore(snapshot []byte) error {
	r := reader{src: snapshot}
	if v := r.byte(); !r.bad && v != snapshotVersion {
		return fmt.Errorf("restore groups: version %d (this program knows %d): it was written by a newer one", v, snapshotVersion)
	}
	groups, offsets := make(map[string]*stored), 0
	for range r.count(4) {
		id := r.text()
		g := &stored{generation: r.int32()}
		if r.byte() == 1 {
			g.classic = r.classic()
		}
		for range r.count(len(model.TopicID{}) + 2) {
			topic := r.topic()
			t := &topicOffsets{name: r.text(), partitions: make(map[int32]Offset)}
			for range r.count(6) {
				p := r.int32()
				t.partitions[p] = r.offset()
			}
			if g.topics == nil {
				g.topics = make(map[model.TopicID]*topicOffsets)
			}
			g.topics[topic] = t
		}
		groups[id] = g
		offsets += g.count()
	}
	if r.bad || len(r.src) > 0 {
		return fmt.Errorf("restore groups: %w", ErrMalformed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups, s.offsets = groups, offsets
	return nil
}
