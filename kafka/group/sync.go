package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sync answers a SyncGroup request, when the leader has sent the assignment. The assignments in req become the
// group's.
func (c *Coordinator) Sync(now Now, req *kmsg.SyncGroupRequest, reply Reply) {
	c.now = now
	refuse := func(err error) { reply(failedSync(code(err))) }
	g := c.groups[req.Group]
	if req.Group == "" {
		refuse(kerr.InvalidGroupID)
		return
	}
	if other := c.consumers[req.Group]; other != nil {
		c.syncConsumer(other, req, reply)
		return
	}
	if g == nil {
		refuse(kerr.UnknownMemberID)
		return
	}
	m, err := g.validate(req.MemberID, req.InstanceID)
	switch {
	case err != nil:
		refuse(err)
	case req.Generation != g.generation:
		refuse(kerr.IllegalGeneration)
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType || req.Protocol != nil && *req.Protocol != g.protocol:
		refuse(kerr.InconsistentGroupProtocol)
	case g.state == empty:
		refuse(kerr.UnknownMemberID)
	case g.state == preparing:
		refuse(kerr.RebalanceInProgress)
	case g.state == stable:
		delete(g.unsynced, m.id)
		r := g.synced(m)
		c.settle(&g.written, func() { reply(r) }, func() { refuse(kerr.NotCoordinator) })
	default:
		delete(g.unsynced, m.id)
		m.answerSync(failedSync(kerr.RebalanceInProgress.Code)) // of a connection that was given up
		m.sync = reply
		if m.id == g.leader {
			c.assign(g, req.GroupAssignment)
		}
	}
}

// assign takes the leader's assignment: the generation is stable, and all who wait are told their part of it.
func (c *Coordinator) assign(g *classic, list []kmsg.SyncGroupRequestGroupAssignment) {
	total := 0
	for i := range list {
		total += len(list[i].MemberAssignment)
	}
	if total > recordBytesMax || c.metadataBytes+total > metadataBytesMax+recordBytesMax {
		// As with a record that Kafka's log does not take: the assignment fails, and the group tries again.
		c.metrics.Refused++
		for _, m := range g.members {
			m.answerSync(failedSync(kerr.UnknownServerError.Code))
		}
		c.rebalance(g)
		return
	}
	for _, m := range g.members {
		c.setAssignment(m, nil)
	}
	for i := range list {
		if m := g.byID[list[i].MemberID]; m != nil {
			c.setAssignment(m, list[i].MemberAssignment)
		}
	}
	c.transition(g, stable)
	c.keep(g)
	for _, m := range g.members {
		if m.sync == nil {
			continue
		}
		reply, r := m.sync, g.synced(m)
		m.sync = nil
		c.armSession(g, m, m.sessionTimeout)
		c.settle(&g.written, func() { reply(r) }, func() { reply(failedSync(kerr.NotCoordinator.Code)) })
	}
}

func (c *Coordinator) setAssignment(m *member, b []byte) {
	c.metadataBytes += len(b) - len(m.assignment)
	m.assignment = b
}

// expireSyncs removes the members of a generation that never asked for their assignment.
func (c *Coordinator) expireSyncs(g *classic, generation int32) {
	if g.generation != generation || g.state != completing && g.state != stable || len(g.unsynced) == 0 {
		return
	}
	for _, m := range append([]*member(nil), g.members...) {
		if g.unsynced[m.id] {
			c.metrics.MembersExpired++
			c.dropMember(g, m)
		}
	}
	c.rebalance(g)
}

// synced is the answer that gives m its assignment.
func (g *classic) synced(m *member) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.ProtocolType, r.Protocol = kmsg.StringPtr(g.protocolType), kmsg.StringPtr(g.protocol)
	r.MemberAssignment = m.assignment
	return r
}

func failedSync(code int16) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.ErrorCode = code
	return r
}
