package group

import (
	"strings"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/engine/model"
	"millrace/kafka/group/consumer"
)

// Commit is a request to keep offsets.
type Commit struct {
	Group      string
	MemberID   string
	InstanceID *string
	Generation int32 // below 0: of nobody's, for clients that only keep offsets here
	Version    int16 // of the OffsetCommit request
	Retention  int64 // milliseconds; -1: the broker's
	Offsets    []CommitOffset
}

// CommitOffset is one offset of a Commit, of a partition that exists.
type CommitOffset struct {
	Topic       model.TopicID
	Name        string
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// Commit keeps offsets. done gets the code of each, in order, once they are kept.
func (c *Coordinator) Commit(now Now, req *Commit, done func(codes []int16)) {
	c.now = now
	w, err := c.committer(req)
	codes := make([]int16, len(req.Offsets))
	fill := func(to int16) {
		for i := range codes {
			codes[i] = to
		}
		done(codes)
	}
	if err != nil {
		fill(code(err))
		return
	}
	expires := int64(-1)
	if req.Retention >= 0 {
		expires = now.Unix + req.Retention
	}
	for i := range req.Offsets {
		o := &req.Offsets[i]
		if longer(o.Metadata, c.o.OffsetMetadataMax) {
			codes[i] = kerr.OffsetMetadataTooLarge.Code
			continue
		}
		c.metrics.Commits++
		c.emit(w, Change{kind: kindPutOffset, Group: req.Group, Topic: o.Topic, TopicName: o.Name, Partition: o.Partition,
			Offset: Offset{Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: strings.Clone(o.Metadata), Committed: now.Unix, Expires: expires}})
	}
	if g := c.groups[req.Group]; g != nil {
		c.forgetUnused(g)
	}
	c.settle(w, func() { done(codes) }, func() { fill(kerr.NotCoordinator.Code) })
}

// longer tells whether s has more characters than most, as Java counts them: in units of UTF-16.
func longer(s string, most int) bool {
	if len(s) <= most {
		return false
	}
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n > most
}

// committer returns where the changes are counted of the group that a commit is for, when its sender may commit
// there.
func (c *Coordinator) committer(req *Commit) (*written, error) {
	if g := c.consumers[req.Group]; g != nil {
		return &g.written, g.mayCommit(req)
	}
	g, err := c.classicCommitter(req)
	if err != nil {
		return nil, err
	}
	return &g.written, nil
}

// mayCommit judges the sender. Where one partition is not its own the whole request is refused.
func (g *consumerGroup) mayCommit(req *Commit) error {
	check, err := g.State().CheckCommit(req.MemberID, req.InstanceID, req.Generation, false, req.Version)
	for i := 0; err == nil && i < len(req.Offsets); i++ {
		err = check.Partition(req.Offsets[i].Topic, req.Offsets[i].Partition)
	}
	return err
}

func (c *Coordinator) classicCommitter(req *Commit) (*classic, error) {
	g := c.groups[req.Group]
	if g == nil {
		switch {
		case req.Generation >= 0 && req.Version >= 9:
			return nil, kerr.GroupIDNotFound
		case req.Generation >= 0:
			return nil, kerr.IllegalGeneration
		case c.groupCount() >= groupsMax:
			c.metrics.Refused++
			return nil, kerr.GroupMaxSizeReached
		}
		return c.newGroup(req.Group), nil
	}
	if req.Generation < 0 && g.state == empty {
		return g, nil
	}
	if req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil {
		return nil, kerr.UnknownMemberID
	}
	m, err := g.validate(req.MemberID, req.InstanceID)
	switch {
	case err != nil:
		return nil, err
	case req.Generation != g.generation:
		return nil, kerr.IllegalGeneration
	case g.state == completing:
		return nil, kerr.RebalanceInProgress
	}
	if m.join == nil && m.sync == nil {
		c.armSession(g, m, m.sessionTimeout)
	}
	return g, nil
}

// Place names a committed offset.
type Place struct {
	Topic     model.TopicID
	Name      string
	Partition int32
}

// DeleteOffsets forgets offsets of a group. done gets the error of all, or the code of each.
func (c *Coordinator) DeleteOffsets(now Now, group string, places []Place, done func(err error, codes []int16)) {
	c.now = now
	var w *written
	var reads func(topic string) bool
	g, other := c.groups[group], c.consumers[group]
	switch {
	case group == "":
		done(kerr.InvalidGroupID, nil)
		return
	case other != nil:
		w, reads = &other.written, other.State().Subscribed
	case g == nil:
		done(kerr.GroupIDNotFound, nil)
		return
	case g.state != empty && g.protocolType != consumer.ProtocolType:
		done(kerr.NonEmptyGroup, nil)
		return
	default:
		w, reads = &g.written, func(topic string) bool {
			return g.state != empty && (g.subscribed == nil || g.subscribed[topic])
		}
	}
	codes := make([]int16, len(places))
	for i, p := range places {
		if reads(p.Name) {
			codes[i] = kerr.GroupSubscribedToTopic.Code
			continue
		}
		c.emit(w, Change{kind: kindDeleteOffset, Group: group, Topic: p.Topic, Partition: p.Partition})
	}
	c.settle(w, func() { done(nil, codes) }, func() { done(kerr.NotCoordinator, nil) })
}

// DeleteGroup forgets a group without members, with its offsets. done gets why not.
func (c *Coordinator) DeleteGroup(now Now, group string, done func(err error)) {
	c.now = now
	g, other := c.groups[group], c.consumers[group]
	var w *written
	switch {
	case g == nil && other == nil:
		done(kerr.GroupIDNotFound)
		return
	case g != nil && g.state != empty, other != nil && !other.IsEmpty():
		done(kerr.NonEmptyGroup)
		return
	case g != nil:
		c.forget(g)
		w = &g.written
	default:
		c.dropConsumer(other)
		w = &other.written
	}
	c.emit(w, Change{kind: kindDeleteGroup, Group: group})
	c.settle(w, func() { done(nil) }, func() { done(kerr.NotCoordinator) })
}

// expireOffsets forgets what nobody needs any more (KIP-211), and empty groups of which nothing is left.
func (c *Coordinator) expireOffsets() {
	c.timers.set(&c.expiry, c.now.Monotonic+c.o.OffsetsCheck, c.expireOffsets)
	for id, g := range c.groups {
		left, known := c.expireIn(id, &g.written, g.unneeded)
		if known && left == 0 && g.state == empty && len(g.pending) == 0 {
			if c.store.has(id) {
				c.emit(&g.written, Change{kind: kindDeleteGroup, Group: id})
			}
			c.forget(g)
		}
	}
	for id, g := range c.consumers {
		left, known := c.expireIn(id, &g.written, g.unneeded)
		if known && left == 0 && g.IsEmpty() {
			c.emit(&g.written, Change{kind: kindDeleteGroup, Group: id})
			c.dropConsumer(g)
		}
	}
}

// expireIn forgets the offsets of a group that have had their time, and tells how many are left; that is not known
// while the store does not show what the group will be. unneeded returns since when nobody needs an offset.
func (c *Coordinator) expireIn(id string, w *written, unneeded func(*Committed) (since int64, ok bool)) (left int, known bool) {
	if w.changed > c.applied {
		return 0, false
	}
	kept := c.store.Offsets(id)
	left = len(kept)
	for i := range kept {
		o := &kept[i]
		since, ok := unneeded(o)
		if !ok || !o.expired(since, c.now.Unix, c.o.OffsetsRetention.Milliseconds()) {
			continue
		}
		left--
		c.metrics.Expired++
		c.emit(w, Change{kind: kindDeleteOffset, Group: id, Topic: o.Topic, Partition: o.Partition})
	}
	return left, true
}

// expired tells whether an offset that is not needed has had its time.
func (o *Committed) expired(since, now, retention int64) bool {
	if o.Expires >= 0 {
		return now >= o.Expires
	}
	return now-since >= retention
}

// unneeded: since the group lost its last member, since it was committed in a group that never had any, or since it
// was committed of a topic that the members do not read.
func (g *classic) unneeded(o *Committed) (since int64, ok bool) {
	switch {
	case g.state == empty && g.protocolType != "":
		return max(o.Committed, g.stateSince), true
	case g.state == empty, g.state == stable && g.subscribed != nil && !g.subscribed[o.Name]:
		return o.Committed, true
	}
	return 0, false
}

// unneeded: since nobody is in the group as far as that is known, or since it was committed of a topic that the
// members do not read.
func (g *consumerGroup) unneeded(o *Committed) (since int64, ok bool) {
	return max(o.Committed, g.emptied), !g.State().Subscribed(o.Name)
}
