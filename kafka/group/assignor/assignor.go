package assignor

import (
	"cmp"
	"slices"
	"strings"

	"millrace/engine/model"
)

// Names of the assignors on the wire.
const (
	NameUniform = "uniform"
	NameRange   = "range"
)

// Assignment is the partitions of one member by topic, each list ascending and without duplicates. A topic
// with no partition has no entry.
type Assignment map[model.TopicID][]int32

// Member is what an assignor knows of one member.
type Member struct {
	ID         string          // unique in the group
	InstanceID string          // of a static member, else empty
	Topics     []model.TopicID // subscribed, without duplicates, in any order
	Previous   Assignment      // what it was given last time, which may have been overtaken in any way
}

// Topic is a subscribed topic that exists.
type Topic struct {
	ID         model.TopicID
	Partitions int32
}

// Func divides the partitions of topics among members. The result is parallel to members. Topics that a
// member names and topics does not list get no partition. The result belongs to the caller; the input is
// only read.
type Func func(members []Member, topics []Topic) []Assignment

// ByName returns the assignor of that name.
func ByName(name string) (Func, bool) {
	switch name {
	case NameUniform:
		return Uniform, true
	case NameRange:
		return Range, true
	}
	return nil, false
}

// Range is the range assignor: of each topic, its members in order take ranges of equal length, the first
// ones one longer where the count does not divide. Static members come first, by instance id, so that a
// restart with a new member id changes nothing; the others follow by member id.
func Range(members []Member, topics []Topic) []Assignment {
	p := newPlan(members, topics, func(a, b Member) int {
		switch {
		case a.InstanceID != "" && b.InstanceID != "":
			return strings.Compare(a.InstanceID, b.InstanceID)
		case a.InstanceID != "":
			return -1
		case b.InstanceID != "":
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	for t := range p.topics {
		topic := &p.topics[t]
		if len(topic.members) == 0 {
			continue
		}
		each, extra := len(topic.owners)/len(topic.members), len(topic.owners)%len(topic.members)
		next := 0
		for i, m := range topic.members {
			n := each
			if i < extra {
				n++
			}
			for range n {
				topic.owners[next] = m
				next++
			}
		}
	}
	return p.result()
}

// plan is an assignment in the making. Members are numbers in it: their rank in the order that the assignor
// asked for.
type plan struct {
	members []Member
	ranks   []int32 // of the caller's members
	topics  []planTopic
	loads   []int32 // partitions of each member; kept by take and give
	whole   int     // partitions of all topics that have a member
}

type planTopic struct {
	id      model.TopicID
	members []int32 // subscribed, ascending
	owners  []int32 // by partition; nobody where it has none
}

const nobody = int32(-1)

func newPlan(members []Member, topics []Topic, order func(a, b Member) int) *plan {
	p := &plan{members: slices.Clone(members), ranks: make([]int32, len(members)), loads: make([]int32, len(members))}
	slices.SortStableFunc(p.members, order)
	rankOf := make(map[string]int32, len(members))
	for rank := range p.members {
		rankOf[p.members[rank].ID] = int32(rank)
	}
	for i := range members {
		p.ranks[i] = rankOf[members[i].ID]
	}
	ordered := slices.SortedFunc(slices.Values(topics), func(a, b Topic) int { return slices.Compare(a.ID[:], b.ID[:]) })
	index := make(map[model.TopicID]int, len(topics))
	p.topics = make([]planTopic, len(ordered))
	for t, topic := range ordered {
		index[topic.ID] = t
		owners := make([]int32, max(topic.Partitions, 0))
		for i := range owners {
			owners[i] = nobody
		}
		p.topics[t] = planTopic{id: topic.ID, owners: owners}
	}
	for rank := range p.members {
		for _, id := range p.members[rank].Topics {
			if t, ok := index[id]; ok {
				p.topics[t].members = append(p.topics[t].members, int32(rank))
			}
		}
	}
	for t := range p.topics {
		if len(p.topics[t].members) > 0 {
			p.whole += len(p.topics[t].owners)
		}
	}
	return p
}

// keep gives every member what it had, where it is still subscribed, the partition exists and no other
// member claims it too: then the first in order keeps it.
func (p *plan) keep() {
	index := make(map[model.TopicID]int, len(p.topics))
	for t := range p.topics {
		index[p.topics[t].id] = t
	}
	for rank := range p.members {
		for id, partitions := range p.members[rank].Previous {
			t, ok := index[id]
			if !ok {
				continue
			}
			topic := &p.topics[t]
			if _, subscribed := slices.BinarySearch(topic.members, int32(rank)); !subscribed {
				continue
			}
			for _, partition := range partitions {
				if partition >= 0 && int(partition) < len(topic.owners) && topic.owners[partition] == nobody {
					topic.owners[partition] = int32(rank)
					p.loads[rank]++
				}
			}
		}
	}
}

// result is the plan as assignments in the order of the caller's members.
func (p *plan) result() []Assignment {
	byRank := make([]Assignment, len(p.members))
	for rank := range byRank {
		byRank[rank] = Assignment{}
	}
	for t := range p.topics {
		topic := &p.topics[t]
		for partition, m := range topic.owners {
			if m != nobody {
				byRank[m][topic.id] = append(byRank[m][topic.id], int32(partition))
			}
		}
	}
	out := make([]Assignment, len(p.members))
	for i, rank := range p.ranks {
		out[i] = byRank[rank]
	}
	return out
}

func byID(a, b Member) int { return cmp.Compare(a.ID, b.ID) }
