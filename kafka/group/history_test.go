package group

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
)

// histories is how many lives of a group TestHistories runs; MILLRACE_TEST_SEED runs one of them alone.
const histories = 10_000

// world is a coordinator with its store, and clients that behave in every way that clients do. What it demands at
// all times: no partition has two owners in one generation, generations and committed offsets never go back, what
// was answered is in the store, and in the end, left in peace, the living own everything.
type world struct {
	seed       uint64
	rnd        *rand.Rand
	store      *Store
	c          *Coordinator
	now        Now
	clients    []*client
	due        []func() // in some later turn
	partitions int32
	ids        int
	failing    bool // proposals may fail

	command []byte // on its way, nil: none
	upTo    uint64

	generation int32                      // the newest that was seen in the store
	owners     map[int32]map[int32]string // of partitions by generation, as they were told
	committed  map[int32]int64            // acknowledged offsets
	stored     map[int32]int64            // offsets seen in the store
	last       int64                      // the last offset that anybody committed
	fault      string
}

type step uint8

const (
	out step = iota
	waits
	holds
)

// client is a member as its user sees it.
type client struct {
	w          *world
	n          int
	life       int // grows when it forgets what it waits for
	id         string
	instance   *string
	version    int16
	generation int32
	leads      bool
	divided    int32 // partitions that it last divided
	step       step
	owned      []int32
	gone       bool
	paused     int
}

var historyTopic = model.TopicID{7}

func newWorld(seed uint64) *world {
	w := &world{seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), store: NewStore(), partitions: 4, failing: true,
		owners: map[int32]map[int32]string{}, committed: map[int32]int64{}, stored: map[int32]int64{}, now: Now{Unix: 1_000_000}}
	delay := time.Duration(w.rnd.IntN(2)) * 3 * time.Second
	w.c = New(Options{SessionTimeoutMin: 6 * time.Second, SessionTimeoutMax: time.Minute, InitialDelay: delay, MembersMax: 5,
		OffsetMetadataMax: 10, OffsetsRetention: 1000 * time.Hour, OffsetsCheck: 1000 * time.Hour,
		NewID: func() string { w.ids++; return strconv.Itoa(w.ids) }}, w.store, w.now)
	for n := range 2 + w.rnd.IntN(4) {
		cl := &client{w: w, n: n, version: []int16{3, 5, 9}[w.rnd.IntN(3)]}
		// Before v9 a static leader that starts again is not told that it leads, and nobody sees that topics grow.
		if cl.version >= 9 && w.rnd.IntN(3) == 0 {
			cl.instance = kmsg.StringPtr("i" + strconv.Itoa(n))
		}
		w.clients = append(w.clients, cl)
	}
	return w
}

func (w *world) fail(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
	}
}

func (cl *client) owner() string {
	if cl.instance != nil {
		return *cl.instance
	}
	return cl.id
}

func (cl *client) join() {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = cl.version, "g", cl.id, cl.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 20_000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"t"}
	p.Metadata = meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	cl.step, cl.owned = waits, nil
	life := cl.life
	cl.w.c.Join(cl.w.now, req, Client{ID: "c", Host: "/h"}, func(r kmsg.Response) {
		if life == cl.life {
			cl.joined(r.(*kmsg.JoinGroupResponse))
		}
	})
}

// joined only notes the answer: what follows is for the client's next turn, as over a network.
func (cl *client) joined(r *kmsg.JoinGroupResponse) {
	switch r.ErrorCode {
	case 0:
		cl.id, cl.generation, cl.leads = r.MemberID, r.Generation, r.LeaderID == r.MemberID
		var list []kmsg.SyncGroupRequestGroupAssignment
		if cl.leads && !r.SkipAssignment {
			cl.divided = cl.w.partitions
			for i, m := range r.Members {
				var owned []byte
				for p := int32(i); p < cl.divided; p += int32(len(r.Members)) {
					owned = binary.BigEndian.AppendUint32(owned, uint32(p))
				}
				list = append(list, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: owned})
			}
		}
		cl.w.later(func() { cl.sync(list) }, cl)
	case kerr.MemberIDRequired.Code:
		cl.id, cl.step = r.MemberID, out
	default:
		cl.refused(r.ErrorCode)
	}
}

// later lets f run unless the client has forgotten about it.
func (w *world) later(f func(), cl *client) {
	life := cl.life
	w.due = append(w.due, func() {
		if life == cl.life {
			f()
		}
	})
}

