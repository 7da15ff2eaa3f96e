package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group/consumer"
)

// consumerGroup is a group of the consumer protocol (KIP-848): package consumer has its rules, here is its place in
// the coordinator.
type consumerGroup struct {
	*consumer.Group
	written
	expire  timer
	sizes   map[string]int // what each member says of itself, as counted in Coordinator.metadataBytes
	target  int32          // epoch of the assignment when it was looked at last
	emptied int64          // Unix milliseconds since when nobody is in it; 0: somebody is, or it was loaded so
}

// consumerTime is now for package consumer: it goes with the monotonic clock.
func (c *Coordinator) consumerTime() time.Time { return c.started.Add(c.now.Monotonic) }

func (c *Coordinator) consumerOptions(id string) consumer.Options {
	resolve := func(regexes []string) map[string][]string {
		c.o.Resolve(id, regexes)
		return nil
	}
	return consumer.Options{Config: c.o.ConsumerConfig(id), Topics: c.o.Topics, Resolve: resolve, NewID: c.o.NewID}
}

// Resolved tells what regular expressions of a group stand for. Those that were given up, since it took too long to
// find out, are counted.
func (c *Coordinator) Resolved(now Now, group string, found map[string][]string, givenUp int) {
	c.now = now
	c.metrics.Refused += int64(givenUp)
	if g := c.consumers[group]; g != nil {
		c.conclude(g, g.Resolved(c.consumerTime(), found), "")
	}
}

// loadConsumer brings a group back as it was. Every member has a new session.
func (c *Coordinator) loadConsumer(id string, changes []consumer.Change) {
	state := &consumer.State{}
	for _, change := range changes {
		if err := state.Apply(change); err != nil {
			panic("group: what a state says of itself does not make it: " + err.Error())
		}
	}
	g := c.newConsumer(consumer.New(id, c.consumerOptions(id), state, c.consumerTime()))
	c.addConsumer(g)
	for _, member := range state.MemberIDs() {
		c.measure(g, member)
	}
	g.target = state.TargetEpoch()
	c.arm(g)
}

func (c *Coordinator) newConsumer(rules *consumer.Group) *consumerGroup {
	return &consumerGroup{Group: rules, sizes: make(map[string]int)}
}

func (c *Coordinator) addConsumer(g *consumerGroup) { c.consumers[g.ID()] = g }

// dropConsumer forgets a group in memory.
func (c *Coordinator) dropConsumer(g *consumerGroup) {
	for member := range g.sizes {
		c.unmeasure(g, member)
	}
	c.timers.stop(&g.expire)
	delete(c.consumers, g.ID())
}

// measure counts a member as it is now.
func (c *Coordinator) measure(g *consumerGroup, member string) {
	c.unmeasure(g, member)
	m, ok := g.State().Member(member)
	if !ok {
		return
	}
	size := len(m.MemberID) + len(m.InstanceID) + len(m.RackID) + len(m.ClientID) + len(m.ClientHost) + len(m.Regex)
	for _, topic := range m.Topics {
		size += len(topic)
	}
	if m.Classic != nil {
		for i := range m.Classic.Protocols {
			size += len(m.Classic.Protocols[i].Name) + len(m.Classic.Protocols[i].Metadata)
		}
	}
	g.sizes[member] = size
	c.members++
	c.metadataBytes += size
}

func (c *Coordinator) unmeasure(g *consumerGroup, member string) {
	if size, ok := g.sizes[member]; ok {
		delete(g.sizes, member)
		c.members--
		c.metadataBytes -= size
	}
}

// arm sets the timer of a group to when it has something to do.
func (c *Coordinator) arm(g *consumerGroup) {
	at, ok := g.Deadline()
	if !ok {
		c.timers.stop(&g.expire)
		return
	}
	if due := at.Sub(c.started); g.expire.fire == nil || g.expire.at != due {
		c.timers.set(&g.expire, due, func() {
			o := g.Expire(c.consumerTime())
			c.metrics.MembersExpired += int64(len(o.Removed))
			c.conclude(g, o, "")
		})
	}
}

// conclude takes over what an operation has done, and returns where the changes of the group are counted: it may
// have become a classic one. heard is the member that the request was from.
func (c *Coordinator) conclude(g *consumerGroup, o consumer.Outcome, heard string) *written {
	if o.Classic != nil {
		return c.downgrade(g, o)
	}
	if len(o.Changes) > 0 {
		c.emit(&g.written, Change{kind: kindConsumer, Group: g.ID(), Consumer: o.Changes})
	}
	for _, member := range o.Removed {
		c.unmeasure(g, member)
	}
	if heard != "" {
		c.measure(g, heard)
	}
	if epoch := g.State().TargetEpoch(); epoch != g.target {
		g.target = epoch
		c.metrics.Rebalances++
	}
	if !g.IsEmpty() {
		g.emptied = 0
	} else if g.emptied == 0 {
		g.emptied = c.now.Unix
	}
	c.arm(g)
	return &g.written
}

