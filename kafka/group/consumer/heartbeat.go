package consumer

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
)

// CheckHeartbeat refuses a ConsumerGroupHeartbeat that no group could answer. Heartbeat does it too; callers
// need it where there is no group to ask, since these codes come before GROUP_ID_NOT_FOUND.
func CheckHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest, c Config) error {
	empty := func(s *string) bool { return s != nil && strings.TrimSpace(*s) == "" }
	invalid := func(format string, args ...any) error { return refuse(kerr.InvalidRequest, format, args...) }
	// From version 1 on, members make their ids themselves.
	needsID := req.Version >= 1 || req.MemberEpoch > 0 || req.MemberEpoch == epochLeave
	switch {
	case needsID && empty(&req.MemberID):
		return invalid("MemberId can't be empty.")
	case empty(&req.Group):
		return invalid("GroupId can't be empty.")
	case empty(req.InstanceID):
		return invalid("InstanceId can't be empty.")
	case empty(req.RackID):
		return invalid("RackId can't be empty.")
	case req.MemberEpoch == epochJoin && req.RebalanceTimeoutMillis == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case req.MemberEpoch == epochJoin && (req.Topics == nil || len(req.Topics) > 0):
		return invalid("TopicPartitions must be empty when (re-)joining.")
	case req.MemberEpoch == epochJoin && req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	case req.MemberEpoch == epochLeaveStatic && req.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case req.MemberEpoch < epochLeaveStatic:
		return invalid("MemberEpoch is invalid.")
	case req.ServerAssignor != nil && !slices.Contains(c.Assignors, *req.ServerAssignor):
		return refuse(kerr.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s.", *req.ServerAssignor, strings.Join(c.Assignors, ", "))
	}
	return checkSizes(req)
}

// checkSizes holds the limits of this broker, which are far above what clients send.
func checkSizes(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	for _, s := range []*string{&req.MemberID, req.InstanceID, req.RackID} {
		if s != nil && len(*s) > stringBytesMax {
			return refuse(kerr.InvalidRequest, "An id has %d bytes, %d are allowed.", len(*s), stringBytesMax)
		}
	}
	if n := len(req.SubscribedTopicNames); n > topicNamesMax {
		return refuse(kerr.InvalidRequest, "SubscribedTopicNames has %d names, %d are allowed.", n, topicNamesMax)
	}
	owned := 0
	for _, t := range req.Topics {
		owned += len(t.Partitions)
	}
	if owned > ownedMax {
		return refuse(kerr.InvalidRequest, "TopicPartitions has %d partitions, %d are allowed.", owned, ownedMax)
	}
	return nil
}

// Heartbeat answers a ConsumerGroupHeartbeat. A group without a State comes into being by one with member
// epoch 0; the caller answers GROUP_ID_NOT_FOUND to others where it has no group, and drops a new group
// again whose State does not exist afterwards.
//
// The reply is without error code; an error has it (CodeOf) and says that nothing changed.
func (g *Group) Heartbeat(now time.Time, client Client, req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, Outcome, error) {
	if err := CheckHeartbeat(req, g.opts.Config); err != nil {
		return nil, Outcome{}, err
	}
	if req.MemberEpoch == epochLeave || req.MemberEpoch == epochLeaveStatic {
		return g.leave(now, req)
	}
	owned := reportedTopics(req.Topics)
	m, replaced, err := g.memberFor(req, owned)
	if err != nil {
		return nil, Outcome{}, err
	}
	if req.SubscribedTopicRegex != nil {
		if err := g.checkRegex(*req.SubscribedTopicRegex); err != nil {
			return nil, Outcome{}, err
		}
	}
	if err := checkKnown(m, owned); err != nil {
		return nil, Outcome{}, err
	}
	before := g.admit(m, replaced)
	changed := g.subscribe(now, m.MemberID, updated(m, client, req))
	g.updateTarget(now)
	g.reconcile(g.state.members[m.MemberID], owned, changed, now)
	m = g.state.members[m.MemberID]
	g.stopTimer(m.MemberID, timerJoin)
	g.stopTimer(m.MemberID, timerSync)
	g.startSession(m, now)

	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.Version = req.Version
	resp.MemberID, resp.MemberEpoch = kmsg.StringPtr(m.MemberID), m.Epoch
	resp.HeartbeatIntervalMillis = int32(g.opts.Config.HeartbeatInterval.Milliseconds())
	full := req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
	if req.MemberEpoch == epochJoin || full || !before.same(m.Assigned) {
		resp.Assignment = responseAssignment(m.Assigned)
	}
	o := g.finish()
	if replaced != "" && replaced != m.MemberID {
		o.Removed = []string{replaced}
	}
	return resp, o, nil
}

func reportedTopics(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) reported {
	if topics == nil {
		return nil
	}
	owned := reported{}
	for _, t := range topics {
		owned[t.TopicID] = append(owned[t.TopicID], t.Partitions...)
	}
	return owned
}

func responseAssignment(o Owned) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	a.Topics = []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}
	o.each(func(topic model.TopicID, partition, _ int32) {
		if n := len(a.Topics); n == 0 || a.Topics[n-1].TopicID != topic {
			t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			t.TopicID = topic
			a.Topics = append(a.Topics, t)
		}
		t := &a.Topics[len(a.Topics)-1]
		t.Partitions = append(t.Partitions, partition)
	})
	return &a
}

