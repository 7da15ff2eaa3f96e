package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group/consumer"
)

// A group changes its protocol online, member by member (KIP-848): a classic group becomes one of the consumer
// protocol when the first member joins it with that, and goes back when the last such member is gone. A group
// without members becomes what the first member asks for.

// described is the group as the other protocol takes it over.
func (g *classic) described() consumer.ClassicGroup {
	d := consumer.ClassicGroup{Generation: g.generation, Protocol: g.protocol}
	for _, m := range g.members {
		k := consumer.ClassicGroupMember{MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.host,
			SessionTimeout: m.sessionTimeout, RebalanceTimeout: m.rebalanceTimeout, Assignment: m.assignment}
		for _, p := range m.protocols {
			k.Protocols = append(k.Protocols, consumer.Protocol{Name: p.name, Metadata: p.metadata})
		}
		d.Members = append(d.Members, k)
	}
	slices.SortFunc(d.Members, func(a, b consumer.ClassicGroupMember) int { return strings.Compare(a.MemberID, b.MemberID) })
	return d
}

// dissolve forgets a classic group whose members are in one of the consumer protocol now. Who waits is told to join
// again.
func (c *Coordinator) dissolve(g *classic) {
	for _, m := range g.members {
		m.answerJoin(failedJoin(m.id, kerr.RebalanceInProgress.Code))
		m.answerSync(failedSync(kerr.RebalanceInProgress.Code))
		c.timers.stop(&m.session)
		c.members--
		c.metadataBytes -= m.bytes()
	}
	g.members = nil
	c.forget(g)
}

// downgrade makes a classic group of what is left of one of the consumer protocol, with one change.
func (c *Coordinator) downgrade(old *consumerGroup, o consumer.Outcome) *written {
	c.dropConsumer(old)
	d := o.Classic
	g := c.newGroup(old.ID())
	g.protocolType, g.protocol, g.generation, g.leader = consumer.ProtocolType, d.Protocol, d.Generation, d.Leader
	for i := range d.Members {
		k := &d.Members[i]
		m := &member{id: k.MemberID, instance: k.InstanceID, clientID: k.ClientID, host: k.ClientHost,
			rebalanceTimeout: k.RebalanceTimeout, sessionTimeout: k.SessionTimeout, assignment: k.Assignment}
		for _, p := range k.Protocols {
			m.protocols = append(m.protocols, protocol{p.Name, p.Metadata})
		}
		c.addMember(g, m)
		c.armSession(g, m, m.sessionTimeout)
	}
	c.transition(g, stable)
	g.subscribed = g.subscriptions()
	// Where the group must rebalance it is kept as one whose next generation has begun, so that it does so too when
	// it is loaded before that is done.
	begun := g.generation
	if d.Rebalance {
		begun++
	}
	c.emit(&g.written, Change{kind: kindConsumer, Group: g.id, Consumer: o.Changes, Classic: g.durable(), Generation: begun})
	if d.Rebalance {
		c.rebalance(g)
	}
	return &g.written
}

// endConsumer ends an empty group of the consumer protocol, in whose place another one comes. Its offsets stay.
func (c *Coordinator) endConsumer(g *consumerGroup) {
	if changes := g.Delete(); len(changes) > 0 {
		c.emit(&g.written, Change{kind: kindConsumer, Group: g.ID(), Consumer: changes})
	}
	c.dropConsumer(g)
}

// admitsClassic tells whether there is room for a classic member that joins a group of the consumer protocol.
func (c *Coordinator) admitsClassic(g *consumerGroup, j *joining) bool {
	had, known := g.sizes[j.req.MemberID]
	return (known || c.members < membersMax) && c.metadataBytes-had+j.size() <= metadataBytesMax
}

// joinConsumer answers a Join of a classic member to a group of the consumer protocol.
func (c *Coordinator) joinConsumer(g *consumerGroup, j *joining) {
	resp, o, err := g.JoinGroup(c.consumerTime(), consumer.Client(j.client), j.req)
	if err != nil {
		failed := failedJoin(resp.MemberID, 0)
		failed.ErrorCode, _ = consumer.CodeOf(err)
		j.reply(failed)
		return
	}
	w := c.conclude(g, o, resp.MemberID)
	c.settle(w, func() { j.reply(resp) }, j.lost)
}

// syncConsumer answers a Sync of a classic member of a group of the consumer protocol.
func (c *Coordinator) syncConsumer(g *consumerGroup, req *kmsg.SyncGroupRequest, reply Reply) {
	resp, err := g.SyncGroup(c.consumerTime(), req)
	c.arm(g)
	if err != nil {
		code, _ := consumer.CodeOf(err)
		reply(failedSync(code))
		return
	}
	c.settle(&g.written, func() { reply(resp) }, func() { reply(failedSync(kerr.NotCoordinator.Code)) })
}

// heartbeatConsumer answers a Heartbeat of a classic member of a group of the consumer protocol.
func (c *Coordinator) heartbeatConsumer(g *consumerGroup, req *kmsg.HeartbeatRequest, reply func(code int16)) {
	o, err := g.ClassicHeartbeat(c.consumerTime(), req.MemberID, req.InstanceID, req.Generation)
	code, _ := consumer.CodeOf(err)
	w := c.conclude(g, o, "")
	c.settle(w, func() { reply(code) }, func() { reply(kerr.NotCoordinator.Code) })
}

// leaveConsumer takes members out of a group of the consumer protocol, at the request of a classic client or of an
// administrator.
func (c *Coordinator) leaveConsumer(g *consumerGroup, req *kmsg.LeaveGroupRequest, reply Reply) {
	list := req.Members
	if req.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = req.MemberID
		list = []kmsg.LeaveGroupRequestMember{one}
	}
	r := kmsg.NewPtrLeaveGroupResponse()
	members, o := g.LeaveGroup(c.consumerTime(), list)
	if req.Version < 3 {
		r.ErrorCode = members[0].ErrorCode
	} else {
		r.Members = members
	}
	w := c.conclude(g, o, "")
	c.settle(w, func() { reply(r) }, func() {
		r.ErrorCode, r.Members = kerr.NotCoordinator.Code, nil
		reply(r)
	})
}
