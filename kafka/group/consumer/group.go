package consumer

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/kafka/group/assignor"
)

// Group is one consumer group: a State with its timers.
type Group struct {
	id     string
	opts   Options
	state  *State
	timers map[string]*timers // by member
	next   time.Time          // no timer ends before it; zero: no timer runs

	refreshAt   time.Time // when the topics of the subscriptions are looked at again; zero: at the next heartbeat
	regexAt     time.Time // when the expressions were resolved last
	topicsMoved bool      // topics changed since then
	changes     []Change  // of the operation under way
}

// Outcome is what an operation did beside its reply.
type Outcome struct {
	// Changes are to be made durable, in order and together; none: nothing durable changed, and the reply need
	// not wait.
	Changes []Change
	// Removed are the members that the operation or a timer took from the group, in no order.
	Removed []string
	// Classic is set where the group ended and a classic group takes its place. The Changes end with
	// DeleteGroup then, and the Group must not be used any more.
	Classic *ClassicGroup
}

// New makes a group of what was stored of it; nil or an empty State makes one without members. The State is
// copied. Every member has a new session from now on, and those who must revoke partitions have their
// rebalance timeout for it.
func New(id string, opts Options, stored *State, now time.Time) *Group {
	g := &Group{id: id, opts: opts, state: &State{}, timers: map[string]*timers{}}
	if stored != nil {
		for _, c := range stored.Changes() {
			g.must(g.state.Apply(c))
		}
	}
	for id, m := range g.state.members {
		g.startSession(m, now)
		if m.State == UnrevokedPartitions && m.Classic == nil {
			g.startTimer(id, timerRevoke, now.Add(m.RebalanceTimeout))
		}
	}
	return g
}

// ID is the group id.
func (g *Group) ID() string { return g.id }

// State is the group's durable side, to read; it changes with the group.
func (g *Group) State() *State { return g.state }

// Config is the group's configuration.
func (g *Group) Config() Config { return g.opts.Config }

// SetConfig replaces the configuration. It holds from the next operation on: running sessions keep the
// timeout they started with.
func (g *Group) SetConfig(c Config) { g.opts.Config = c }

// MemberCount returns the number of members.
func (g *Group) MemberCount() int { return len(g.state.members) }

// IsEmpty says whether the group has no member.
func (g *Group) IsEmpty() bool { return len(g.state.members) == 0 }

// What Phase returns: the states as clients see them.
const (
	PhaseEmpty       = "Empty"
	PhaseAssigning   = "Assigning"
	PhaseReconciling = "Reconciling"
	PhaseStable      = "Stable"
)

// Phases returns all that Phase can return.
func Phases() []string {
	return []string{PhaseEmpty, PhaseAssigning, PhaseReconciling, PhaseStable}
}

// Phase is the name of the group's state.
func (g *Group) Phase() string {
	s := g.state
	if len(s.members) == 0 {
		return PhaseEmpty
	}
	if s.epoch > s.targetEpoch {
		return PhaseAssigning
	}
	for _, m := range s.members {
		if !m.reconciled(s.targetEpoch) {
			return PhaseReconciling
		}
	}
	return PhaseStable
}

// Delete removes the group, which must be empty, and returns the change that does so. Changes for the
// offsets of the group are the caller's.
func (g *Group) Delete() []Change {
	if !g.IsEmpty() {
		panic("consumer: a group with members is deleted")
	}
	if !g.state.Exists() {
		return nil
	}
	g.emit(DeleteGroup{})
	return g.finish().Changes
}

// ValidateDelete reports NON_EMPTY_GROUP where DeleteGroups must refuse the group.
func (g *Group) ValidateDelete() error {
	if !g.IsEmpty() {
		return refuse(kerr.NonEmptyGroup, "The group is not empty.")
	}
	return nil
}

// TopicsChanged tells that topics were created or deleted, or grew. The next heartbeat of a member looks at
// the subscriptions again.
func (g *Group) TopicsChanged() {
	g.refreshAt, g.topicsMoved = time.Time{}, true
}

// emit applies a change and adds it to those of the operation.
func (g *Group) emit(c Change) {
	g.must(g.state.Apply(c))
	g.changes = append(g.changes, c)
}

func (g *Group) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("consumer: group %q: %v", g.id, err))
	}
}

// finish ends an operation.
func (g *Group) finish() Outcome {
	o := Outcome{Changes: g.changes}
	g.changes = nil
	return o
}

func (g *Group) defaultAssignor() string {
	if len(g.opts.Config.Assignors) == 0 {
		return assignor.NameUniform
	}
	return g.opts.Config.Assignors[0]
}
