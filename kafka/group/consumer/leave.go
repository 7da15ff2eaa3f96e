package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leave answers a heartbeat with epoch -1 or -2. A static member that goes with -2 keeps its place until its
// session ends: only what it was to revoke is free at once.
func (g *Group) leave(now time.Time, req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, Outcome, error) {
	m := g.state.members[req.MemberID]
	if req.InstanceID == nil {
		if m == nil {
			return nil, Outcome{}, refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", req.MemberID, g.id)
		}
	} else {
		holder, ok := g.state.StaticMember(*req.InstanceID)
		if !ok {
			return nil, Outcome{}, refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", *req.InstanceID)
		}
		if err := checkInstance(holder, req.MemberID); err != nil {
			return nil, Outcome{}, err
		}
		m = holder
	}
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.Version = req.Version
	resp.MemberID, resp.MemberEpoch = kmsg.StringPtr(req.MemberID), req.MemberEpoch
	if req.MemberEpoch == epochLeave {
		return resp, g.remove([]*Member{m}, now), nil
	}
	away := m.Progress
	away.Epoch, away.Pending = epochLeaveStatic, Owned{}
	if !away.equal(&m.Progress) {
		g.emit(CurrentAssignment{MemberID: m.MemberID, Progress: away})
	}
	g.stopTimer(m.MemberID, timerRevoke)
	return resp, g.finish(), nil
}

// remove takes members from the group: the group becomes a classic one, or its epoch rises.
func (g *Group) remove(list []*Member, now time.Time) Outcome {
	removed := make([]string, len(list))
	gone := map[string]bool{}
	for i, m := range list {
		removed[i] = m.MemberID
		gone[m.MemberID] = true
	}
	if classic := g.downgrade(gone); classic != nil {
		o := g.end(classic)
		o.Removed = removed
		return o
	}
	for _, id := range removed {
		g.emit(DeleteMember{MemberID: id})
		delete(g.timers, id)
	}
	g.dropRegexes(g.usedRegexes())
	g.emit(GroupEpoch{Epoch: g.state.epoch + 1, MetadataHash: g.hashTopics()})
	if g.IsEmpty() {
		// Nothing is left to assign, so an empty group is not behind.
		g.emit(TargetEpoch{Epoch: g.state.epoch})
	}
	o := g.finish()
	o.Removed = removed
	return o
}
