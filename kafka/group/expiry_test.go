package group

import (
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
)

// bench is a coordinator whose changes are applied at once.
type bench struct {
	*testing.T
	store *Store
	c     *Coordinator
	now   Now
	ids   int
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, store: NewStore(), now: Now{Unix: 1_000_000}}
	b.c = New(Options{SessionTimeoutMin: 0, SessionTimeoutMax: 24 * time.Hour, MembersMax: 10, OffsetMetadataMax: 4096,
		OffsetsRetention: time.Minute, OffsetsCheck: time.Second,
		NewID: func() string { b.ids++; return strconv.Itoa(b.ids) }}, b.store, b.now)
	return b
}

func (b *bench) apply() {
	b.Helper()
	for {
		command, upTo := b.c.Take(nil)
		if len(command) == 0 {
			return
		}
		if _, err := b.store.Apply(command); err != nil {
			b.Fatal(err)
		}
		b.c.Applied(upTo)
	}
}

func (b *bench) pass(d time.Duration) {
	b.Helper()
	for ; d > 0; d -= time.Second {
		b.now.Monotonic += time.Second
		b.now.Unix += 1000
		b.c.Tick(b.now)
		b.apply()
	}
}

func (b *bench) restart() { b.c.Lost(b.now) }

// join lets a member of version 3 join an empty group that reads topics, and take its assignment.
func (b *bench) join(group string, metadata []byte, topics ...string) *kmsg.JoinGroupResponse {
	b.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 3, group, "consumer", 3_600_000, 1000
	p := kmsg.NewJoinGroupRequestProtocol()
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics, meta.UserData = topics, metadata
	p.Name, p.Metadata = "range", meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	var got *kmsg.JoinGroupResponse
	b.c.Join(b.now, req, Client{ID: "c"}, func(r kmsg.Response) { got = r.(*kmsg.JoinGroupResponse) })
	b.c.Tick(b.now)
	b.apply()
	if got == nil {
		b.Fatal("no answer to a join")
	}
	if got.ErrorCode != 0 {
		return got
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, got.MemberID, got.Generation
	b.c.Sync(b.now, sync, func(kmsg.Response) {})
	b.apply()
	return got
}

func (b *bench) commit(group, member string, generation int32, topic byte, retention int64) {
	b.Helper()
	b.c.Commit(b.now, &Commit{Group: group, MemberID: member, Generation: generation, Version: 4, Retention: retention, Offsets: []CommitOffset{
		{Topic: model.TopicID{topic}, Name: string(rune(topic)), Offset: 1}}}, func(codes []int16) {
		if codes[0] != 0 {
			b.Errorf("commit: code %d", codes[0])
		}
	})
	b.apply()
}

func (b *bench) kept(what, group string, topic byte, want bool) {
	b.Helper()
	if _, ok := b.store.Offset(group, model.TopicID{topic}, 0); ok != want {
		b.Errorf("%s: offset of topic %c is kept: %v", what, topic, ok)
	}
}

// G19: offsets expire when the group has been empty for the retention, whatever restarts there are.
func TestG19OffsetsExpire(t *testing.T) {
	b := newBench(t)
	b.commit("simple", "", -1, 'a', -1)
	b.commit("short", "", -1, 'a', 10_000)
	r := b.join("g", nil, "a")
	b.commit("g", r.MemberID, r.Generation, 'a', -1)
	b.commit("g", r.MemberID, r.Generation, 'b', -1)
	b.pass(30 * time.Second)
	b.kept("half a minute after the commit", "simple", 'a', true)
	b.kept("with a retention of its own", "short", 'a', false)
	b.restart()
	b.pass(32 * time.Second)
	b.kept("a minute after the commit", "simple", 'a', false)
	b.kept("of a group with a member", "g", 'a', true)
	b.kept("of a topic that the members do not read", "g", 'b', false)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = "g", r.MemberID
	b.c.Leave(b.now, leave, func(kmsg.Response) {})
	b.apply()
	b.pass(40 * time.Second)
	b.restart()
	b.kept("of a group that was empty for less than a minute", "g", 'a', true)
	b.pass(22 * time.Second)
	b.kept("of a group that was empty for a minute", "g", 'a', false)
	if groups, offsets := b.store.Sizes(); groups != 0 || offsets != 0 {
		t.Errorf("%d groups and %d offsets are left", groups, offsets)
	}
	if len(b.c.groups) != 0 || b.c.members != 0 || b.c.metadataBytes != 0 {
		t.Errorf("left in memory: %d groups, %d members, %d bytes", len(b.c.groups), b.c.members, b.c.metadataBytes)
	}
}

// What members say is bounded: the durable state of a group must fit into one command.
func TestMetadataIsBounded(t *testing.T) {
	b := newBench(t)
	if r := b.join("g", make([]byte, 10<<20), "a"); r.ErrorCode != 0 {
		t.Fatalf("10 MiB of metadata: code %d", r.ErrorCode)
	}
	if r := b.join("g", make([]byte, 10<<20), "a"); r.ErrorCode != 81 {
		t.Fatalf("20 MiB in a group: code %d", r.ErrorCode)
	}
	if b.c.Metrics().Refused != 1 {
		t.Error("the refusal was not counted")
	}
}

// A commit of nothing leaves no group behind, nor does a join that is refused.
func TestNothingIsLeftOfRefusals(t *testing.T) {
	b := newBench(t)
	b.c.Commit(b.now, &Commit{Group: "g", Generation: -1, Retention: -1, Offsets: []CommitOffset{{Metadata: string(make([]byte, 5000))}}}, func([]int16) {})
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group = 9, "h"
	b.c.Join(b.now, req, Client{}, func(kmsg.Response) {})
	if len(b.c.groups) != 0 {
		t.Errorf("%d groups are left", len(b.c.groups))
	}
}
