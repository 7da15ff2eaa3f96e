package consumer

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
)

type simPartition struct {
	topic     model.TopicID
	partition int32
}

// simClient is a client as it sees itself.
type simClient struct {
	id, instance string
	classic      bool
	eager        bool
	epoch        int32
	names        []string
	regex        string
	held         map[simPartition]bool // what it works on, with what it has not given up yet
	assigned     map[simPartition]bool // what it was told last
	joined       bool
	synced       bool
	full         bool // next heartbeat is a full one
	heard        time.Time
}

type sim struct {
	*world
	r       *rand.Rand
	clients []*simClient
	next    int
	epochs  map[string]int32
	epoch   int32
	changed int  // changes so far
	calm    bool // no more faults
}

func (s *sim) chance(percent int) bool { return s.r.IntN(100) < percent }

func (s *sim) subscription(c *simClient) {
	c.names, c.regex = nil, ""
	for _, name := range slices.Sorted(maps.Keys(s.topics.byName)) {
		if s.chance(60) {
			c.names = append(c.names, name)
		}
	}
	if !c.classic && s.chance(20) {
		c.regex = []string{"t.*", "t[0-3]", "x|t1"}[s.r.IntN(3)]
	}
	if c.names == nil {
		c.names = []string{}
	}
	c.full = true
}

func (s *sim) newClient() *simClient {
	s.next++
	c := &simClient{id: fmt.Sprint("c", s.next), classic: s.chance(25), eager: s.chance(50)}
	if s.chance(30) {
		c.instance = fmt.Sprint("i", s.r.IntN(4))
		s.clients = slices.DeleteFunc(s.clients, func(o *simClient) bool { return o.instance == c.instance && s.chance(70) })
	}
	c.reset()
	s.subscription(c)
	return c
}

func (c *simClient) reset() {
	c.held, c.assigned = map[simPartition]bool{}, map[simPartition]bool{}
	c.epoch, c.joined, c.synced = 0, false, false
}

// finish is called with the outcome of each operation.
func (s *sim) finish(o Outcome) {
	if o.Classic != nil {
		s.world.stored = &State{}
		g, err := FromClassic("g", s.options(), *o.Classic, s.now)
		if err != nil {
			s.t.Fatalf("back from classic: %v", err)
		}
		s.g = g
		c := s.newClient()
		c.classic, c.instance = false, ""
		s.clients = append(s.clients, c)
		s.heartbeat(c, false)
		return
	}
	s.changed += len(o.Changes)
	s.settle(o)
	s.check()
}

func (s *sim) check() {
	st := s.g.state
	if st.epoch < s.epoch {
		s.t.Fatalf("group epoch went from %d to %d", s.epoch, st.epoch)
	}
	s.epoch = st.epoch
	owners := map[simPartition]string{}
	for _, c := range s.clients {
		m := st.members[c.id]
		if m == nil || !c.joined {
			continue
		}
		if m.Epoch < s.epochs[c.id] && m.Epoch != epochLeaveStatic {
			s.t.Fatalf("epoch of %s went from %d to %d", c.id, s.epochs[c.id], m.Epoch)
		}
		s.epochs[c.id] = max(m.Epoch, s.epochs[c.id])
		for p := range c.held {
			if other, taken := owners[p]; taken {
				s.t.Fatalf("%v is worked on by %s and %s", p, other, c.id)
			}
			owners[p] = c.id
		}
	}
}

func (s *sim) request(c *simClient) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", c.id, c.epoch
	req.RebalanceTimeoutMillis = -1
	if c.instance != "" {
		req.InstanceID = &c.instance
	}
	if c.epoch == 0 || c.full {
		req.RebalanceTimeoutMillis = 30_000
		req.SubscribedTopicNames = c.names
		req.SubscribedTopicRegex = &c.regex
	}
	if c.epoch == 0 || c.full || s.calm || s.chance(50) {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for p := range c.held {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: p.topic, Partitions: []int32{p.partition}})
		}
	}
	return req
}