func (cl *client) refused(code int16) {
	cl.step, cl.owned = out, nil
	switch code {
	case kerr.UnknownMemberID.Code, kerr.IllegalGeneration.Code:
		cl.id = ""
	case kerr.FencedInstanceID.Code:
		cl.gone = true
	}
}

func (cl *client) sync(list []kmsg.SyncGroupRequestGroupAssignment) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 3, "g", cl.id, cl.instance, cl.generation
	req.GroupAssignment = list
	life, generation, owner := cl.life, cl.generation, cl.owner()
	cl.w.c.Sync(cl.w.now, req, func(r kmsg.Response) {
		s := r.(*kmsg.SyncGroupResponse)
		if s.ErrorCode == 0 {
			cl.w.told(generation, owner, s.MemberAssignment)
		}
		if life != cl.life {
			return
		}
		if s.ErrorCode != 0 {
			cl.refused(s.ErrorCode)
			return
		}
		cl.step = holds
		for b := s.MemberAssignment; len(b) > 0; b = b[4:] {
			cl.owned = append(cl.owned, int32(binary.BigEndian.Uint32(b)))
		}
	})
}

// told checks what a member of a generation is told that it owns.
func (w *world) told(generation int32, owner string, assignment []byte) {
	if generation > w.generation {
		w.fail("%s is told of generation %d, %d is kept", owner, generation, w.generation)
	}
	owners := w.owners[generation]
	if owners == nil {
		owners = map[int32]string{}
		w.owners[generation] = owners
	}
	for b := assignment; len(b) > 0; b = b[4:] {
		p := int32(binary.BigEndian.Uint32(b))
		if other := owners[p]; other != "" && other != owner {
			w.fail("generation %d: partition %d belongs to %s and %s", generation, p, other, owner)
		}
		owners[p] = owner
	}
}

func (cl *client) heartbeat() {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = "g", cl.id, cl.instance, cl.generation
	cl.w.c.Heartbeat(cl.w.now, req, func(r kmsg.Response) {
		if code := r.(*kmsg.HeartbeatResponse).ErrorCode; code != 0 {
			cl.refused(code)
		} else if cl.leads && cl.divided != cl.w.partitions {
			cl.step = out // to divide anew
		}
	})
}

func (cl *client) commit() {
	w := cl.w
	req := &Commit{Group: "g", MemberID: cl.id, InstanceID: cl.instance, Generation: cl.generation, Version: 7, Retention: -1}
	for _, p := range cl.owned {
		w.last++
		req.Offsets = append(req.Offsets, CommitOffset{Topic: historyTopic, Name: "t", Partition: p, Offset: w.last, LeaderEpoch: -1})
	}
	current := int32(-1)
	if g := w.c.groups["g"]; g != nil {
		current = g.generation
	}
	w.c.Commit(w.now, req, func(codes []int16) {
		for i, code := range codes {
			o := &req.Offsets[i]
			if code != 0 {
				continue
			}
			if req.Generation != current {
				w.fail("a commit of generation %d was taken in %d", req.Generation, current)
			}
			w.committed[o.Partition] = max(w.committed[o.Partition], o.Offset)
			if kept, ok := w.store.Offset("g", historyTopic, o.Partition); !ok || kept.Offset < o.Offset {
				w.fail("offset %d of partition %d was acknowledged, %v is kept", o.Offset, o.Partition, kept)
			}
		}
	})
}

func (cl *client) leave() {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 3, "g"
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: cl.id, InstanceID: cl.instance}}
	cl.w.c.Leave(cl.w.now, req, func(kmsg.Response) {})
	cl.life++
	cl.id, cl.step, cl.owned = "", out, nil
}

// act is one turn of a client.
func (cl *client) act() {
	w := cl.w
	if cl.paused > 0 {
		cl.paused--
		return
	}
	if w.failing {
		switch w.rnd.IntN(60) {
		case 0: // crashes, and comes back as somebody new
			cl.life++
			cl.id, cl.step, cl.owned = "", out, nil
			return
		case 1:
			cl.paused = w.rnd.IntN(40)
			return
		case 2:
			if cl.id != "" {
				cl.leave()
			}
			return
		case 3: // its connection breaks while it waits
			if cl.step == waits {
				cl.life++
				cl.step = out
			}
			return
		case 4: // speaks under an old generation
			cl.generation--
			cl.commit()
			cl.generation++
			return
		}
	}
	switch {
	case cl.gone:
		if !w.failing {
			cl.gone, cl.id, cl.step = false, "", out
		}
	case cl.step == out:
		cl.join()
	case cl.step == holds:
		if cl.heartbeat(); cl.step == holds && w.rnd.IntN(3) == 0 {
			cl.commit()
		}
	}
}

