package consumer

import "time"

// timerKind is what a member has time for.
type timerKind uint8

const (
	timerSession timerKind = iota // to be heard of
	timerRevoke                   // to give up partitions, for a member of the consumer protocol
	timerJoin                     // to rejoin, for a classic member that was told to
	timerSync                     // to sync after its join, for a classic member
	timerKinds
)

// timers are when the times of one member end; zero: they do not.
type timers [timerKinds]time.Time

func (g *Group) startTimer(memberID string, kind timerKind, end time.Time) {
	t := g.timers[memberID]
	if t == nil {
		t = &timers{}
		g.timers[memberID] = t
	}
	t[kind] = end
	if g.next.IsZero() || end.Before(g.next) {
		g.next = end
	}
}

func (g *Group) startTimerIfAbsent(memberID string, kind timerKind, end time.Time) {
	if t := g.timers[memberID]; t == nil || t[kind].IsZero() {
		g.startTimer(memberID, kind, end)
	}
}

func (g *Group) stopTimer(memberID string, kind timerKind) {
	if t := g.timers[memberID]; t != nil {
		t[kind] = time.Time{}
	}
}

func (g *Group) startSession(m *Member, now time.Time) {
	timeout := g.opts.Config.SessionTimeout
	if m.Classic != nil {
		timeout = m.Classic.SessionTimeout
	}
	g.startTimer(m.MemberID, timerSession, now.Add(timeout))
}

// Deadline is when Expire must be called at the latest; false: no timer runs. It may be earlier than the end
// of any timer, but not later.
func (g *Group) Deadline() (time.Time, bool) { return g.next, !g.next.IsZero() }

// Expire removes the members whose time is up. It is cheap before the Deadline. The cost is one look at each
// member otherwise, which heartbeats postpone by a session timeout at a time.
func (g *Group) Expire(now time.Time) Outcome {
	if g.next.IsZero() || now.Before(g.next) {
		return Outcome{}
	}
	var late []*Member
	g.next = time.Time{}
	for id, t := range g.timers {
		over := false
		for _, end := range t {
			switch {
			case end.IsZero():
			case !end.After(now):
				over = true
			case g.next.IsZero() || end.Before(g.next):
				g.next = end
			}
		}
		if over {
			late = append(late, g.state.members[id])
		}
	}
	if len(late) == 0 {
		return Outcome{}
	}
	return g.remove(late, now)
}