// heartbeat is one exchange of a member of the consumer protocol. Where the reply is lost the client knows
// nothing of it.
func (s *sim) heartbeat(c *simClient, lost bool) {
	if c.epoch == 0 {
		c.held, c.assigned = map[simPartition]bool{}, map[simPartition]bool{}
	}
	req := s.request(c)
	resp, o, err := s.g.Heartbeat(s.now, Client{ID: "client", Host: "/1"}, req)
	if err == nil {
		c.joined = c.joined || !lost
	}
	switch {
	case errors.Is(err, kerr.FencedMemberEpoch), errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
		c.reset()
		c.full = true
		if errors.Is(err, kerr.FencedInstanceID) {
			s.next++
			c.id = fmt.Sprint("c", s.next)
		}
	case errors.Is(err, kerr.UnreleasedInstanceID):
	case err != nil:
		s.t.Fatalf("heartbeat of %s at %d: %v", c.id, c.epoch, err)
	case lost:
		c.full = true
	default:
		c.epoch, c.full = resp.MemberEpoch, false
		if resp.Assignment != nil {
			c.assigned = map[simPartition]bool{}
			for _, t := range resp.Assignment.Topics {
				for _, p := range t.Partitions {
					c.assigned[simPartition{t.TopicID, p}] = true
					c.held[simPartition{t.TopicID, p}] = true
				}
			}
		}
	}
	s.finish(o)
}

// ack lets the client give up what it was told to.
func (c *simClient) ack() {
	maps.DeleteFunc(c.held, func(p simPartition, _ bool) bool { return !c.assigned[p] })
}

func (s *sim) leave(c *simClient, epoch int32) {
	req := s.request(c)
	req.MemberEpoch = epoch
	_, o, err := s.g.Heartbeat(s.now, Client{}, req)
	c.reset()
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) && !errors.Is(err, kerr.FencedInstanceID) {
		s.t.Fatalf("leave: %v", err)
	}
	s.finish(o)
}

func (s *sim) metadata(c *simClient) []byte {
	m := kmsg.ConsumerMemberMetadata{Version: 1, Topics: c.names}
	for p := range c.held {
		if t, ok := s.topics.TopicByID(p.topic); ok {
			m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: t.Name, Partitions: []int32{p.partition}})
		}
	}
	return m.AppendTo(nil)
}

// classicStep is one exchange of a classic member: a join, a sync or a heartbeat.
func (s *sim) classicStep(c *simClient) {
	// Like a real client, it gives up what it has and joins again when it was not answered for a session.
	if gap := s.now.Sub(c.heard); gap >= 30*time.Second || gap < 0 {
		c.held, c.joined, c.synced = map[simPartition]bool{}, false, false
	}
	c.heard = s.now
	var o Outcome
	var err error
	var instance *string
	if c.instance != "" {
		instance = &c.instance
	}
	switch {
	case !c.joined:
		if c.eager {
			c.held = map[simPartition]bool{}
		}
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID, req.InstanceID, req.ProtocolType = 9, "g", c.id, instance, ProtocolType
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
		if c.instance != "" && c.epoch == 0 {
			req.MemberID = ""
		}
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: s.metadata(c)}}
		var resp *kmsg.JoinGroupResponse
		if resp, o, err = s.g.JoinGroup(s.now, Client{}, req); err == nil {
			c.id, c.epoch, c.joined, c.synced = resp.MemberID, resp.Generation, true, false
		}
	case !c.synced:
		req := kmsg.NewPtrSyncGroupRequest()
		req.Version, req.MemberID, req.InstanceID, req.Generation = 5, c.id, instance, c.epoch
		var resp *kmsg.SyncGroupResponse
		if resp, err = s.g.SyncGroup(s.now, req); err == nil {
			got, bad := parseAssignment(resp.MemberAssignment, s.topics)
			if bad != nil {
				s.t.Fatal(bad)
			}
			c.held = map[simPartition]bool{}
			for topic, list := range got {
				for _, p := range list {
					c.held[simPartition{topic, p}] = true
				}
			}
			c.assigned, c.synced = maps.Clone(c.held), true
		}
	default:
		o, err = s.g.ClassicHeartbeat(s.now, c.id, instance, c.epoch)
	}
	switch {
	case errors.Is(err, kerr.RebalanceInProgress):
		c.joined = false
	case errors.Is(err, kerr.IllegalGeneration):
		c.held, c.joined, c.synced = map[simPartition]bool{}, false, false
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
		c.reset()
		s.next++
		c.id = fmt.Sprint("c", s.next)
	case err != nil:
		s.t.Fatalf("classic %s: %v", c.id, err)
	}
	s.finish(o)
}

func (s *sim) changeTopics() {
	switch names := slices.Sorted(maps.Keys(s.topics.byName)); s.r.IntN(3) {
	case 0:
		s.topics.create(fmt.Sprint("t", s.r.IntN(6)), 1+s.r.IntN(5))
	case 1:
		s.topics.grow(names[s.r.IntN(len(names))], 1+s.r.IntN(3))
	case 2:
		if len(names) > 1 {
			delete(s.topics.byName, names[s.r.IntN(len(names))])
		}
	}
	s.g.TopicsChanged()
}