// ConsumerHeartbeat answers a ConsumerGroupHeartbeat request, once what it changed is kept.
func (c *Coordinator) ConsumerHeartbeat(now Now, req *kmsg.ConsumerGroupHeartbeatRequest, client Client, reply Reply) {
	c.now = now
	refuse := func(err error) {
		r := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		code, message := consumer.CodeOf(err)
		r.ErrorCode, r.ErrorMessage = code, &message
		reply(r)
	}
	if err := consumer.CheckHeartbeat(req, c.o.ConsumerConfig(req.Group)); err != nil {
		refuse(err)
		return
	}
	g, old, err := c.consumerFor(req)
	if err != nil {
		refuse(err)
		return
	}
	resp, o, err := g.Heartbeat(c.consumerTime(), consumer.Client(client), req)
	if err != nil {
		refuse(err)
		return
	}
	if c.consumers[g.ID()] == nil {
		if old != nil {
			c.dissolve(old)
		}
		c.addConsumer(g)
		for _, member := range g.State().MemberIDs() {
			c.measure(g, member)
		}
	}
	w := c.conclude(g, o, *resp.MemberID)
	c.settle(w, func() { reply(resp) }, func() { refuse(errNotCoordinator) })
}

var errNotCoordinator = &consumer.Refusal{Code: kerr.NotCoordinator, Message: kerr.NotCoordinator.Description}

// consumerFor returns the group that a heartbeat is for. One that is not in c.consumers yet takes the place of old,
// a classic group or nil, where it takes the heartbeat. Only a member that joins can make one.
func (c *Coordinator) consumerFor(req *kmsg.ConsumerGroupHeartbeatRequest) (g *consumerGroup, old *classic, err error) {
	g, old = c.consumers[req.Group], c.groups[req.Group]
	joins := req.MemberEpoch == 0
	switch {
	case g == nil && !joins && old != nil:
		return nil, nil, &consumer.Refusal{Code: kerr.GroupIDNotFound, Message: "Group " + req.Group + " is not a consumer group."}
	case g == nil && !joins:
		return nil, nil, &consumer.Refusal{Code: kerr.GroupIDNotFound, Message: "Group " + req.Group + " not found."}
	case !c.admitsConsumer(g, old, req):
		c.metrics.Refused++
		return nil, nil, &consumer.Refusal{Code: kerr.GroupMaxSizeReached, Message: "The broker holds as many groups, members or subscriptions as it can."}
	case g != nil:
		return g, nil, nil
	}
	options := c.consumerOptions(req.Group)
	if old == nil || len(old.members) == 0 {
		return c.newConsumer(consumer.New(req.Group, options, nil, c.consumerTime())), old, nil
	}
	if old.protocolType != consumer.ProtocolType || !options.Config.CanUpgrade(len(old.members)) {
		return nil, nil, &consumer.Refusal{Code: kerr.GroupIDNotFound, Message: "Group " + req.Group + " is not a consumer group."}
	}
	rules, err := consumer.FromClassic(req.Group, options, old.described(), c.consumerTime())
	if err != nil {
		return nil, nil, err
	}
	return c.newConsumer(rules), old, nil
}

// admitsConsumer tells whether there is room for what a heartbeat brings. One that brings nothing has its room.
func (c *Coordinator) admitsConsumer(g *consumerGroup, old *classic, req *kmsg.ConsumerGroupHeartbeatRequest) bool {
	if g == nil && old == nil && c.groupCount() >= groupsMax {
		return false
	}
	had, known := 0, false
	if g != nil {
		had, known = g.sizes[req.MemberID]
	}
	if known && req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil {
		return true
	}
	size := len(req.MemberID) + len(text(req.InstanceID)) + len(text(req.RackID)) + len(text(req.SubscribedTopicRegex))
	for _, topic := range req.SubscribedTopicNames {
		size += len(topic)
	}
	return (known || c.members < membersMax) && c.metadataBytes-had+size <= metadataBytesMax
}

func (c *Coordinator) groupCount() int { return len(c.groups) + len(c.consumers) }

// ConsumerDescribe fills in a group of a ConsumerGroupDescribe response.
func (c *Coordinator) ConsumerDescribe(id string) kmsg.ConsumerGroupDescribeResponseGroup {
	if g := c.consumers[id]; g != nil {
		return g.Describe()
	}
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	out.Group = id
	switch {
	case id == "":
		out.ErrorCode = kerr.InvalidGroupID.Code
	case c.groups[id] != nil:
		out.ErrorCode, out.ErrorMessage = kerr.GroupIDNotFound.Code, kmsg.StringPtr("Group "+id+" is not a consumer group.")
	default:
		out.ErrorCode, out.ErrorMessage = kerr.GroupIDNotFound.Code, kmsg.StringPtr("Group "+id+" not found.")
	}
	return out
}

// TopicsChanged tells that topics came, went or grew.
func (c *Coordinator) TopicsChanged() {
	for _, g := range c.consumers {
		g.TopicsChanged()
	}
}

// ConfigsChanged tells that Options.ConsumerConfig may say something else.
func (c *Coordinator) ConfigsChanged() {
	for id, g := range c.consumers {
		g.SetConfig(c.o.ConsumerConfig(id))
	}
}
