package consumer

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"millrace/engine/model"
	"millrace/kafka/group/assignor"
)

// State is the durable side of a group: what its changes add up to. The zero State is a group that does not
// exist.
type State struct {
	epoch        int32
	metadataHash uint64
	targetEpoch  int32
	targetMillis int64
	members      map[string]*Member
	statics      map[string]string // member by instance id
	target       map[string]assignor.Assignment
	owners       map[model.TopicID]map[int32]string // member by partition, assigned or pending revocation
	regexes      map[string][]string
	names        map[string]int // how often members and expressions name a topic
}

var (
	errNoMember   = errors.New("change for a member that is not there")
	errTwoOwners  = errors.New("partition would have two owners")
	errTwoStatics = errors.New("instance id would have two members")
)

// Apply applies one change. An error says that the change does not belong to this group's history; the State
// is as it was then.
func (s *State) Apply(c Change) error {
	if s.members == nil {
		s.members, s.statics, s.target = map[string]*Member{}, map[string]string{}, map[string]assignor.Assignment{}
		s.owners, s.regexes = map[model.TopicID]map[int32]string{}, map[string][]string{}
		s.names = map[string]int{}
	}
	return c.apply(s)
}

// Exists says whether the group exists: whether there is anything to store of it.
func (s *State) Exists() bool { return s.epoch > 0 || len(s.members) > 0 }

// Epoch is the group epoch; it rises with each change of members, subscriptions or their topics.
func (s *State) Epoch() int32 { return s.epoch }

// TargetEpoch is the epoch that the target assignment was computed for.
func (s *State) TargetEpoch() int32 { return s.targetEpoch }

// Members is the number of members.
func (s *State) Members() int { return len(s.members) }

// Member returns a member.
func (s *State) Member(id string) (*Member, bool) {
	m, ok := s.members[id]
	return m, ok
}

// MemberIDs returns the ids of the members in order.
func (s *State) MemberIDs() []string { return slices.Sorted(maps.Keys(s.members)) }

// StaticMember returns the member with that instance id.
func (s *State) StaticMember(instanceID string) (*Member, bool) {
	id, ok := s.statics[instanceID]
	if !ok || instanceID == "" {
		return nil, false
	}
	return s.members[id], true
}

// Target returns the target assignment of a member. It must not be written to.
func (s *State) Target(memberID string) assignor.Assignment { return s.target[memberID] }

// Owner returns who owns the partition, whether assigned or pending revocation, or "".
func (s *State) Owner(topic model.TopicID, partition int32) string { return s.owners[topic][partition] }

// Subscribed says whether some member is subscribed to the topic, by name or by regular expression.
func (s *State) Subscribed(topic string) bool { return s.names[topic] > 0 }

// countNames replaces the names of a member or an expression in the counts.
func (s *State) countNames(old, now []string) {
	if slices.Equal(old, now) {
		return
	}
	for _, name := range now {
		s.names[name]++
	}
	for _, name := range old {
		if s.names[name]--; s.names[name] == 0 {
			delete(s.names, name)
		}
	}
}

// Changes returns changes that make an empty State like this one. They share memory with it.
func (s *State) Changes() []Change {
	if !s.Exists() {
		return nil
	}
	list := []Change{GroupEpoch{Epoch: s.epoch, MetadataHash: s.metadataHash}}
	ids := s.MemberIDs()
	for _, id := range ids {
		list = append(list, PutMember{s.members[id].Subscription})
	}
	list = append(list, TargetEpoch{Epoch: s.targetEpoch, TimeMillis: s.targetMillis})
	for _, id := range ids {
		if target, ok := s.target[id]; ok {
			list = append(list, TargetAssignment{MemberID: id, Partitions: target})
		}
	}
	for _, id := range ids {
		list = append(list, CurrentAssignment{MemberID: id, Progress: s.members[id].Progress})
	}
	for _, regex := range slices.Sorted(maps.Keys(s.regexes)) {
		list = append(list, PutRegex{Regex: regex, Topics: s.regexes[regex]})
	}
	return list
}

