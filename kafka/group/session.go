package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// armSession gives m a time by which it must be heard of again.
func (c *Coordinator) armSession(g *classic, m *member, d time.Duration) {
	c.timers.set(&m.session, c.now.Monotonic+d, func() {
		// Who waits for the group cannot send heartbeats meanwhile; a fresh member has waited long enough.
		if !m.fresh && (m.join != nil || m.sync != nil) {
			return
		}
		c.metrics.MembersExpired++
		c.remove(g, m)
	})
}

// remove takes a member out, and lets the others divide its part.
func (c *Coordinator) remove(g *classic, m *member) {
	c.dropMember(g, m)
	switch g.state {
	case stable, completing:
		c.rebalance(g)
	case preparing:
		c.completeWhenAllJoined(g)
	}
}

// Heartbeat answers a Heartbeat request.
func (c *Coordinator) Heartbeat(now Now, req *kmsg.HeartbeatRequest, reply Reply) {
	c.now = now
	answer := func(code int16) {
		r := kmsg.NewPtrHeartbeatResponse()
		r.ErrorCode = code
		reply(r)
	}
	if other := c.consumers[req.Group]; other != nil {
		c.heartbeatConsumer(other, req, answer)
		return
	}
	answer(code(c.heartbeat(req)))
}

func (c *Coordinator) heartbeat(req *kmsg.HeartbeatRequest) error {
	if req.Group == "" {
		return kerr.InvalidGroupID
	}
	g := c.groups[req.Group]
	if g == nil {
		return kerr.UnknownMemberID
	}
	m, err := g.validate(req.MemberID, req.InstanceID)
	switch {
	case err != nil:
		return err
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	case g.state == empty:
		return kerr.UnknownMemberID
	}
	c.armSession(g, m, m.sessionTimeout)
	if g.state == preparing {
		return kerr.RebalanceInProgress
	}
	return nil
}

// Leave answers a LeaveGroup request, each member apart from v3 on.
func (c *Coordinator) Leave(now Now, req *kmsg.LeaveGroupRequest, reply Reply) {
	c.now = now
	r := kmsg.NewPtrLeaveGroupResponse()
	if req.Group == "" {
		r.ErrorCode = kerr.InvalidGroupID.Code
		reply(r)
		return
	}
	if other := c.consumers[req.Group]; other != nil {
		c.leaveConsumer(other, req, reply)
		return
	}
	g := c.groups[req.Group]
	if req.Version < 3 {
		r.ErrorCode = code(c.leave(g, req.MemberID, nil))
		reply(r)
		return
	}
	for i := range req.Members {
		in := &req.Members[i]
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID = in.MemberID, in.InstanceID
		out.ErrorCode = code(c.leave(g, in.MemberID, in.InstanceID))
		r.Members = append(r.Members, out)
	}
	reply(r)
}

func (c *Coordinator) leave(g *classic, id string, instance *string) error {
	if g == nil {
		return kerr.UnknownMemberID
	}
	if g.pending[id] != nil && instance == nil {
		c.dropPending(g, id)
		c.completeWhenAllJoined(g)
		return nil
	}
	m, err := g.byInstance[text(instance)], error(nil)
	if instance == nil || id != "" || m == nil {
		if m, err = g.validate(id, instance); err != nil {
			return err
		}
	}
	c.remove(g, m)
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
