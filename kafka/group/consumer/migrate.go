package consumer

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/engine/model"
)

// ClassicGroup is what a classic group of consumers and a consumer group can tell each other.
type ClassicGroup struct {
	Generation int32
	// Protocol is the chosen protocol. Of a classic group that never chose one it is empty.
	Protocol string
	Leader   string // only of a group that a consumer group became
	// Rebalance says that the classic group must rebalance at once: its members have to rejoin. Otherwise it is
	// stable.
	Rebalance bool
	Members   []ClassicGroupMember // in the order of their ids
}

// ClassicGroupMember is a member of the classic protocol with its assignment.
type ClassicGroupMember struct {
	MemberID         string
	InstanceID       string // empty: not static
	ClientID         string
	ClientHost       string
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
	Protocols        []Protocol
	Assignment       []byte
}

// CanUpgrade says whether a classic group of that many members may become a consumer group. The caller also
// looks whether its protocol type is ProtocolType.
func (c Config) CanUpgrade(members int) bool {
	return c.Policy.UpgradeEnabled() && members <= c.MembersMax
}

// FromClassic makes a consumer group of a classic one. The members keep their assignments; the group epoch is
// the generation. Its changes are those of the first operation on it, the heartbeat that brought the change
// about, so when that is refused the Group is thrown away and the classic group lives on. The caller deletes the
// classic group together with these changes, and answers its waiting joins and syncs REBALANCE_IN_PROGRESS.
//
// GROUP_ID_NOT_FOUND says that a member's metadata or assignment cannot be read.
func FromClassic(id string, opts Options, c ClassicGroup, now time.Time) (*Group, error) {
	g := New(id, opts, nil, now)
	epoch := max(c.Generation, 0)
	taken := map[model.TopicID]map[int32]bool{}
	g.emit(GroupEpoch{Epoch: epoch})
	for i := range c.Members {
		m := &c.Members[i]
		e, err := parseMetadata(m.metadata(c.Protocol))
		if err != nil {
			return nil, refuse(kerr.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group: %v.", id, err)
		}
		partitions, err := parseAssignment(m.Assignment, opts.Topics)
		if err != nil {
			return nil, refuse(kerr.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group: %v.", id, err)
		}
		g.emit(PutMember{Subscription{MemberID: m.MemberID, InstanceID: m.InstanceID, RackID: e.rack, ClientID: m.ClientID, ClientHost: m.ClientHost,
			RebalanceTimeout: m.RebalanceTimeout, Topics: e.topics, Classic: &ClassicMember{SessionTimeout: m.SessionTimeout, Protocols: m.Protocols}}})
		// A leader may have given a partition to two members. The first keeps it.
		owned := Owned{}
		for topic, list := range partitions {
			for _, p := range list {
				if taken[topic] == nil {
					taken[topic] = map[int32]bool{}
				}
				if !taken[topic][p] {
					taken[topic][p] = true
					owned.put(topic, p, epoch)
				}
			}
		}
		g.emit(TargetAssignment{MemberID: m.MemberID, Partitions: owned.lists()})
		g.emit(CurrentAssignment{MemberID: m.MemberID, Progress: Progress{Epoch: epoch, PreviousEpoch: epoch, Assigned: owned, Pending: Owned{}}})
		g.startSession(g.state.members[m.MemberID], now)
	}
	g.emit(TargetEpoch{Epoch: epoch})
	return g, nil
}

// metadata is the member's metadata for the protocol, or for its first one.
func (m *ClassicGroupMember) metadata(protocol string) []byte {
	for _, p := range m.Protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	if len(m.Protocols) == 0 {
		return nil
	}
	return m.Protocols[0].Metadata
}

// OnlyClassicWithout says whether members are left without those named, and all of them use the classic
// protocol.
func (g *Group) OnlyClassicWithout(gone ...string) bool {
	left := 0
	for id, m := range g.state.members {
		if slices.Contains(gone, id) {
			continue
		}
		if m.Classic == nil {
			return false
		}
		left++
	}
	return left > 0
}

// downgrade is the classic group that is left when members go, or nil where there is none.
func (g *Group) downgrade(gone map[string]bool) *ClassicGroup {
	left := 0
	for id, m := range g.state.members {
		if gone[id] {
			continue
		}
		if m.Classic == nil {
			return nil
		}
		left++
	}
	if left == 0 || left > g.opts.Config.ClassicMax || !g.opts.Config.Policy.DowngradeEnabled() {
		return nil
	}
	return g.classicGroup(gone, true)
}

// classicGroup is the group without some members as a classic one. All that stay use the classic protocol.
//
// The assignments are what the members own, not their targets as in Kafka: were the group to come back
// before its rebalance is done, a target could name what another member still works on. Where owned and
// target differ, the group must rebalance, or something would stay unowned.
func (g *Group) classicGroup(gone map[string]bool, rebalance bool) *ClassicGroup {
	c := &ClassicGroup{Generation: g.state.epoch, Rebalance: rebalance}
	var members []*Member
	for _, id := range g.state.MemberIDs() {
		if !gone[id] {
			members = append(members, g.state.members[id])
		}
	}
	c.Protocol, c.Leader = selectProtocol(members), members[0].MemberID
	for _, m := range members {
		cm := ClassicGroupMember{MemberID: m.MemberID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			SessionTimeout: m.Classic.SessionTimeout, RebalanceTimeout: m.RebalanceTimeout, Protocols: m.Classic.Protocols}
		e, err := parseMetadata(cm.metadata(c.Protocol))
		g.must(err) // it was read when the member joined
		owned := m.all().lists()
		if !equalAssignments(owned, g.state.target[m.MemberID]) {
			c.Rebalance = true
		}
		cm.Assignment = appendAssignment(e.version, owned, g.opts.Topics)
		c.Members = append(c.Members, cm)
	}
	return c
}

// selectProtocol is the protocol that most members like best of those that all support.
func selectProtocol(members []*Member) string {
	support := map[string]int{}
	for _, m := range members {
		for _, p := range m.Classic.Protocols {
			support[p.Name]++
		}
	}
	votes := map[string]int{}
	best := ""
	for _, m := range members {
		for _, p := range m.Classic.Protocols {
			if support[p.Name] != len(members) {
				continue
			}
			if votes[p.Name]++; best == "" || votes[p.Name] > votes[best] {
				best = p.Name
			}
			break
		}
	}
	if best == "" {
		return members[0].Classic.Protocols[0].Name
	}
	return best
}

// end deletes the group in favour of a classic one.
func (g *Group) end(c *ClassicGroup) Outcome {
	g.emit(DeleteGroup{})
	clear(g.timers)
	g.next = time.Time{}
	o := g.finish()
	o.Classic = c
	return o
}

// waitsForOthers says whether somebody still owns a partition of the member's target.
func (s *State) waitsForOthers(m *Member) bool {
	for topic, partitions := range s.target[m.MemberID] {
		for _, p := range partitions {
			if _, has := m.Assigned.Has(topic, p); !has && s.Owner(topic, p) != "" {
				return true
			}
		}
	}
	return false
}
