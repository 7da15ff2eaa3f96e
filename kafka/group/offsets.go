package group

import (
	"strings"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/engine/model"
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
	g, err := c.committer(req)
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
		c.emit(g, Change{kind: kindPutOffset, Group: g.id, Topic: o.Topic, TopicName: o.Name, Partition: o.Partition,
			Offset: Offset{Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: strings.Clone(o.Metadata), Committed: now.Unix, Expires: expires}})
	}
	c.forgetUnused(g)
	c.settle(g, func() { done(codes) }, func() { fill(kerr.NotCoordinator.Code) })
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

// committer returns the group that a commit is for, where its sender may commit there.
func (c *Coordinator) committer(req *Commit) (*classic, error) {
	g := c.groups[req.Group]
	if g == nil {
		switch {
		case req.Generation >= 0 && req.Version >= 9:
			return nil, kerr.GroupIDNotFound
		case req.Generation >= 0:
			return nil, kerr.IllegalGeneration
		case len(c.groups) >= groupsMax:
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
	g := c.groups[group]
	switch {
	case g == nil:
		done(kerr.GroupIDNotFound, nil)
		return
	case g.state != empty && g.protocolType != "consumer":
		done(kerr.NonEmptyGroup, nil)
		return
	}
	codes := make([]int16, len(places))
	for i, p := range places {
		if g.state != empty && (g.subscribed == nil || g.subscribed[p.Name]) {
			codes[i] = kerr.GroupSubscribedToTopic.Code
			continue
		}
		c.emit(g, Change{kind: kindDeleteOffset, Group: g.id, Topic: p.Topic, Partition: p.Partition})
	}
	c.settle(g, func() { done(nil, codes) }, func() { done(kerr.NotCoordinator, nil) })
}

// DeleteGroup forgets a group without members, with its offsets. done gets why not.
func (c *Coordinator) DeleteGroup(now Now, group string, done func(err error)) {
	c.now = now
	g := c.groups[group]
	switch {
	case g == nil:
		done(kerr.GroupIDNotFound)
		return
	case g.state != empty:
		done(kerr.NonEmptyGroup)
		return
	}
	c.emit(g, Change{kind: kindDeleteGroup, Group: g.id})
	c.forget(g)
	c.settle(g, func() { done(nil) }, func() { done(kerr.NotCoordinator) })
}

// expireOffsets forgets what nobody needs any more (KIP-211), and empty groups of which nothing is left.
func (c *Coordinator) expireOffsets() {
	c.timers.set(&c.expiry, c.now.Monotonic+c.o.OffsetsCheck, c.expireOffsets)
	retention := c.o.OffsetsRetention.Milliseconds()
	for _, g := range c.groups {
		if g.changed > c.applied {
			continue // the store does not show what it will be; next time
		}
		kept := c.store.Offsets(g.id)
		left := len(kept)
		for i := range kept {
			o := &kept[i]
			if !g.expired(o, c.now.Unix, retention) {
				continue
			}
			left--
			c.metrics.Expired++
			c.emit(g, Change{kind: kindDeleteOffset, Group: g.id, Topic: o.Topic, Partition: o.Partition})
		}
		if left == 0 && g.state == empty && len(g.pending) == 0 {
			if c.store.has(g.id) {
				c.emit(g, Change{kind: kindDeleteGroup, Group: g.id})
			}
			c.forget(g)
		}
	}
}

// expired tells whether an offset has had its time: since the group lost its last member, since it was committed
// in a group that never had any, or since it was committed of a topic that the members do not read.
func (g *classic) expired(o *Committed, now, retention int64) bool {
	since := o.Committed
	switch {
	case g.state == empty && g.protocolType != "":
		since = max(since, g.stateSince)
	case g.state == empty:
	case g.state == stable && g.subscribed != nil && !g.subscribed[o.Name]:
	default:
		return false
	}
	if o.Expires >= 0 {
		return now >= o.Expires
	}
	return now-since >= retention
}
