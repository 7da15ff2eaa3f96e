package consumer

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// JoinGroup answers a JoinGroup of the classic protocol to this group, which must have members: an empty
// group is deleted for a classic one instead. It never waits. The error is of the request: CodeOf has its
// code; with MEMBER_ID_REQUIRED the response carries the new id.
//
// The caller has checked what does not depend on the group: group id and session timeout. The generation is
// the member epoch, the reply names no members, and whoever gets a reply may sync at once.
func (g *Group) JoinGroup(now time.Time, client Client, req *kmsg.JoinGroupRequest) (*kmsg.JoinGroupResponse, Outcome, error) {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.Generation, resp.MemberID = req.Version, -1, req.MemberID
	instance := ""
	if req.InstanceID != nil {
		instance = *req.InstanceID
	}
	id := req.MemberID
	if id == "" {
		id = g.opts.NewID()
	}
	if err := g.checkJoin(req, id, instance); err != nil {
		return resp, Outcome{}, err
	}
	if req.MemberID == "" && instance == "" && req.Version >= 4 {
		resp.MemberID = id
		return resp, Outcome{}, refuse(kerr.MemberIDRequired, "The group member needs to have a valid member id before actually entering a consumer group.")
	}
	e, err := g.checkMetadata(req, id)
	if err != nil {
		return resp, Outcome{}, err
	}
	m, replaced, err := g.classicMemberFor(req, id, instance, len(e.owned) > 0)
	if err != nil {
		return resp, Outcome{}, err
	}
	// A static member of the consumer protocol that comes back with the classic one may be the last of its kind.
	downgrade := false
	if holder, ok := g.state.StaticMember(instance); ok && holder.Classic == nil {
		downgrade = g.downgradesWith(holder.MemberID)
	}
	g.admit(m, replaced)
	changed := g.subscribe(now, id, joined(m, client, req, e))
	o := Outcome{}
	if downgrade {
		classic := g.classicGroup(nil, changed)
		resp.Generation, o = classic.Generation, g.end(classic)
	} else {
		g.updateTarget(now)
		g.reconcile(g.state.members[id], g.ownedTopics(e), changed, now)
		m = g.state.members[id]
		g.stopTimer(id, timerJoin)
		g.stopTimer(id, timerRevoke)
		g.startSession(m, now)
		g.startTimer(id, timerSync, now.Add(m.RebalanceTimeout))
		resp.Generation, o = m.Epoch, g.finish()
	}
	if replaced != "" && replaced != id {
		o.Removed = []string{replaced}
	}
	resp.MemberID = id
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(ProtocolType), kmsg.StringPtr(req.Protocols[0].Name)
	return resp, o, nil
}

// checkJoin refuses a join that this group cannot take.
func (g *Group) checkJoin(req *kmsg.JoinGroupRequest, id, instance string) error {
	if g.opts.Config.Policy == Disabled {
		return refuse(kerr.InconsistentGroupProtocol, "Cannot join the consumer group %s with the classic protocol because the group migration is disabled.", g.id)
	}
	if err := g.checkRoom(req.MemberID, instance); err != nil {
		return err
	}
	if len(id) > stringBytesMax || len(instance) > stringBytesMax {
		return refuse(kerr.InvalidRequest, "An id has more than %d bytes.", stringBytesMax)
	}
	if !g.supports(req.ProtocolType, req.Protocols) {
		return refuse(kerr.InconsistentGroupProtocol, "Member %s's protocols are not supported.", id)
	}
	return nil
}

// checkMetadata reads what a join says with each of its protocols, and returns that of the first: which of them
// counts is known only when the group becomes a classic one.
func (g *Group) checkMetadata(req *kmsg.JoinGroupRequest, id string) (embedded, error) {
	size := 0
	for _, p := range req.Protocols {
		size += len(p.Name) + len(p.Metadata)
	}
	if size > metadataBytesMax || len(req.Protocols) > topicNamesMax {
		return embedded{}, refuse(kerr.UnknownServerError, "The metadata of the protocols has %d bytes, %d are allowed.", size, metadataBytesMax)
	}
	var first embedded
	for i, p := range req.Protocols {
		e, err := parseMetadata(p.Metadata)
		if err != nil {
			return embedded{}, refuse(kerr.InconsistentGroupProtocol, "Member %s's protocol %s: %v.", id, p.Name, err)
		}
		if i == 0 {
			first = e
		}
	}
	return first, nil
}