func (s *sim) step() {
	s.now = s.now.Add(time.Duration(s.r.IntN(4000)) * time.Millisecond)
	if s.chance(2) {
		s.now = s.now.Add(time.Duration(s.r.IntN(100)-20) * time.Second)
	}
	s.finish(s.g.Expire(s.now))
	if len(s.clients) == 0 || s.chance(8) && len(s.clients) < 8 {
		s.clients = append(s.clients, s.newClient())
	}
	i := s.r.IntN(len(s.clients))
	c := s.clients[i]
	switch n := s.r.IntN(100); {
	case n < 3:
		s.changeTopics()
	case n < 6:
		s.subscription(c)
	case n < 8: // crash
		s.clients = slices.Delete(s.clients, i, i+1)
	case n < 10 && c.joined && !c.classic:
		s.leave(c, epochLeave)
	case n < 12 && c.joined && !c.classic && c.instance != "":
		s.leave(c, epochLeaveStatic)
		s.next++
		c.id = fmt.Sprint("c", s.next)
	case n < 14 && c.joined && c.classic:
		_, o := s.g.LeaveGroup(s.now, []kmsg.LeaveGroupRequestMember{{MemberID: c.id}})
		c.reset()
		s.finish(o)
	case n < 16 && c.epoch > 0 && !c.classic: // back under an old epoch
		c.epoch--
		c.full = true
	case n < 18:
		s.reload()
	case n < 20: // the other protocol, as after an upgrade of the program
		if !c.classic && c.joined && c.epoch > 0 {
			s.leave(c, epochLeave)
		}
		c.reset()
		c.classic = !c.classic
		s.next++
		c.id = fmt.Sprint("c", s.next)
		s.subscription(c)
	case c.classic:
		s.classicStep(c)
	case n < 50:
		c.ack()
		fallthrough
	default:
		s.heartbeat(c, s.chance(10))
	}
}

// converge lets all that is left work without faults and checks that each partition has its owner.
func (s *sim) converge() {
	s.calm = true
	for quiet, round := 0, 0; round < 60 && quiet < 4; round++ {
		before := s.changed
		s.now = s.now.Add(7 * time.Second)
		s.finish(s.g.Expire(s.now))
		for _, c := range s.clients {
			if c.classic {
				for range 3 {
					s.classicStep(c)
				}
				continue
			}
			c.ack()
			s.heartbeat(c, false)
		}
		if quiet++; s.changed != before || round < 7 {
			quiet = 0
		}
	}
	s.compare()
	st := s.g.state
	if len(s.clients) == 0 {
		return
	}
	if phase := s.g.Phase(); phase != PhaseStable {
		s.t.Fatalf("not stable in the end but %s: %+v", phase, s.g.Describe())
	}
	held := map[simPartition]int{}
	for _, c := range s.clients {
		for p := range c.held {
			held[p]++
		}
	}
	for name, topic := range s.topics.byName {
		if !st.Subscribed(name) {
			continue
		}
		for p := range topic.Partitions {
			if held[simPartition{topic.ID, p}] != 1 {
				s.t.Fatalf("%s-%d is worked on by %d clients in the end", name, p, held[simPartition{topic.ID, p}])
			}
		}
	}
}

func (s *sim) distinctInstances() {
	seen := map[string]bool{}
	s.clients = slices.DeleteFunc(s.clients, func(c *simClient) bool {
		if c.instance == "" {
			return false
		}
		old := seen[c.instance]
		seen[c.instance] = true
		return old
	})
}

func TestSimulation(t *testing.T) {
	histories := 2000
	if testing.Short() {
		histories = 200
	}
	for seed := range uint64(histories) {
		runHistory(t, seed)
		if t.Failed() {
			return
		}
	}
}

func runHistory(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: go test -run TestSimulation ./kafka/group/consumer", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 848))
	s := &sim{r: r, epochs: map[string]int32{}}
	s.world = newWorld(t, newTopics("t1", 1+r.IntN(6), "t2", r.IntN(6)), func(c *Config) {
		if r.IntN(2) == 0 {
			c.AssignmentInterval = time.Second
		}
		if r.IntN(3) == 0 {
			c.Assignors = []string{"range", "uniform"}
		}
	})
	for range 100 {
		s.step()
	}
	s.distinctInstances()
	s.converge()
}
