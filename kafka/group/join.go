package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// freshTimeout is how long a member is kept that has not seen an answer to its first Join: it has no id yet to
// send heartbeats with, and where its connection broke it comes again as another one.
const freshTimeout = 5 * time.Minute

// joining is a Join on its way.
type joining struct {
	req       *kmsg.JoinGroupRequest
	client    Client
	protocols []protocol
	reply     Reply
}

// Join answers a JoinGroup request, when the generation begins. The metadata in req becomes the group's.
func (c *Coordinator) Join(now Now, req *kmsg.JoinGroupRequest, client Client, reply Reply) {
	c.now = now
	j := &joining{req: req, client: client, reply: reply}
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	g, other := c.groups[req.Group], c.consumers[req.Group]
	switch {
	case req.Group == "":
		j.refuse(kerr.InvalidGroupID)
		return
	case session < c.o.SessionTimeoutMin || session > c.o.SessionTimeoutMax:
		j.refuse(kerr.InvalidSessionTimeout)
		return
	case other != nil && !other.IsEmpty() && c.admitsClassic(other, j):
		c.joinConsumer(other, j)
		return
	case g == nil && req.MemberID != "":
		j.refuse(kerr.UnknownMemberID)
		return
	case other != nil && !other.IsEmpty() || !c.admits(g, j):
		c.metrics.Refused++
		j.refuse(kerr.GroupMaxSizeReached)
		return
	case other != nil && (req.ProtocolType == "" || len(req.Protocols) == 0):
		j.refuse(kerr.InconsistentGroupProtocol)
		return
	}
	if other != nil {
		c.endConsumer(other)
	}
	if g == nil {
		g = c.newGroup(req.Group)
	}
	for _, p := range req.Protocols {
		j.protocols = append(j.protocols, protocol{p.Name, p.Metadata})
	}
	if !g.supports(req.ProtocolType, j.protocols) {
		j.refuse(kerr.InconsistentGroupProtocol)
		c.forgetUnused(g)
		return
	}
	if req.MemberID == "" {
		c.joinNew(g, j)
	} else {
		c.joinKnown(g, j)
	}
}

// forgetUnused drops a group that only a refused request has made.
func (c *Coordinator) forgetUnused(g *classic) {
	if g.generation == 0 && len(g.members) == 0 && len(g.pending) == 0 && g.state == empty && g.changed == 0 && !c.store.has(g.id) {
		c.forget(g)
	}
}

// size is what one that joins says of itself.
func (j *joining) size() int {
	size := len(j.req.MemberID) + len(text(j.req.InstanceID)) + len(j.client.ID)
	for i := range j.req.Protocols {
		size += len(j.req.Protocols[i].Name) + len(j.req.Protocols[i].Metadata)
	}
	return size
}

// admits tells whether there is room for one that joins g.
func (c *Coordinator) admits(g *classic, j *joining) bool {
	size := j.size()
	if c.metadataBytes+size > metadataBytesMax || g.said(j.req.MemberID)+size > recordBytesMax {
		return false
	}
	if g != nil && g.byID[j.req.MemberID] != nil {
		return g.state != preparing || g.byID[j.req.MemberID].join != nil || g.joining() < c.o.MembersMax
	}
	if c.members >= membersMax {
		return false
	}
	if g == nil {
		return c.groupCount() < groupsMax
	}
	waits := g.pending[j.req.MemberID] != nil // has its place already
	return waits || len(g.pending) < c.o.MembersMax && (g.state == empty || len(g.members) < c.o.MembersMax)
}

// said counts what the members say of themselves, all but one: their part of the group's durable state.
func (g *classic) said(but string) int {
	if g == nil {
		return 0
	}
	n := 0
	for _, m := range g.members {
		if m.id != but {
			n += len(m.id) + len(m.instance) + len(m.clientID) + m.bytes() - len(m.assignment)
		}
	}
	return n
}

func (j *joining) refuse(err error) { j.reply(failedJoin(j.req.MemberID, code(err))) }

func failedJoin(id string, code int16) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.ErrorCode, r.MemberID, r.Generation = code, id, -1
	return r
}

