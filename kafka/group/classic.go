package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// state is where a classic group is in the life of a generation.
type state uint8

const (
	empty state = iota
	preparing
	completing
	stable
	stateCount
)

// String returns the name on the wire.
func (s state) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[s]
}

// classic is a group of the classic protocol.
type classic struct {
	id           string
	state        state
	stateSince   int64 // Unix milliseconds
	generation   int32
	protocolType string
	protocol     string // of the generation
	leader       string // member id, empty: none
	members      []*member
	byID         map[string]*member
	byInstance   map[string]*member
	pending      map[string]*timer // ids that were given out and not yet used (KIP-394)
	unsynced     map[string]bool   // members of the generation that have not sent their Sync
	added        bool              // a member came during the initial delay
	rebalance    timer             // ends the join, or the initial delay
	syncs        timer             // ends the wait for Sync requests
	subscribed   map[string]bool   // topics of the members; nil: not known
	written
}

// member of a classic group.
type member struct {
	id, instance, clientID, host string
	rebalanceTimeout             time.Duration
	sessionTimeout               time.Duration
	protocols                    []protocol
	assignment                   []byte
	fresh                        bool  // has not seen an answer to a join yet
	join                         Reply // waits for the generation
	sync                         Reply // waits for the assignment
	session                      timer
}

// protocol is one that a member can be led by, with what it says to the leader.
type protocol struct {
	name     string
	metadata []byte
}

func (c *Coordinator) newGroup(id string) *classic {
	g := &classic{id: id, byID: make(map[string]*member), byInstance: make(map[string]*member),
		pending: make(map[string]*timer), unsynced: make(map[string]bool), stateSince: c.now.Unix}
	c.groups[id] = g
	return g
}

// loadGroup brings a group back as it was when its last assignment was made. Every member has a new session.
func (c *Coordinator) loadGroup(g *classic, kept *Classic) {
	g.protocolType, g.protocol, g.generation, g.leader, g.stateSince = kept.ProtocolType, kept.Protocol, kept.Generation, kept.Leader, kept.Changed
	for i := range kept.Members {
		k := &kept.Members[i]
		m := &member{id: k.ID, instance: k.InstanceID, clientID: k.ClientID, host: k.Host,
			rebalanceTimeout: time.Duration(k.RebalanceTimeout) * time.Millisecond,
			sessionTimeout:   time.Duration(k.SessionTimeout) * time.Millisecond,
			protocols:        []protocol{{kept.Protocol, k.Metadata}}, assignment: k.Assignment}
		c.addMember(g, m)
		c.armSession(g, m, m.sessionTimeout)
	}
	g.leader = kept.Leader
	if len(g.members) > 0 {
		g.state = stable
	}
	g.subscribed = g.subscriptions()
}

// resume goes on from the newest generation that has begun. Where its assignment was not made the members must join
// again: what they hold is of an older one.
func (c *Coordinator) resume(g *classic, generation int32) {
	if generation <= g.generation {
		return
	}
	g.generation = generation
	if g.state == stable {
		c.transition(g, preparing)
		c.timers.set(&g.rebalance, c.now.Monotonic+g.rebalanceTimeout(), func() { c.completeJoin(g) })
	}
}

func (c *Coordinator) transition(g *classic, to state) {
	g.state, g.stateSince = to, c.now.Unix
}