// supports says whether a classic member with these protocols fits: one of them must be known to all classic
// members that are there.
func (g *Group) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if protocolType != ProtocolType || len(protocols) == 0 {
		return false
	}
	support, classic := map[string]int{}, 0
	for _, m := range g.state.members {
		if m.Classic != nil {
			classic++
			for _, p := range m.Classic.Protocols {
				support[p.Name]++
			}
		}
	}
	for _, p := range protocols {
		if support[p.Name] == classic {
			return true
		}
	}
	return false
}

// classicMemberFor finds or makes the member that a join is from. owns says that it still works on partitions.
func (g *Group) classicMemberFor(req *kmsg.JoinGroupRequest, id, instance string, owns bool) (m *Member, replaced string, err error) {
	if instance == "" {
		if m := g.state.members[id]; m != nil {
			return m, "", nil
		}
		// A member that was removed meanwhile must not come back with partitions that others may have by now.
		// Kafka lets it; the code makes clients drop all and join anew.
		if owns && req.MemberID != "" {
			return nil, "", refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s any more.", id, g.id)
		}
		return newMember(id), "", nil
	}
	holder, ok := g.state.StaticMember(instance)
	if req.MemberID == "" {
		if !ok {
			return newMember(id), "", nil
		}
		return g.successor(holder, id), holder.MemberID, nil
	}
	if !ok {
		return nil, "", refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", instance)
	}
	return holder, "", checkInstance(holder, id)
}

// downgradesWith says whether the group becomes a classic one when that member uses the classic protocol.
func (g *Group) downgradesWith(id string) bool {
	for other, m := range g.state.members {
		if other != id && m.Classic == nil {
			return false
		}
	}
	return g.opts.Config.Policy.DowngradeEnabled() && len(g.state.members) <= g.opts.Config.ClassicMax
}

// joined is what a classic member says of itself.
func joined(m *Member, client Client, req *kmsg.JoinGroupRequest, e embedded) Subscription {
	s := m.Subscription
	if req.InstanceID != nil {
		s.InstanceID = keep(s.InstanceID, *req.InstanceID)
	}
	if e.rack != "" {
		s.RackID = keep(s.RackID, e.rack)
	}
	s.RebalanceTimeout = time.Duration(max(rebalanceMillis(req), 0)) * time.Millisecond
	s.Topics, s.Regex = e.topics, ""
	s.ClientID, s.ClientHost = keep(s.ClientID, client.ID), keep(s.ClientHost, client.Host)
	s.Classic = &ClassicMember{SessionTimeout: time.Duration(max(req.SessionTimeoutMillis, 0)) * time.Millisecond}
	for _, p := range req.Protocols {
		s.Classic.Protocols = append(s.Classic.Protocols, Protocol{Name: strings.Clone(p.Name), Metadata: append([]byte(nil), p.Metadata...)})
	}
	return s
}

// rebalanceMillis is the rebalance timeout, which version 0 does not have.
func rebalanceMillis(req *kmsg.JoinGroupRequest) int32 {
	if req.Version == 0 || req.RebalanceTimeoutMillis < 0 {
		return req.SessionTimeoutMillis
	}
	return req.RebalanceTimeoutMillis
}

// classicMember finds the classic member that a request is from and checks its generation.
func (g *Group) classicMember(id string, instanceID *string, generation int32) (*Member, error) {
	m := g.state.members[id]
	if instanceID != nil && *instanceID != "" {
		holder, ok := g.state.StaticMember(*instanceID)
		if !ok {
			return nil, refuse(kerr.UnknownMemberID, "Member with instance id %s is not a member of group %s.", *instanceID, g.id)
		}
		if err := checkInstance(holder, id); err != nil {
			return nil, err
		}
		m = holder
	}
	if m == nil {
		return nil, refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", id, g.id)
	}
	if m.Classic == nil {
		return nil, refuse(kerr.UnknownMemberID, "Member %s does not use the classic protocol.", id)
	}
	if m.Epoch != generation {
		return nil, refuse(kerr.IllegalGeneration, "The request generation id %d is not equal to the member epoch %d of member %s.", generation, m.Epoch, id)
	}
	return m, nil
}

