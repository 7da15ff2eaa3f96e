package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/engine/model"
)

// reported is what a request says its member owns; nil: it does not say.
type reported map[model.TopicID][]int32

func (r reported) anyOf(o Owned) bool {
	for topic, partitions := range r {
		for _, p := range partitions {
			if _, ok := o.Has(topic, p); ok {
				return true
			}
		}
	}
	return false
}

func (r reported) within(o Owned) bool {
	for topic, partitions := range r {
		if _, ok := o[topic]; !ok {
			return false
		}
		for _, p := range partitions {
			if _, ok := o.Has(topic, p); !ok {
				return false
			}
		}
	}
	return r != nil
}

// reconcile moves a member towards its target assignment as far as it can go now. subscriptionChanged says
// that topics it is no longer subscribed to must be revoked although there is no new target.
func (g *Group) reconcile(m *Member, owned reported, subscriptionChanged bool, now time.Time) {
	if !subscriptionChanged && m.reconciled(g.state.targetEpoch) {
		return
	}
	next := g.progress(m, owned, subscriptionChanged)
	if next.equal(&m.Progress) {
		return
	}
	g.emit(CurrentAssignment{MemberID: m.MemberID, Progress: next})
	if m.Classic == nil {
		if next.State == UnrevokedPartitions {
			g.startTimer(m.MemberID, timerRevoke, now.Add(m.RebalanceTimeout))
		} else {
			g.stopTimer(m.MemberID, timerRevoke)
		}
	}
}

// checkKnown refuses a member whose stored state this version does not know: it starts again without
// partitions.
func checkKnown(m *Member, owned reported) error {
	if m.State == Unknown && (owned == nil || len(owned) > 0) {
		return refuse(kerr.FencedMemberEpoch, "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.")
	}
	return nil
}

// progress is the member's next step.
func (g *Group) progress(m *Member, owned reported, subscriptionChanged bool) Progress {
	holdsRevoked := func(pending Owned) bool { return owned == nil || owned.anyOf(pending) }
	switch m.State {
	case Stable:
		if m.Epoch != g.state.targetEpoch {
			return g.nextAssignment(m, m.Epoch, holdsRevoked)
		}
		return g.withoutUnsubscribed(m, holdsRevoked)
	case UnrevokedPartitions:
		if holdsRevoked(m.Pending) {
			if subscriptionChanged {
				return g.withoutUnsubscribed(m, holdsRevoked)
			}
			return m.Progress
		}
		// Where the state was entered for a changed subscription, there may be no newer target yet.
		return g.nextAssignment(m, min(m.Epoch+1, g.state.targetEpoch), holdsRevoked)
	case UnreleasedPartitions:
		return g.nextAssignment(m, m.Epoch, holdsRevoked)
	}
	return g.nextAssignment(m, g.state.targetEpoch, holdsRevoked)
}

// nextAssignment compares what the member has with its target: first it must give up what is too much, then
// it is given what nobody else owns any more. epoch is the epoch that it is in while it gives up.
func (g *Group) nextAssignment(m *Member, epoch int32, holdsRevoked func(Owned) bool) Progress {
	s := g.state
	subscribed := g.topicsOf(m)
	kept, pending, added := Owned{}, Owned{}, Owned{}
	waits := false
	target := s.target[m.MemberID]
	wanted := Owned{}
	for topic, partitions := range target {
		if _, ok := subscribed[topic]; !ok {
			continue
		}
		for _, p := range partitions {
			wanted.put(topic, p, s.targetEpoch)
			if _, has := m.Assigned.Has(topic, p); has {
				continue
			}
			// What it has yet to revoke is its own, so it may simply keep it.
			if owner := s.Owner(topic, p); owner != "" && owner != m.MemberID {
				waits = true
			} else {
				added.put(topic, p, s.targetEpoch)
			}
		}
	}
	for topic, partitions := range m.Assigned {
		for p, since := range partitions {
			if _, ok := wanted.Has(topic, p); ok {
				kept.put(topic, p, since)
			} else {
				pending.put(topic, p, since)
			}
		}
	}
	if len(pending) > 0 && holdsRevoked(pending) {
		return Progress{Epoch: epoch, PreviousEpoch: m.Epoch, State: UnrevokedPartitions, Assigned: kept, Pending: pending}
	}
	added.all(kept.put)
	state := Stable
	if waits {
		state = UnreleasedPartitions
	}
	return Progress{Epoch: s.targetEpoch, PreviousEpoch: m.Epoch, State: state, Assigned: kept, Pending: Owned{}}
}

// withoutUnsubscribed takes topics from the member that it is no longer subscribed to.
func (g *Group) withoutUnsubscribed(m *Member, holdsRevoked func(Owned) bool) Progress {
	subscribed := g.topicsOf(m)
	kept, pending := Owned{}, Owned{}
	m.Pending.all(pending.put)
	removed := false
	m.Assigned.all(func(topic model.TopicID, partition, since int32) {
		if _, ok := subscribed[topic]; ok {
			kept.put(topic, partition, since)
			return
		}
		pending.put(topic, partition, since)
		removed = true
	})
	next := m.Progress
	if !removed {
		return next
	}
	next.Assigned = kept
	if holdsRevoked(pending) {
		next.State, next.Pending = UnrevokedPartitions, pending
	}
	return next
}
