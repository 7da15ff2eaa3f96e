package group

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
	"millrace/kafka/group/consumer"
)

// Now is the time of a call: monotonic for sessions and waits, so that a clock that is set does not end them, and
// Unix milliseconds for what is kept.
type Now struct {
	Monotonic time.Duration
	Unix      int64
}

// Client is who sends a request.
type Client struct {
	ID   string
	Host string // as it is shown, "/10.0.0.1"
}

// Reply gives a request its answer, once.
type Reply func(kmsg.Response)

// Options are the bounds of groups, with the broker settings that they are.
type Options struct {
	SessionTimeoutMin, SessionTimeoutMax time.Duration // group.min.session.timeout.ms, group.max.session.timeout.ms
	InitialDelay                         time.Duration // group.initial.rebalance.delay.ms
	MembersMax                           int           // group.max.size
	OffsetMetadataMax                    int           // offset.metadata.max.bytes
	OffsetsRetention                     time.Duration // offsets.retention.minutes
	OffsetsCheck                         time.Duration // offsets.retention.check.interval.ms
	// NewID returns a text that no other member has been given.
	NewID func() string
	// Topics are those that exist: the same ones for the length of a call.
	Topics consumer.Topics
	// Resolve tells, by Resolved and some time later, what regular expressions of a group stand for.
	Resolve func(group string, regexes []string)
	// ConsumerConfig returns the bounds of a group of the consumer protocol.
	ConsumerConfig func(group string) consumer.Config
}

// Coordinator holds the groups. It belongs to one goroutine.
type Coordinator struct {
	o         Options
	store     *Store
	groups    map[string]*classic       // an id is here
	consumers map[string]*consumerGroup // or there
	started   time.Time                 // of the monotonic clock, as groups of the consumer protocol see it
	timers    timers
	now       Now
	expiry    timer

	changes []Change // not yet taken by Take
	emitted uint64   // number of the last change
	taken   uint64   // of the last that Take gave away
	applied uint64   // of the last that is in the store
	waiting []effect // in order of after

	members       int // of all groups, and ids that were given out
	metadataBytes int // of all members
	metrics       Metrics
}

// effect is what happens once the changes up to after are applied.
type effect struct {
	after uint64
	run   func()
	lost  func() // instead, when they are not
}

// Metrics count what happened since the coordinator was made, and what there is.
type Metrics struct {
	Rebalances     int64
	Commits        int64 // offsets
	Expired        int64 // offsets
	MembersExpired int64
	Refused        int64 // for a limit of this package
	Members        int
	States         map[GroupState]int // groups
}

// GroupState tells groups apart for Metrics.
type GroupState struct{ Type, State string }

// written is the part of a group that knows of its changes.
type written struct {
	changed uint64 // number of the last change that was emitted
}

// Bounds on what clients can make a coordinator keep.
const (
	groupsMax        = 200_000
	membersMax       = 200_000
	metadataBytesMax = 128 << 20
	recordBytesMax   = 16 << 20 // of what a group's members say, and as much for what they are assigned
)

// New returns a coordinator of the groups in store.
func New(o Options, store *Store, now Now) *Coordinator {
	c := &Coordinator{o: o, store: store}
	c.load(now)
	return c
}

// load makes the memory anew from the store.
func (c *Coordinator) load(now Now) {
	c.now = now
	c.groups = make(map[string]*classic)
	c.consumers = make(map[string]*consumerGroup)
	c.started = time.UnixMilli(now.Unix).Add(-now.Monotonic)
	c.timers = timers{}
	c.expiry = timer{}
	c.members, c.metadataBytes = 0, 0
	c.changes, c.waiting = nil, nil
	c.taken, c.applied = c.emitted, c.emitted
	for _, k := range c.store.all() {
		if k.consumer != nil {
			c.loadConsumer(k.id, k.consumer)
			continue
		}
		g := c.newGroup(k.id)
		if k.classic != nil {
			c.loadGroup(g, k.classic)
		}
		c.resume(g, k.generation)
	}
	c.timers.set(&c.expiry, now.Monotonic+c.o.OffsetsCheck, c.expireOffsets)
}

// Tick does what is due.
func (c *Coordinator) Tick(now Now) {
	c.now = now
	for e := c.timers.due(now.Monotonic); e != nil; e = c.timers.due(now.Monotonic) {
		fire := e.fire
		e.fire = nil
		fire()
	}
}