func (c *Coordinator) joinNew(g *classic, j *joining) {
	req := j.req
	if req.InstanceID != nil {
		id := *req.InstanceID + "-" + c.o.NewID()
		if old := g.byInstance[*req.InstanceID]; old != nil {
			c.replaceStatic(g, old, id, j)
		} else {
			c.join(g, id, j)
		}
		return
	}
	id := j.client.ID + "-" + c.o.NewID()
	if req.Version < 4 {
		c.join(g, id, j)
		return
	}
	e := &timer{}
	g.pending[id] = e
	c.members++
	c.timers.set(e, c.now.Monotonic+time.Duration(req.SessionTimeoutMillis)*time.Millisecond, func() {
		c.dropPending(g, id)
		c.completeWhenAllJoined(g)
		c.forgetUnused(g)
	})
	j.reply(failedJoin(id, kerr.MemberIDRequired.Code))
}

func (c *Coordinator) joinKnown(g *classic, j *joining) {
	req := j.req
	if g.pending[req.MemberID] != nil && req.InstanceID == nil {
		c.dropPending(g, req.MemberID)
		c.join(g, req.MemberID, j)
		return
	}
	m, err := g.validate(req.MemberID, req.InstanceID)
	if err != nil {
		j.refuse(err)
		return
	}
	switch {
	case g.state == preparing,
		g.state == completing && !m.matches(j.protocols),
		g.state == stable && (g.leader == m.id || !m.matches(j.protocols)):
		c.rejoin(g, m, j)
	case g.state == completing || g.state == stable:
		// Its answer got lost: it is told again what it was told.
		c.armSession(g, m, m.sessionTimeout)
		r := g.joined(m)
		c.settle(&g.written, func() { j.reply(r) }, j.lost)
	default:
		j.refuse(kerr.UnknownMemberID)
	}
}

func (j *joining) lost() { j.refuse(kerr.NotCoordinator) }

// join adds a member.
func (c *Coordinator) join(g *classic, id string, j *joining) {
	m := &member{id: id, clientID: j.client.ID, host: j.client.Host, fresh: true, protocols: j.protocols}
	if j.req.InstanceID != nil {
		m.instance = *j.req.InstanceID
	}
	m.adopt(j)
	if g.state == preparing && g.generation == 0 {
		g.added = true
	}
	if len(g.members) == 0 {
		g.protocolType = j.req.ProtocolType
	}
	c.addMember(g, m)
	c.armSession(g, m, freshTimeout)
	c.rebalance(g)
}

// adopt takes over what a Join says of its member, but for the protocols.
func (m *member) adopt(j *joining) {
	m.sessionTimeout = time.Duration(j.req.SessionTimeoutMillis) * time.Millisecond
	m.rebalanceTimeout = time.Duration(j.req.RebalanceTimeoutMillis) * time.Millisecond
	if j.req.Version < 1 {
		m.rebalanceTimeout = m.sessionTimeout
	}
	m.answerJoin(failedJoin(m.id, kerr.RebalanceInProgress.Code)) // of a connection that was given up
	m.join = j.reply
}

// rejoin lets a member join again.
func (c *Coordinator) rejoin(g *classic, m *member, j *joining) {
	c.setProtocols(m, j.protocols)
	m.adopt(j)
	c.rebalance(g)
}

func (c *Coordinator) setProtocols(m *member, list []protocol) {
	c.metadataBytes -= m.bytes()
	m.protocols = list
	c.metadataBytes += m.bytes()
}

// replaceStatic puts a static member that came back without its id into the place of its former self (KIP-345).
func (c *Coordinator) replaceStatic(g *classic, old *member, id string, j *joining) {
	leader := g.leader
	old.answerJoin(failedJoin(old.id, kerr.FencedInstanceID.Code))
	old.answerSync(failedSync(kerr.FencedInstanceID.Code))
	delete(g.byID, old.id)
	if g.unsynced[old.id] {
		delete(g.unsynced, old.id)
		g.unsynced[id] = true
	}
	if g.leader == old.id {
		g.leader = id
	}
	old.id, old.clientID, old.host = id, j.client.ID, j.client.Host
	g.byID[id] = old
	c.setProtocols(old, j.protocols)
	old.adopt(j)
	c.armSession(g, old, old.sessionTimeout)
	if g.state != stable || g.choose() != g.protocol {
		c.rebalance(g)
		return
	}
	// Nothing changes for the others. Kafka tells a leader before v9 the id it had, so that it does not assign.
	c.keep(g)
	g.subscribed = g.subscriptions()
	r := g.joined(old)
	if r.LeaderID == id && j.req.Version < 9 {
		r.LeaderID, r.Members = leader, nil
	}
	r.SkipAssignment = r.LeaderID == id && j.req.Version >= 9
	reply := old.join
	old.join = nil
	c.settle(&g.written, func() { reply(r) }, func() { reply(failedJoin(id, kerr.NotCoordinator.Code)) })
}