// memberFor finds or makes the member that a heartbeat is from. Nothing is emitted yet. replaced is the
// member whose instance id and place a new static member takes.
func (g *Group) memberFor(req *kmsg.ConsumerGroupHeartbeatRequest, owned reported) (m *Member, replaced string, err error) {
	instance := ""
	if req.InstanceID != nil {
		instance = *req.InstanceID
	}
	if err := g.checkRoom(req.MemberID, instance); err != nil {
		return nil, "", err
	}
	id := req.MemberID
	if id == "" {
		id = g.opts.NewID()
	}
	if instance != "" {
		return g.staticMemberFor(id, instance, req.MemberEpoch, owned)
	}
	m = g.state.members[id]
	if m == nil {
		if req.MemberEpoch != epochJoin {
			return nil, "", refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", id, g.id)
		}
		return newMember(id), "", nil
	}
	return m, "", checkEpoch(m, req.MemberEpoch, owned)
}

func newMember(id string) *Member {
	return &Member{Subscription: Subscription{MemberID: strings.Clone(id)}}
}

// checkRoom refuses a member that would be one too many.
func (g *Group) checkRoom(memberID, instanceID string) error {
	if _, ok := g.state.StaticMember(instanceID); ok {
		return nil
	}
	if _, ok := g.state.members[memberID]; !ok && len(g.state.members) >= g.opts.Config.MembersMax {
		return refuse(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", g.opts.Config.MembersMax)
	}
	return nil
}

func (g *Group) staticMemberFor(id, instance string, epoch int32, owned reported) (m *Member, replaced string, err error) {
	holder, ok := g.state.StaticMember(instance)
	if epoch != epochJoin {
		if !ok {
			return nil, "", refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", instance)
		}
		if err := checkInstance(holder, id); err != nil {
			return nil, "", err
		}
		return holder, "", checkEpoch(holder, epoch, owned)
	}
	if !ok {
		if m := g.state.members[id]; m != nil {
			return m, "", nil
		}
		return newMember(id), "", nil
	}
	if holder.MemberID == id && holder.Epoch != epochLeaveStatic {
		return holder, "", nil // it asks again: the reply to its join may have been lost
	}
	// A member of the consumer protocol holds its instance id until it has left or its session ends.
	if holder.Classic == nil && holder.Epoch != epochLeaveStatic {
		return nil, "", refuse(kerr.UnreleasedInstanceID, "Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.", id, instance, holder.MemberID)
	}
	return g.successor(holder, id), holder.MemberID, nil
}

// successor is the member that takes the place of a static member.
func (g *Group) successor(holder *Member, id string) *Member {
	m := *holder
	m.MemberID = keep(m.MemberID, id)
	m.Epoch, m.PreviousEpoch = 0, 0
	return &m
}

func checkInstance(holder *Member, memberID string) error {
	if holder.MemberID != memberID {
		return refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", memberID, holder.InstanceID, holder.MemberID)
	}
	return nil
}

// checkEpoch refuses a member that is not where the group knows it to be. The previous epoch is good where
// the reply with the new one may have been lost.
func checkEpoch(m *Member, epoch int32, owned reported) error {
	switch {
	case epoch == epochJoin || epoch == m.Epoch:
		return nil
	case epoch > m.Epoch:
		return refuse(kerr.FencedMemberEpoch, "The consumer group member has a greater member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", epoch, m.Epoch)
	case epoch == m.PreviousEpoch && owned.within(m.Assigned):
		return nil
	}
	return refuse(kerr.FencedMemberEpoch, "The consumer group member has a smaller member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", epoch, m.Epoch)
}

// admit puts a member in the place of the one it replaces and returns what it is assigned.
func (g *Group) admit(m *Member, replaced string) Owned {
	if replaced != "" {
		target := g.state.target[replaced]
		g.emit(DeleteMember{MemberID: replaced})
		delete(g.timers, replaced)
		g.emit(PutMember{m.Subscription})
		g.emit(TargetAssignment{MemberID: m.MemberID, Partitions: target})
		g.emit(CurrentAssignment{MemberID: m.MemberID, Progress: m.Progress})
	}
	return m.Assigned
}

// updated is what the member says of itself after this request.
func updated(m *Member, client Client, req *kmsg.ConsumerGroupHeartbeatRequest) Subscription {
	s := m.Subscription
	set := func(to *string, from *string) {
		if from != nil {
			*to = keep(*to, *from)
		}
	}
	set(&s.InstanceID, req.InstanceID)
	set(&s.RackID, req.RackID)
	set(&s.Assignor, req.ServerAssignor)
	set(&s.Regex, req.SubscribedTopicRegex)
	if req.RebalanceTimeoutMillis != -1 {
		s.RebalanceTimeout = time.Duration(max(req.RebalanceTimeoutMillis, 0)) * time.Millisecond
	}
	if req.SubscribedTopicNames != nil {
		s.Topics = sortedNames(req.SubscribedTopicNames)
	}
	s.ClientID, s.ClientHost = keep(s.ClientID, client.ID), keep(s.ClientHost, client.Host)
	s.Classic = nil
	return s
}

// subscribe sets what a member said of itself and raises the group epoch where others must hear of it. It
// says whether the member's own subscription changed.
func (g *Group) subscribe(now time.Time, id string, to Subscription) (changed bool) {
	var old Subscription
	if m := g.state.members[id]; m != nil {
		old = m.Subscription
	}
	voted := old.Assignor != to.Assignor
	before := ""
	if voted {
		before = g.assignorName()
	}
	if _, ok := g.state.members[id]; !ok || !old.equal(&to) {
		g.emit(PutMember{to})
	}
	changed = !slices.Equal(old.Topics, to.Topics) || old.Regex != to.Regex
	resolved := g.updateRegexes(old.Regex != to.Regex, now)
	bump := changed || resolved || g.state.epoch == 0 || voted && g.assignorName() != before
	g.refreshEpoch(bump, now)
	return changed || resolved
}