// Equal says whether both are the same group.
func (s *State) Equal(o *State) bool {
	return s.epoch == o.epoch && s.metadataHash == o.metadataHash && s.targetEpoch == o.targetEpoch && s.targetMillis == o.targetMillis &&
		maps.EqualFunc(s.members, o.members, func(a, b *Member) bool {
			return a.Subscription.equal(&b.Subscription) && a.Progress.equal(&b.Progress)
		}) &&
		maps.Equal(s.statics, o.statics) && maps.EqualFunc(s.target, o.target, equalAssignments) &&
		maps.EqualFunc(s.owners, o.owners, func(a, b map[int32]string) bool { return maps.Equal(a, b) }) &&
		maps.EqualFunc(s.regexes, o.regexes, func(a, b []string) bool { return slices.Equal(a, b) }) && maps.Equal(s.names, o.names)
}

func (c GroupEpoch) apply(s *State) error {
	s.epoch, s.metadataHash = c.Epoch, c.MetadataHash
	return nil
}

func (c TargetEpoch) apply(s *State) error {
	s.targetEpoch, s.targetMillis = c.Epoch, c.TimeMillis
	return nil
}

func (c PutMember) apply(s *State) error {
	if id, ok := s.statics[c.InstanceID]; ok && id != c.MemberID {
		return fmt.Errorf("put member %q of instance %q: %w", c.MemberID, c.InstanceID, errTwoStatics)
	}
	m := Member{Subscription: c.Subscription}
	var names []string
	if old := s.members[c.MemberID]; old != nil {
		m.Progress, names = old.Progress, old.Topics
		delete(s.statics, old.InstanceID)
	}
	s.countNames(names, c.Topics)
	s.members[c.MemberID] = &m
	if c.InstanceID != "" {
		s.statics[c.InstanceID] = c.MemberID
	}
	return nil
}

func (c DeleteMember) apply(s *State) error {
	m := s.members[c.MemberID]
	if m == nil {
		return fmt.Errorf("delete member %q: %w", c.MemberID, errNoMember)
	}
	s.release(m)
	s.countNames(m.Topics, nil)
	delete(s.statics, m.InstanceID)
	delete(s.target, c.MemberID)
	delete(s.members, c.MemberID)
	return nil
}

func (c TargetAssignment) apply(s *State) error {
	if s.members[c.MemberID] == nil {
		return fmt.Errorf("target assignment of member %q: %w", c.MemberID, errNoMember)
	}
	s.target[c.MemberID] = c.Partitions
	return nil
}

func (c CurrentAssignment) apply(s *State) error {
	m := s.members[c.MemberID]
	if m == nil {
		return fmt.Errorf("current assignment of member %q: %w", c.MemberID, errNoMember)
	}
	var err error
	check := func(topic model.TopicID, partition, _ int32) {
		if owner := s.owners[topic][partition]; owner != "" && owner != c.MemberID {
			err = fmt.Errorf("assign %v-%d of member %q to member %q: %w", topic, partition, owner, c.MemberID, errTwoOwners)
		}
	}
	c.Assigned.all(check)
	c.Pending.all(check)
	if err != nil {
		return err
	}
	s.release(m)
	next := Member{Subscription: m.Subscription, Progress: c.Progress}
	s.members[c.MemberID] = &next
	claim := func(topic model.TopicID, partition, _ int32) {
		if s.owners[topic] == nil {
			s.owners[topic] = map[int32]string{}
		}
		s.owners[topic][partition] = c.MemberID
	}
	c.Assigned.all(claim)
	c.Pending.all(claim)
	return nil
}

// release takes what the member owns from the index of owners.
func (s *State) release(m *Member) {
	for _, owned := range []Owned{m.Assigned, m.Pending} {
		for topic, partitions := range owned {
			for partition := range partitions {
				delete(s.owners[topic], partition)
			}
			if len(s.owners[topic]) == 0 {
				delete(s.owners, topic)
			}
		}
	}
}

func (c PutRegex) apply(s *State) error {
	s.countNames(s.regexes[c.Regex], c.Topics)
	s.regexes[c.Regex] = c.Topics
	return nil
}

func (c DeleteRegex) apply(s *State) error {
	s.countNames(s.regexes[c.Regex], nil)
	delete(s.regexes, c.Regex)
	return nil
}

func (c DeleteGroup) apply(s *State) error {
	*s = State{}
	return nil
}
