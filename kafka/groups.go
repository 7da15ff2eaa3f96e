package kafka

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"sync"
	"time"

	"millrace/engine/model"
	"millrace/kafka/group"
	"millrace/kafka/group/consumer"
	"millrace/meta/cluster"
)

// groups drives the coordinator: one goroutine owns it, takes what is asked of it in order, and has its changes
// replicated, one command at a time. What comes in while a command is on its way goes into the next one: commits
// of many members share a command and a sync.
type groups struct {
	server *Server

	mu      sync.Mutex
	queue   []func(*group.Coordinator, group.Now)
	stopped bool

	wake    chan struct{} // of size 1
	done    chan struct{} // closed when the goroutine has ended
	results chan error    // of the command on its way
	regexes regexResolver
}

func newGroups(s *Server) *groups {
	g := &groups{server: s, wake: make(chan struct{}, 1), done: make(chan struct{}), results: make(chan error, 1)}
	g.regexes.groups = g
	return g
}

// groupTopics are the topics of one image: the coordinator's goroutine takes a newer one between calls only.
type groupTopics struct{ image *cluster.Image }

func groupTopic(t *cluster.Topic) (consumer.Topic, bool) {
	if t == nil {
		return consumer.Topic{}, false
	}
	return consumer.Topic{ID: t.ID, Name: t.Name, Partitions: int32(len(t.Partitions))}, true
}

// Topic implements consumer.Topics.
func (g *groupTopics) Topic(name string) (consumer.Topic, bool) {
	return groupTopic(g.image.TopicByName([]byte(name)))
}

// TopicByID implements consumer.Topics.
func (g *groupTopics) TopicByID(id model.TopicID) (consumer.Topic, bool) {
	return groupTopic(g.image.TopicByID(id))
}

// now is the time of both clocks.
func (g *groups) now() group.Now {
	return group.Now{Monotonic: time.Since(g.server.started), Unix: g.server.o.Now().UnixMilli()}
}

// run lets f run on the coordinator's goroutine. It returns false, and f never runs, when that has stopped. What
// is queued is bounded by the bytes in flight of the requests that it is for.
func (g *groups) run(f func(*group.Coordinator, group.Now)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.queue = append(g.queue, f)
	g.nudge()
	return true
}

func (g *groups) nudge() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// stop refuses what waits and whatever comes, with NOT_COORDINATOR, and ends the goroutine.
func (g *groups) stop() {
	g.mu.Lock()
	was := g.stopped
	g.stopped = true
	g.mu.Unlock()
	if !was {
		g.nudge()
	}
	<-g.done
	g.regexes.running.Wait()
}

// ended tells whether this broker coordinates no more.
func (g *groups) ended() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped
}

// client is who sent a request.
func (r *request) client() group.Client {
	return group.Client{ID: r.clientID, Host: "/" + hostOf(r.remote)}
}

// hostOf returns an address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// take returns what is queued, and whether nothing will come any more.
func (g *groups) take(into []func(*group.Coordinator, group.Now)) (list []func(*group.Coordinator, group.Now), stopped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list, g.queue = g.queue, into[:0]
	return list, g.stopped
}

// serve is the goroutine.
func (g *groups) serve() {
	defer close(g.done)
	o := g.server.o.Config
	topics := &groupTopics{image: g.server.image()}
	c := group.New(group.Options{
		SessionTimeoutMin: o.GroupSessionMin, SessionTimeoutMax: o.GroupSessionMax, InitialDelay: o.GroupInitialDelay,
		MembersMax: o.GroupMembersMax, OffsetMetadataMax: o.OffsetMetadataMax,
		OffsetsRetention: o.OffsetsRetention, OffsetsCheck: o.OffsetsCheck, NewID: newMemberID,
		Topics: topics, Resolve: g.regexes.resolve, ConsumerConfig: g.server.consumerConfig,
	}, g.server.o.Groups, g.now())
	c.SweepTopics(func(id model.TopicID) bool { return topics.image.TopicByID(id) != nil })
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var spare []func(*group.Coordinator, group.Now)
	var command []byte
	var onItsWay uint64
	busy := false
	for {
		list, stopped := g.take(spare)
		now := g.now()
		for _, f := range list {
			topics.image = g.server.image()
			f(c, now)
		}
		clear(list)
		spare = list
		topics.image = g.server.image()
		c.Tick(now)
		if stopped {
			break
		}
		if !busy {
			if command, onItsWay = c.Take(command[:0]); len(command) > 0 {
				busy = true
				go g.propose(command)
			}
		}
		if at, ok := c.Deadline(); ok {
			timer.Reset(at - time.Since(g.server.started))
		}
		select {
		case <-g.wake:
		case <-timer.C:
		case err := <-g.results:
			if busy = false; err == nil {
				c.Applied(onItsWay)
				continue
			}
			g.server.o.Logger.Warn("groups: changes were not replicated", slog.Any("err", err))
			c.Lost(g.now())
		}
	}
	if busy {
		if err := <-g.results; err == nil {
			c.Applied(onItsWay)
		}
	}
	c.Lost(g.now())
}

// proposePause is how long the coordinator does not load its memory anew after a command failed: where the log
// cannot be written every command fails.
const proposePause = 250 * time.Millisecond

// propose replicates one command.
func (g *groups) propose(command []byte) {
	_, err := g.server.o.Proposer.Propose(g.server.ctx, g.server.o.GroupCode, command)
	if err != nil {
		pause := time.NewTimer(proposePause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-g.server.ctx.Done():
		}
	}
	g.results <- err
}

// onChange tells the coordinator of topics that came, went or grew, and of configs.
func (g *groups) onChange(d cluster.Delta) {
	if len(d.Topics) > 0 {
		g.run(func(c *group.Coordinator, _ group.Now) { c.TopicsChanged() })
	}
	if d.BrokerConfigs || d.GroupConfigs {
		g.run(func(c *group.Coordinator, _ group.Now) { c.ConfigsChanged() })
	}
	for _, t := range d.Topics {
		if t.Old != nil && t.New == nil {
			id := t.Old.ID
			g.run(func(c *group.Coordinator, _ group.Now) { c.DeleteTopic(id) })
		}
	}
}

// newMemberID returns a random text in the form of a UUID.
func newMemberID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// GroupStore returns the groups' durable state.
func (s *Server) GroupStore() *group.Store { return s.o.Groups }
