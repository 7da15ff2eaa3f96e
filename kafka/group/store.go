package group

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"millrace/engine/model"
	"millrace/kafka/group/consumer"
	"millrace/perf/fields"
)

// snapshotVersion is that of Store.Snapshot. Version 1 had no groups of the consumer protocol.
const snapshotVersion byte = 2

// Store is the durable state of all groups: a machine of the cluster's Raft group. Apply, Snapshot and Restore
// belong to one goroutine; everything else may be called from anywhere.
type Store struct {
	mu      sync.RWMutex
	groups  map[string]*stored
	offsets int // of all groups
}

// stored is what is kept of one group.
type stored struct {
	classic    *Classic        // nil: no generation ever got its assignment
	generation int32           // the newest that has begun
	consumer   *consumer.State // of the consumer protocol; nil: it is none of these
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

func (s *Store) applyLocked(c *Change) error {
	switch c.kind {
	case kindPutClassic:
		g := s.groupLocked(c.Group)
		g.classic, g.generation = c.Classic, max(g.generation, c.Classic.Generation)
	case kindPutGeneration:
		g := s.groupLocked(c.Group)
		g.generation = max(g.generation, c.Generation)
	case kindConsumer:
		return s.applyConsumerLocked(c)
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
	return nil
}

// errHistory is for changes that do not follow from what is there. That is nobody's input but a fault of this
// program, and what it leaves of the group cannot be used.
var errHistory = errors.New("change does not belong to the group's history")

// applyConsumerLocked applies an operation on a group of the consumer protocol, which takes the place of a classic
// one, and may give way to one. The offsets stay.
func (s *Store) applyConsumerLocked(c *Change) error {
	g := s.groupLocked(c.Group)
	if g.consumer == nil {
		g.consumer = &consumer.State{}
	}
	for _, change := range c.Consumer {
		if err := g.consumer.Apply(change); err != nil {
			return fmt.Errorf("group %q: %w: %w", c.Group, errHistory, err)
		}
	}
	if !g.consumer.Exists() {
		g.consumer = nil
	}
	g.classic, g.generation = c.Classic, c.Generation
	s.forgetLocked(c.Group, g)
	return nil
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
	if g.classic == nil && g.generation == 0 && g.consumer == nil && len(g.topics) == 0 {
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

// EachOffset calls f with every committed offset of a group, in no order. f must not block and must not call the store.
func (s *Store) EachOffset(group string, f func(topic model.TopicID, partition int32, offset int64)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.groups[group]
	if g == nil {
		return
	}
	for id, t := range g.topics {
		for p, o := range t.partitions {
			f(id, p, o.Offset)
		}
	}
}

// Sizes returns how many groups and offsets there are.
func (s *Store) Sizes() (groups, offsets int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.groups), s.offsets
}

// IDs returns the ids of all groups that anything is kept of, in order.
func (s *Store) IDs() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.idsLocked()
}

// has tells whether anything is kept of a group.
func (s *Store) has(group string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.groups[group] != nil
}

// kept is what a coordinator begins with of one group.
type kept struct {
	id         string
	generation int32
	classic    *Classic          // may be nil; not to be changed
	consumer   []consumer.Change // of the consumer protocol, else nil
}

// all returns what is kept of every group but for the offsets, by id.
func (s *Store) all() []kept {
	s.mu.RLock()
	defer s.mu.RUnlock()
	ids := s.idsLocked()
	list := make([]kept, len(ids))
	for i, id := range ids {
		g := s.groups[id]
		list[i] = kept{id: id, generation: g.generation, classic: g.classic}
		if g.consumer != nil {
			list[i].consumer = g.consumer.Changes()
		}
	}
	return list
}

// CheckFetch judges who fetches offsets of a group: see consumer.State. Groups of the classic protocol, and those
// that do not exist, take anybody.
func (s *Store) CheckFetch(group string, memberID *string, epoch int32) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if g := s.groups[group]; g != nil && g.consumer != nil {
		return g.consumer.CheckFetch(memberID, epoch)
	}
	return nil
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
		dst = appendStored(fields.AppendText(dst, id), s.groups[id])
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
	var changes []consumer.Change
	if g.consumer != nil {
		changes = g.consumer.Changes()
	}
	dst = appendConsumer(dst, changes)
	topics := make([]model.TopicID, 0, len(g.topics))
	for id := range g.topics {
		topics = append(topics, id)
	}
	slices.SortFunc(topics, func(a, b model.TopicID) int { return bytes.Compare(a[:], b[:]) })
	dst = binary.AppendUvarint(dst, uint64(len(topics)))
	for _, id := range topics {
		t := g.topics[id]
		dst = fields.AppendText(append(dst, id[:]...), t.name)
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
	r := reader{fields.New(snapshot)}
	version := r.Byte()
	if r.Err() == nil && (version < 1 || version > snapshotVersion) {
		return fmt.Errorf("restore groups: version %d (this program knows 1 to %d): it was written by a newer one", version, snapshotVersion)
	}
	groups, offsets := make(map[string]*stored), 0
	for range r.Count(4) {
		id := r.Text()
		g, err := r.stored(version)
		if err != nil {
			return fmt.Errorf("restore group %q: %w", id, err)
		}
		groups[id] = g
		offsets += g.count()
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("restore groups: %w: %w", ErrMalformed, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups, s.offsets = groups, offsets
	return nil
}

func (r *reader) stored(version byte) (*stored, error) {
	g := &stored{generation: r.Int32()}
	if r.Byte() == 1 {
		g.classic = r.classic()
	}
	if version >= 2 {
		for _, c := range r.consumer() {
			if g.consumer == nil {
				g.consumer = &consumer.State{}
			}
			if err := g.consumer.Apply(c); err != nil {
				return nil, err
			}
		}
	}
	for range r.Count(len(model.TopicID{}) + 2) {
		topic := r.ID()
		t := &topicOffsets{name: r.Text(), partitions: make(map[int32]Offset)}
		for range r.Count(6) {
			p := r.Int32()
			t.partitions[p] = r.offset()
		}
		if g.topics == nil {
			g.topics = make(map[model.TopicID]*topicOffsets)
		}
		g.topics[topic] = t
	}
	return g, nil
}
