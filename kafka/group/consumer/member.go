package consumer

import (
	"maps"
	"slices"
	"time"

	"millrace/engine/model"
	"millrace/kafka/group/assignor"
)

// MemberState is where a member is on its way to its target assignment.
type MemberState uint8

// The states. Their numbers stand in the durable form.
const (
	Stable               MemberState = iota // has its assignment of its epoch
	UnrevokedPartitions                     // must give up partitions first
	UnreleasedPartitions                    // waits for partitions that others give up
	Unknown                                 // written by a version that knows more states
)

// String returns the state's name.
func (s MemberState) String() string {
	return [...]string{"Stable", "UnrevokedPartitions", "UnreleasedPartitions", "Unknown"}[min(s, Unknown)]
}

// The member epochs that are no numbers of an assignment.
const (
	epochJoin        int32 = 0
	epochLeave       int32 = -1
	epochLeaveStatic int32 = -2
)

// Owned is partitions with the epoch at which each was assigned to its member.
type Owned map[model.TopicID]map[int32]int32

// Has says whether the partition is in it, and since which epoch.
func (o Owned) Has(topic model.TopicID, partition int32) (epoch int32, ok bool) {
	epoch, ok = o[topic][partition]
	return epoch, ok
}

func (o Owned) put(topic model.TopicID, partition, epoch int32) {
	if o[topic] == nil {
		o[topic] = map[int32]int32{}
	}
	o[topic][partition] = epoch
}

// all calls f for every partition, in no order.
func (o Owned) all(f func(topic model.TopicID, partition, epoch int32)) {
	for id, partitions := range o {
		for p, epoch := range partitions {
			f(id, p, epoch)
		}
	}
}

// each calls f for every partition, in order.
func (o Owned) each(f func(topic model.TopicID, partition, epoch int32)) {
	for _, id := range sortedIDs(o) {
		for _, p := range slices.Sorted(maps.Keys(o[id])) {
			f(id, p, o[id][p])
		}
	}
}

func (o Owned) equal(other Owned) bool {
	return maps.EqualFunc(o, other, func(a, b map[int32]int32) bool { return maps.Equal(a, b) })
}

// same says whether both hold the same partitions, whatever their epochs.
func (o Owned) same(other Owned) bool {
	return maps.EqualFunc(o, other, func(a, b map[int32]int32) bool {
		return maps.EqualFunc(a, b, func(int32, int32) bool { return true })
	})
}

func sortedIDs[V any](m map[model.TopicID]V) []model.TopicID {
	return slices.SortedFunc(maps.Keys(m), func(a, b model.TopicID) int { return slices.Compare(a[:], b[:]) })
}

func equalAssignments(a, b assignor.Assignment) bool {
	return maps.EqualFunc(a, b, func(x, y []int32) bool { return slices.Equal(x, y) })
}

// Protocol is a protocol that a classic member supports, with its metadata for it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// ClassicMember is what makes a member one of the classic protocol.
type ClassicMember struct {
	SessionTimeout time.Duration // whole milliseconds
	Protocols      []Protocol    // in the member's order of preference; at least one
}

func (c *ClassicMember) equal(other *ClassicMember) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.SessionTimeout == other.SessionTimeout && slices.EqualFunc(c.Protocols, other.Protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && slices.Equal(a.Metadata, b.Metadata)
	})
}

// Subscription is what a member said of itself.
type Subscription struct {
	MemberID         string
	InstanceID       string // empty: not static
	RackID           string
	ClientID         string
	ClientHost       string
	RebalanceTimeout time.Duration // whole milliseconds
	Topics           []string      // ascending, without duplicates
	Regex            string        // empty: none
	Assignor         string        // empty: whatever the group uses
	Classic          *ClassicMember
}

func (s *Subscription) equal(o *Subscription) bool {
	return s.MemberID == o.MemberID && s.InstanceID == o.InstanceID && s.RackID == o.RackID && s.ClientID == o.ClientID &&
		s.ClientHost == o.ClientHost && s.RebalanceTimeout == o.RebalanceTimeout && slices.Equal(s.Topics, o.Topics) &&
		s.Regex == o.Regex && s.Assignor == o.Assignor && s.Classic.equal(o.Classic)
}

// Progress is how far a member is with its assignment.
type Progress struct {
	Epoch         int32 // -2: a static member that is away
	PreviousEpoch int32
	State         MemberState
	Assigned      Owned // what it may use
	Pending       Owned // what it was told to revoke; still its own
}

func (p *Progress) equal(o *Progress) bool {
	return p.Epoch == o.Epoch && p.PreviousEpoch == o.PreviousEpoch && p.State == o.State && p.Assigned.equal(o.Assigned) && p.Pending.equal(o.Pending)
}

// all is what the member owns, with what it has yet to revoke.
func (p *Progress) all() Owned {
	o := Owned{}
	p.Assigned.all(o.put)
	p.Pending.all(o.put)
	return o
}

// Member is one member. A Member that State hands out is not changed any more: the next change replaces it.
type Member struct {
	Subscription
	Progress
}

// reconciled says whether the member has what the target assignment of that epoch gives it.
func (m *Member) reconciled(epoch int32) bool { return m.State == Stable && m.Epoch == epoch }