// Deadline returns the monotonic time at which Tick has something to do.
func (c *Coordinator) Deadline() (at time.Duration, ok bool) { return c.timers.next() }

// Take returns the changes that are to be applied next, encoded as one command appended to dst, and the number to
// call Applied with; nil when there are none.
func (c *Coordinator) Take(dst []byte) (command []byte, upTo uint64) {
	if len(c.changes) == 0 {
		return nil, c.taken
	}
	n, size := 0, 0
	for n < len(c.changes) && n < takeMax && size < takeBytesMax {
		size += c.changes[n].size()
		n++
	}
	command = AppendCommand(dst, c.changes[:n])
	c.taken += uint64(n)
	if n == len(c.changes) {
		clear(c.changes)
		c.changes = c.changes[:0]
	} else {
		c.changes = append([]Change(nil), c.changes[n:]...)
	}
	return command, c.taken
}

// Bounds on one command: it ends with the change that reaches one of them.
const (
	takeMax      = 10_000
	takeBytesMax = 8 << 20
)

// Applied tells that the changes up to a number are in the store, and gives the replies that waited for them.
func (c *Coordinator) Applied(upTo uint64) {
	c.applied = upTo
	n := 0
	for ; n < len(c.waiting) && c.waiting[n].after <= upTo; n++ {
		c.waiting[n].run()
		c.waiting[n] = effect{}
	}
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
}

// Lost tells that changes may not have been applied, or that this node is not the leader any more: all who wait
// are refused with NOT_COORDINATOR, and the memory is loaded from the store.
func (c *Coordinator) Lost(now Now) {
	waiting := c.waiting
	c.waiting = nil
	for i := range waiting {
		if waiting[i].lost != nil {
			waiting[i].lost()
		}
	}
	for _, g := range c.groups {
		for _, m := range g.members {
			m.answerJoin(failedJoin(m.id, kerr.NotCoordinator.Code))
			m.answerSync(failedSync(kerr.NotCoordinator.Code))
		}
	}
	c.load(now)
}

// emit adds a change of a group.
func (c *Coordinator) emit(of *written, change Change) {
	c.emitted++
	of.changed = c.emitted
	c.changes = append(c.changes, change)
}

// settle runs f once all that was emitted for a group is applied. Where that fails lost runs instead.
func (c *Coordinator) settle(of *written, f, lost func()) {
	if of.changed <= c.applied {
		f()
		return
	}
	c.waiting = append(c.waiting, effect{after: c.emitted, run: f, lost: lost})
}

// DeleteTopic forgets all offsets of a topic that was deleted.
func (c *Coordinator) DeleteTopic(topic model.TopicID) {
	c.emitted++
	c.changes = append(c.changes, Change{kind: kindDeleteTopic, Topic: topic})
}

// SweepTopics forgets the offsets of topics that are no more: those deleted while nobody coordinated.
func (c *Coordinator) SweepTopics(exists func(model.TopicID) bool) {
	for _, id := range c.store.topicsKept() {
		if !exists(id) {
			c.DeleteTopic(id)
		}
	}
}

// Metrics returns the figures of now.
func (c *Coordinator) Metrics() Metrics {
	m := c.metrics
	m.Members = c.members
	m.States = make(map[GroupState]int)
	for s := state(0); s < stateCount; s++ {
		m.States[GroupState{typeClassic, s.String()}] = 0
	}
	for _, g := range c.groups {
		m.States[GroupState{typeClassic, g.state.String()}]++
	}
	for _, phase := range consumer.Phases() {
		m.States[GroupState{typeConsumer, phase}] = 0
	}
	for _, g := range c.consumers {
		m.States[GroupState{typeConsumer, g.Phase()}]++
	}
	return m
}

// Summary is what a list shows of a group.
type Summary struct {
	ID, Type, State string
	Members         int
}

// Summaries lists the groups by id.
func (c *Coordinator) Summaries() []Summary {
	list := make([]Summary, 0, c.groupCount())
	for id, g := range c.groups {
		list = append(list, Summary{id, typeClassic, g.state.String(), len(g.members)})
	}
	for id, g := range c.consumers {
		list = append(list, Summary{id, typeConsumer, g.Phase(), g.MemberCount()})
	}
	slices.SortFunc(list, func(a, b Summary) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// The types of groups, as ListGroups names them.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// code returns the number of a protocol error, 0 for nil.
func code(err error) int16 {
	var e *kerr.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