// SyncGroup answers a SyncGroup of a classic member with the partitions that it has by now.
func (g *Group) SyncGroup(now time.Time, req *kmsg.SyncGroupRequest) (*kmsg.SyncGroupResponse, error) {
	m, err := g.classicMember(req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return nil, err
	}
	first := m.Classic.Protocols[0]
	if req.ProtocolType != nil && *req.ProtocolType != ProtocolType {
		return nil, refuse(kerr.InconsistentGroupProtocol, "The protocol type %s from member %s request is not equal to the group protocol type %s.", *req.ProtocolType, m.MemberID, ProtocolType)
	}
	if req.Protocol != nil && *req.Protocol != first.Name {
		return nil, refuse(kerr.InconsistentGroupProtocol, "The protocol name %s from member %s request is not equal to the protocol name %s returned in the join response.", *req.Protocol, m.MemberID, first.Name)
	}
	// Who gives up partitions has rejoined already and finishes that first.
	if g.state.targetEpoch > m.Epoch && m.State != UnrevokedPartitions {
		g.startTimerIfAbsent(m.MemberID, timerJoin, now.Add(m.RebalanceTimeout))
		return nil, refuse(kerr.RebalanceInProgress, "A new rebalance is triggered in group %s and member %s should rejoin to catch up.", g.id, m.MemberID)
	}
	e, err := parseMetadata(first.Metadata)
	g.must(err) // it was read when the member joined
	g.stopTimer(m.MemberID, timerSync)
	g.startSession(m, now)
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version, resp.ProtocolType, resp.Protocol = req.Version, req.ProtocolType, req.Protocol
	resp.MemberAssignment = appendAssignment(e.version, m.Assigned.lists(), g.opts.Topics)
	return resp, nil
}

// ClassicHeartbeat answers a Heartbeat of a classic member. REBALANCE_IN_PROGRESS tells it to rejoin: there
// is a newer target, it must give up partitions, or those that it waited for are free. The Outcome holds with
// that error too.
func (g *Group) ClassicHeartbeat(now time.Time, memberID string, instanceID *string, generation int32) (Outcome, error) {
	m, err := g.classicMember(memberID, instanceID, generation)
	if err != nil {
		return Outcome{}, err
	}
	// Members of the consumer protocol move the target on. Where there is none, and the policy keeps the group,
	// nobody else would.
	if g.state.epoch > g.state.targetEpoch && g.OnlyClassicWithout() {
		g.updateTarget(now)
	}
	g.startSession(m, now)
	if m.Epoch < g.state.targetEpoch || m.State == UnrevokedPartitions || m.State == UnreleasedPartitions && !g.state.waitsForOthers(m) {
		g.startTimerIfAbsent(m.MemberID, timerJoin, now.Add(m.RebalanceTimeout))
		return g.finish(), refuse(kerr.RebalanceInProgress, "Member %s should rejoin.", memberID)
	}
	return g.finish(), nil
}

// LeaveGroup removes members at the request of a classic client or an administrator. Each member has its own
// code in the response; the caller puts the only one's code on top for versions below 3.
func (g *Group) LeaveGroup(now time.Time, members []kmsg.LeaveGroupRequestMember) ([]kmsg.LeaveGroupResponseMember, Outcome) {
	var list []*Member
	seen := map[string]bool{}
	resp := make([]kmsg.LeaveGroupResponseMember, len(members))
	for i, req := range members {
		resp[i] = kmsg.NewLeaveGroupResponseMember()
		resp[i].MemberID, resp[i].InstanceID = req.MemberID, req.InstanceID
		m, err := g.leaving(req)
		if err != nil {
			resp[i].ErrorCode, _ = CodeOf(err)
			continue
		}
		if !seen[m.MemberID] {
			seen[m.MemberID] = true
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		return resp, Outcome{}
	}
	return resp, g.remove(list, now)
}

func (g *Group) leaving(req kmsg.LeaveGroupRequestMember) (*Member, error) {
	if req.InstanceID == nil {
		if m := g.state.members[req.MemberID]; m != nil {
			return m, nil
		}
		return nil, refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", req.MemberID, g.id)
	}
	m, ok := g.state.StaticMember(*req.InstanceID)
	if !ok {
		return nil, refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", *req.InstanceID)
	}
	if req.MemberID == "" {
		return m, nil
	}
	return m, checkInstance(m, req.MemberID)
}