// rebalance begins a new generation, or ends its join where all are there.
func (c *Coordinator) rebalance(g *classic) {
	if g.state == preparing {
		c.completeWhenAllJoined(g)
		return
	}
	c.metrics.Rebalances++
	if g.state == completing {
		for _, m := range g.members {
			c.setAssignment(m, nil)
			if m.sync != nil {
				m.answerSync(failedSync(kerr.RebalanceInProgress.Code))
				c.armSession(g, m, m.sessionTimeout)
			}
		}
	}
	c.timers.stop(&g.syncs)
	clear(g.unsynced)
	initial := g.state == empty
	c.transition(g, preparing)
	if initial {
		g.added = false
		c.delayInitial(g, c.o.InitialDelay, max(g.rebalanceTimeout()-c.o.InitialDelay, 0))
		return
	}
	c.timers.set(&g.rebalance, c.now.Monotonic+g.rebalanceTimeout(), func() { c.completeJoin(g) })
	c.completeWhenAllJoined(g)
}

// delayInitial lets the first generation wait for others to come, and again while some do, for no longer than a
// rebalance may take (KIP-134).
func (c *Coordinator) delayInitial(g *classic, delay, left time.Duration) {
	c.timers.set(&g.rebalance, c.now.Monotonic+delay, func() {
		if g.added && left > 0 {
			g.added = false
			c.delayInitial(g, min(c.o.InitialDelay, left), max(left-delay, 0))
			return
		}
		c.completeJoin(g)
	})
}

// completeWhenAllJoined ends the join early, but not that of the first generation.
func (c *Coordinator) completeWhenAllJoined(g *classic) {
	if g.state == preparing && g.generation != 0 && g.complete() {
		c.completeJoin(g)
	}
}

// completeJoin begins the generation with those who have joined. The others are out, but for static members.
func (c *Coordinator) completeJoin(g *classic) {
	c.timers.stop(&g.rebalance)
	for _, m := range slices.Clone(g.members) {
		if m.join == nil && m.instance == "" {
			c.dropMember(g, m)
		}
	}
	if len(g.members) > 0 && !g.elect() {
		// Only static members are left, and all of them away: their sessions decide.
		c.timers.set(&g.rebalance, c.now.Monotonic+g.rebalanceTimeout(), func() { c.completeJoin(g) })
		return
	}
	g.generation++
	clear(g.unsynced)
	if len(g.members) == 0 {
		c.emptied(g)
		return
	}
	g.protocol = g.choose()
	g.subscribed = g.subscriptions()
	c.transition(g, completing)
	c.emit(&g.written, Change{kind: kindPutGeneration, Group: g.id, Generation: g.generation})
	for _, m := range g.members {
		g.unsynced[m.id] = true
	}
	for _, m := range g.members {
		m.fresh = false
		c.armSession(g, m, m.sessionTimeout)
		if m.join == nil {
			continue
		}
		reply, r, id := m.join, g.joined(m), m.id
		m.join = nil
		c.settle(&g.written, func() { reply(r) }, func() { reply(failedJoin(id, kerr.NotCoordinator.Code)) })
	}
	generation := g.generation
	c.timers.set(&g.syncs, c.now.Monotonic+g.rebalanceTimeout(), func() { c.expireSyncs(g, generation) })
}

// emptied ends the generation of a group whose last member is gone.
func (c *Coordinator) emptied(g *classic) {
	g.protocol, g.leader, g.subscribed = "", "", nil
	c.transition(g, empty)
	c.keep(g)
}

// elect makes sure that the leader is one who has joined.
func (g *classic) elect() bool {
	if m := g.byID[g.leader]; m != nil && m.join != nil {
		return true
	}
	for _, m := range g.members {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// joined is the answer that tells m of the generation, and the leader of the members.
func (g *classic) joined(m *member) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Generation, r.LeaderID, r.MemberID = g.generation, g.leader, m.id
	r.ProtocolType, r.Protocol = kmsg.StringPtr(g.protocolType), kmsg.StringPtr(g.protocol)
	if g.leader != m.id {
		return r
	}
	for _, o := range g.members {
		jm := kmsg.NewJoinGroupResponseMember()
		jm.MemberID, jm.ProtocolMetadata = o.id, o.metadata(g.protocol)
		if o.instance != "" {
			jm.InstanceID = kmsg.StringPtr(o.instance)
		}
		r.Members = append(r.Members, jm)
	}
	return r
}