// replicate is a turn of the log: a command is taken, or the one on its way ends.
func (w *world) replicate() {
	if w.command == nil {
		w.command, w.upTo = w.c.Take(nil)
		return
	}
	command := w.command
	w.command = nil
	failed := w.failing && w.rnd.IntN(25) == 0
	if !failed || w.rnd.IntN(2) == 0 { // an error does not tell that nothing was applied
		if _, err := w.store.Apply(command); err != nil {
			w.fail("apply: %v", err)
		}
		w.look()
	}
	if failed {
		w.c.Lost(w.now)
		return
	}
	w.c.Applied(w.upTo)
}

// look compares the store with what it was.
func (w *world) look() {
	for _, k := range w.store.all() {
		if k.generation < w.generation || k.classic != nil && k.classic.Generation > k.generation {
			w.fail("generation %d after %d", k.generation, w.generation)
		}
		w.generation = k.generation
	}
	for _, o := range w.store.Offsets("g") {
		if o.Offset.Offset < w.stored[o.Partition] {
			w.fail("partition %d: offset %d after %d", o.Partition, o.Offset.Offset, w.stored[o.Partition])
		}
		w.stored[o.Partition] = o.Offset.Offset
	}
	for p, offset := range w.committed {
		if w.stored[p] < offset {
			w.fail("partition %d: offset %d was acknowledged, %d is kept", p, offset, w.stored[p])
		}
	}
}

func (w *world) turn() {
	jump := time.Duration(w.rnd.IntN(600)) * time.Millisecond
	if w.failing {
		switch w.rnd.IntN(200) {
		case 0:
			jump += 15 * time.Second // the process was stopped
		case 1:
			w.now.Unix += int64(w.rnd.IntN(7_200_000) - 3_600_000) // somebody sets the clock
		case 2:
			w.partitions++
		case 3: // the broker starts again
			w.command = nil
			kept, err := w.store.Snapshot(nil)
			again := NewStore()
			if err = firstOf(err, again.Restore(kept)); err != nil {
				w.fail("restore: %v", err)
			}
			w.c.Lost(w.now)
			*w.store = Store{groups: again.groups, offsets: again.offsets}
			w.c.load(w.now)
		}
	}
	w.now.Monotonic += jump
	w.now.Unix += jump.Milliseconds()
	for _, cl := range w.clients {
		if w.rnd.IntN(2) == 0 {
			cl.act()
		}
	}
	due := w.due
	w.due = nil
	for _, f := range due {
		if w.rnd.IntN(3) > 0 {
			f()
		} else {
			w.due = append(w.due, f)
		}
	}
	w.c.Tick(w.now)
	w.replicate()
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// settled tells whether every client holds a part, and all parts are held.
func (w *world) settled() bool {
	held := 0
	for _, cl := range w.clients {
		if cl.step != holds || cl.generation != w.generation {
			return false
		}
		held += len(cl.owned)
	}
	return held == int(w.partitions)
}

func (w *world) run() {
	for range 80 + w.rnd.IntN(80) {
		if w.turn(); w.fault != "" {
			return
		}
	}
	w.failing = false
	for range 600 {
		if w.turn(); w.fault != "" || w.settled() {
			return
		}
	}
	held := ""
	for _, cl := range w.clients {
		held += fmt.Sprintf("\n%s: step %d, generation %d, leads %v, owns %v", cl.owner(), cl.step, cl.generation, cl.leads, cl.owned)
	}
	w.fail("not all of %d partitions are owned in the end: %+v%s", w.partitions, w.c.groups["g"], held)
}

func TestHistories(t *testing.T) {
	first, n := rand.Uint64()>>1, histories
	if text := os.Getenv("MILLRACE_TEST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = seed, 1
	}
	if testing.Short() {
		n /= 10
	}
	rebalances := int64(0)
	for seed := first; seed < first+uint64(n); seed++ {
		w := newWorld(seed)
		w.run()
		if w.fault != "" {
			t.Fatalf("%s\nrepeat with: MILLRACE_TEST_SEED=%d go test -run TestHistories ./kafka/group", w.fault, seed)
		}
		rebalances += w.c.metrics.Rebalances
	}
	if n > 1 && rebalances < int64(n) {
		t.Errorf("%d rebalances in %d histories: nothing happened", rebalances, n)
	}
}