// addMember puts m into g. The first becomes its leader.
func (c *Coordinator) addMember(g *classic, m *member) {
	if len(g.members) == 0 && g.leader == "" {
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != "" {
		g.byInstance[m.instance] = m
	}
	c.members++
	c.metadataBytes += m.bytes()
}

// dropMember takes m out of g and answers what it waits for.
func (c *Coordinator) dropMember(g *classic, m *member) {
	m.answerJoin(failedJoin(m.id, kerr.UnknownMemberID.Code))
	m.answerSync(failedSync(kerr.UnknownMemberID.Code))
	c.timers.stop(&m.session)
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
	delete(g.byID, m.id)
	if m.instance != "" && g.byInstance[m.instance] == m {
		delete(g.byInstance, m.instance)
	}
	delete(g.unsynced, m.id)
	if g.leader == m.id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
	c.members--
	c.metadataBytes -= m.bytes()
}

// forget drops a group that is empty and of which nothing is kept.
func (c *Coordinator) forget(g *classic) {
	for id := range g.pending {
		c.dropPending(g, id)
	}
	c.timers.stop(&g.rebalance)
	c.timers.stop(&g.syncs)
	delete(c.groups, g.id)
}

func (c *Coordinator) dropPending(g *classic, id string) {
	c.timers.stop(g.pending[id])
	delete(g.pending, id)
	c.members--
}

func (m *member) bytes() int {
	n := len(m.assignment)
	for i := range m.protocols {
		n += len(m.protocols[i].name) + len(m.protocols[i].metadata)
	}
	return n
}

// metadata returns what m says under a protocol.
func (m *member) metadata(name string) []byte {
	for i := range m.protocols {
		if m.protocols[i].name == name {
			return m.protocols[i].metadata
		}
	}
	return nil
}

// matches tells whether m can be led by just these protocols, with the same metadata.
func (m *member) matches(list []protocol) bool {
	return slices.EqualFunc(m.protocols, list, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

func (m *member) answerJoin(r *kmsg.JoinGroupResponse) {
	if m.join != nil {
		reply := m.join
		m.join = nil
		reply(r)
	}
}

func (m *member) answerSync(r *kmsg.SyncGroupResponse) {
	if m.sync != nil {
		reply := m.sync
		m.sync = nil
		reply(r)
	}
}

// supports tells whether a member with these protocols can be in g.
func (g *classic) supports(protocolType string, list []protocol) bool {
	if g.state == empty || len(g.members) == 0 {
		return protocolType != "" && len(list) > 0
	}
	return protocolType == g.protocolType && slices.ContainsFunc(list, func(p protocol) bool { return g.allSupport(p.name) })
}

func (g *classic) allSupport(name string) bool {
	return !slices.ContainsFunc(g.members, func(m *member) bool {
		return !slices.ContainsFunc(m.protocols, func(p protocol) bool { return p.name == name })
	})
}

// choose returns the protocol that most members like best of those that all support; of equals the first by name.
func (g *classic) choose() string {
	supporters, votes := map[string]int{}, map[string]int{}
	for i, m := range g.members {
		for _, p := range m.protocols {
			if supporters[p.name] == i { // all before it, and it has not named this one yet
				supporters[p.name]++
			}
		}
	}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if supporters[p.name] == len(g.members) {
				votes[p.name]++
				break
			}
		}
	}
	best := ""
	for name, n := range votes {
		if n > votes[best] || n == votes[best] && name < best {
			best = name
		}
	}
	return best
}

// joining counts the members whose Join waits.
func (g *classic) joining() int {
	n := 0
	for _, m := range g.members {
		if m.join != nil {
			n++
		}
	}
	return n
}

// complete tells whether nobody is missing who could still join.
func (g *classic) complete() bool { return len(g.pending) == 0 && g.joining() == len(g.members) }

// rebalanceTimeout is that of the slowest member.
func (g *classic) rebalanceTimeout() time.Duration {
	var most time.Duration
	for _, m := range g.members {
		most = max(most, m.rebalanceTimeout)
	}
	return most
}

// validate tells whether a request comes from a member (KIP-345 for those with an instance id).
func (g *classic) validate(id string, instance *string) (*member, error) {
	if instance != nil {
		m := g.byInstance[*instance]
		switch {
		case m == nil:
			return nil, kerr.UnknownMemberID
		case m.id != id:
			return nil, kerr.FencedInstanceID
		}
		return m, nil
	}
	if m := g.byID[id]; m != nil {
		return m, nil
	}
	return nil, kerr.UnknownMemberID
}

// subscriptions returns the topics that the members of a consumer group read, nil where that cannot be told: the
// metadata is the clients' own affair and only read here, so that offsets of topics they left can expire.
func (g *classic) subscriptions() map[string]bool {
	if g.protocolType != "consumer" || g.protocol == "" {
		return nil
	}
	topics := make(map[string]bool)
	for _, m := range g.members {
		var meta kmsg.ConsumerMemberMetadata
		if err := meta.ReadFrom(m.metadata(g.protocol)); err != nil {
			return nil
		}
		for _, t := range meta.Topics {
			topics[t] = true
		}
	}
	return topics
}

// keep emits the durable state of g.
func (c *Coordinator) keep(g *classic) {
	c.emit(&g.written, Change{kind: kindPutClassic, Group: g.id, Classic: g.durable()})
}

// durable is what is kept of g.
func (g *classic) durable() *Classic {
	k := &Classic{ProtocolType: g.protocolType, Protocol: g.protocol, Generation: g.generation, Leader: g.leader, Changed: g.stateSince}
	for _, m := range g.members {
		k.Members = append(k.Members, ClassicMember{ID: m.id, InstanceID: m.instance, ClientID: m.clientID, Host: m.host,
			RebalanceTimeout: int32(m.rebalanceTimeout / time.Millisecond), SessionTimeout: int32(m.sessionTimeout / time.Millisecond),
			Metadata: m.metadata(g.protocol), Assignment: m.assignment})
	}
	return k
}
