package consumer

import (
	"maps"
	"slices"
	"time"

	"millrace/engine/model"
	"millrace/kafka/group/assignor"
)

// assignorName is the assignor that most members ask for, of several the first by name, or the default.
func (g *Group) assignorName() string {
	votes := map[string]int{}
	for _, m := range g.state.members {
		if m.Assignor != "" {
			votes[m.Assignor]++
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(votes)) {
		if _, ok := assignor.ByName(name); ok && (best == "" || votes[name] > votes[best]) {
			best = name
		}
	}
	if best == "" {
		return g.defaultAssignor()
	}
	return best
}

// updateTarget computes the target assignment where the group has moved on from the last one.
func (g *Group) updateTarget(now time.Time) {
	s := g.state
	if s.epoch <= s.targetEpoch {
		return
	}
	// A clock that was set back must not stop assignments.
	since := now.UnixMilli() - s.targetMillis
	if s.targetMillis != 0 && since >= 0 && since < g.opts.Config.AssignmentInterval.Milliseconds() {
		return
	}
	assign, ok := assignor.ByName(g.assignorName())
	if !ok {
		assign = assignor.Uniform
	}
	ids := s.MemberIDs()
	members := make([]assignor.Member, len(ids))
	known := map[model.TopicID]assignor.Topic{}
	for i, id := range ids {
		m := s.members[id]
		members[i] = assignor.Member{ID: id, InstanceID: m.InstanceID, Previous: s.target[id], Topics: sortedIDs(g.topicsOf(m))}
		for _, topic := range members[i].Topics {
			if _, ok := known[topic]; !ok {
				t, _ := g.opts.Topics.TopicByID(topic)
				known[topic] = assignor.Topic{ID: topic, Partitions: t.Partitions}
			}
		}
	}
	for i, a := range assign(members, slices.Collect(maps.Values(known))) {
		if old, ok := s.target[ids[i]]; !ok || !equalAssignments(old, a) {
			g.emit(TargetAssignment{MemberID: ids[i], Partitions: a})
		}
	}
	g.emit(TargetEpoch{Epoch: s.epoch, TimeMillis: now.UnixMilli()})
}
