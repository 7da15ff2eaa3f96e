package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// What one round of the loop takes from the queue at most.
const (
	roundProposals = 1024
	roundBytes     = 4 << 20
)

// replayTarget is how long a start may take before it ends with a snapshot.
const replayTarget = 100 * time.Millisecond

// loop is the goroutine that owns the Raft node, the store and the machines.
type loop struct {
	node    *Node
	store   *store
	raft    *raft.RawNode
	memory  *raft.MemoryStorage // the log after the snapshot, which the store holds too
	hard    *raftpb.HardState   // newest, with a commit index that the store may not have yet
	conf    *raftpb.ConfState
	waiting map[uint64]*proposal
	lastID  uint64

	applied       uint64
	appliedTerm   uint64
	snapshotIndex uint64
	snapshotBytes int64
	logBytes      int64
	copied        bool // the copy has what the start found
}

// run is the whole life of the goroutine. Pebble may end it (see storeLogger.Fatalf), so that what must
// happen at the end stands in deferred calls.
func (n *Node) run(opened chan<- error) {
	l := &loop{node: n, waiting: map[uint64]*proposal{}, lastID: rand.Uint64()}
	defer func() {
		n.leader.Store(false)
		l.abandon()
		close(n.done)
	}()
	err := l.open()
	if err == nil {
		opened <- nil
		err = l.serve()
		if err != nil {
			n.fail(err)
		}
	} else {
		opened <- err
	}
	if n.Failed() == nil && err == nil {
		l.saveCopy()
	}
	if n.Failed() == nil && l.store != nil {
		n.closeErr = l.store.close()
	}
}

// abandon answers everyone who waits.
func (l *loop) abandon() {
	err := ErrClosed
	if failure := l.node.Failed(); failure != nil {
		err = fmt.Errorf("%w: %w", ErrFailed, failure)
	}
	for id, p := range l.waiting {
		delete(l.waiting, id)
		p.answer <- answer{err: err}
	}
}

// open brings the machines to where the log ends and makes this node leader. A single voter needs no
// other's consent: it campaigns at once instead of waiting for an election timeout, and no clock ever
// ticks.
func (l *loop) open() error {
	n, began := l.node, time.Now()
	var err error
	if l.store, err = openStore(&n.options, &n.metrics, n.fail); err != nil {
		return err
	}
	if err := l.identify(); err != nil {
		return err
	}
	if err := l.load(); err != nil {
		return err
	}
	if err := l.verify(); err != nil {
		return err
	}
	if err := l.raft.Campaign(); err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	if err := l.drive(); err != nil {
		return err
	}
	if last, _ := l.memory.LastIndex(); !n.leader.Load() || l.applied != last {
		return fmt.Errorf("not leader of the own group: applied %d of %d", l.applied, last)
	}
	// Few entries can be much work, such as new leader epochs for every partition after each kill; what
	// took long once need not be done again at the next start.
	if time.Since(began) > replayTarget {
		if err := l.snapshot(); err != nil {
			return err
		}
	} else if !l.copied {
		l.saveCopy()
	}
	return n.Failed()
}

// identify makes a new directory this node's, and refuses that of another.
func (l *loop) identify() error {
	o := &l.node.options
	id, err := l.store.identity()
	if err != nil {
		return fmt.Errorf("read identity of %s: %w", o.Dir, err)
	}
	if id == nil {
		if o.Sync {
			if err := checkNew(o); err != nil {
				return err
			}
		}
		id = &identity{nodeID: o.NodeID, clusterID: o.ClusterID}
		if id.clusterID == "" {
			id.clusterID = newClusterID()
		}
		state, err := appendSnapshot(nil, o.Machines)
		if err != nil {
			return err
		}
		if err := l.store.bootstrap(*id, firstSnapshot(o.NodeID), state); err != nil {
			return fmt.Errorf("bootstrap %s: %w", o.Dir, err)
		}
		o.Logger.Info("new meta directory", "dir", o.Dir, "node", id.nodeID, "cluster", id.clusterID)
	}
	l.node.clusterID = id.clusterID
	if o.anyNode {
		o.NodeID = id.nodeID
	}
	return id.check(o)
}

// firstSnapshot is that of a new group of one voter, which stands for the membership.
func firstSnapshot(nodeID int32) *raftpb.SnapshotMetadata {
	return &raftpb.SnapshotMetadata{
		Index: new(uint64(1)), Term: new(uint64(1)), ConfState: &raftpb.ConfState{Voters: []uint64{raftID(nodeID)}},
	}
}

// verify refuses a directory that lost changes. Where the log is not synced a power cut takes some, and nothing is
// promised.
func (l *loop) verify() error {
	o := &l.node.options
	last, err := l.memory.LastIndex()
	if err != nil {
		return err
	}
	l.node.found = last
	saved := readCopy(o)
	if o.Sync {
		var promised uint64
		if l.store.durable, promised, err = openDurable(o, l.node.clusterID); err != nil {
			return err
		}
		if saved != nil {
			promised = max(promised, saved.index)
		}
		if err := checkEnd(o, last, promised); err != nil {
			return err
		}
	}
	l.copied = saved != nil && saved.index == last
	if err := l.store.held.release(); err != nil {
		o.Logger.Warn("old meta log cannot be removed", "err", err)
	}
	return nil
}

func (l *loop) load() error {
	o := &l.node.options
	stored, err := l.store.load()
	if err != nil {
		return fmt.Errorf("%s: %w", o.Dir, err)
	}
	if err := restoreSnapshot(stored.state, o.Machines); err != nil {
		return fmt.Errorf("%s: %w", o.Dir, err)
	}
	l.memory = raft.NewMemoryStorage()
	if err := l.memory.ApplySnapshot(&raftpb.Snapshot{Metadata: stored.metadata}); err != nil {
		return fmt.Errorf("%s: %w", o.Dir, err)
	}
	l.hard, l.conf = stored.hard, stored.metadata.ConfState
	if err := errors.Join(l.memory.SetHardState(stored.hard), l.memory.Append(stored.entries)); err != nil {
		return fmt.Errorf("%s: %w", o.Dir, err)
	}
	l.applied, l.appliedTerm = stored.metadata.GetIndex(), stored.metadata.GetTerm()
	l.snapshotIndex, l.snapshotBytes = l.applied, int64(len(stored.state))
	l.logBytes = stored.bytes
	l.raft, err = raft.NewRawNode(&raft.Config{
		ID:              raftID(o.NodeID),
		ElectionTick:    10,
		HeartbeatTick:   1,
		Storage:         l.memory,
		Applied:         l.applied,
		MaxSizePerMsg:   roundBytes,
		MaxInflightMsgs: 1,
		Logger:          raftLogger{o.Logger},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", o.Dir, err)
	}
	return nil
}

// raftID is never zero, which Raft keeps for "none".
func raftID(nodeID int32) uint64 { return uint64(nodeID) + 1 }

// serve works until Close or a failure.
func (l *loop) serve() error {
	for {
		select {
		case p := <-l.node.proposals:
			if err := l.round(p); err != nil {
				return err
			}
		case <-l.node.stop:
			return nil
		case <-l.node.failed:
			return l.node.Failed()
		}
	}
}

// round proposes everything that waits by now, so that it shares one write and one sync.
func (l *loop) round(first *proposal) error {
	var entries []*raftpb.Entry
	bytes := 0
	for p := first; p != nil; p = l.next(len(entries), bytes) {
		l.lastID++
		l.waiting[l.lastID] = p
		data := appendPayload(make([]byte, 0, payloadHeaderBytes+len(p.command)), p.machine, l.lastID, p.command)
		entries = append(entries, &raftpb.Entry{Data: data})
		bytes += len(data)
	}
	l.node.metrics.Proposals.Add(int64(len(entries)))
	l.node.metrics.ProposalsBytes.Add(int64(bytes))
	id := raftID(l.node.options.NodeID)
	if err := l.raft.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &id, Entries: entries}); err != nil {
		return fmt.Errorf("propose %d commands: %w", len(entries), err)
	}
	if err := l.drive(); err != nil {
		return err
	}
	return l.compact()
}

// next returns one more proposal for a round, nil if none waits or the round is full.
func (l *loop) next(proposals, bytes int) *proposal {
	if proposals >= roundProposals || bytes >= roundBytes {
		return nil
	}
	select {
	case p := <-l.node.proposals:
		return p
	default:
		return nil
	}
}

// drive does what Raft has ready until nothing is left: first the log is written, then what is committed
// is applied. With one voter there are no messages to send.
func (l *loop) drive() error {
	for l.raft.HasReady() {
		ready := l.raft.Ready()
		if err := l.persist(&ready); err != nil {
			return err
		}
		if ready.SoftState != nil {
			l.node.leader.Store(ready.SoftState.RaftState == raft.StateLeader)
		}
		for _, e := range ready.CommittedEntries {
			if err := l.apply(e); err != nil {
				return fmt.Errorf("apply entry %d: %w", e.GetIndex(), err)
			}
		}
		l.raft.Advance(ready)
	}
	return nil
}

// persist writes entries and hard state. A hard state that only moved the commit index waits for the next
// write: a single voter finds out by itself what is committed.
func (l *loop) persist(ready *raft.Ready) error {
	if ready.HardState != nil {
		l.hard = ready.HardState
		if err := l.memory.SetHardState(l.hard); err != nil {
			return err
		}
	}
	if !ready.MustSync {
		return nil
	}
	if err := l.store.append(l.hard, ready.Entries); err != nil {
		return fmt.Errorf("write %d entries: %w", len(ready.Entries), err)
	}
	for _, e := range ready.Entries {
		l.logBytes += int64(len(e.Data)) + payloadHeaderBytes
	}
	return l.memory.Append(ready.Entries)
}

func (l *loop) apply(e *raftpb.Entry) error {
	l.applied, l.appliedTerm = e.GetIndex(), e.GetTerm()
	l.node.metrics.Applied.Store(int64(l.applied))
	if e.GetType() != raftpb.EntryNormal {
		return fmt.Errorf("a change of membership, which this program does not know")
	}
	if len(e.Data) == 0 {
		return nil // a new leader's first entry
	}
	number, id, command, err := parsePayload(e.Data)
	if err != nil {
		return err
	}
	machine := l.node.options.Machines[number]
	if machine == nil {
		return fmt.Errorf("machine %d, which this program does not have", number)
	}
	result, err := machine.Apply(command)
	if err != nil {
		return fmt.Errorf("machine %d: %w", number, err)
	}
	if p := l.waiting[id]; p != nil {
		delete(l.waiting, id)
		p.answer <- answer{result: result}
	}
	return nil
}

// compact replaces the log by a snapshot when it is long enough.
func (l *loop) compact() error {
	o, m := &l.node.options, &l.node.metrics
	entries := int64(l.applied - l.snapshotIndex)
	m.LogEntries.Store(entries)
	m.LogBytes.Store(l.logBytes)
	if entries < int64(o.SnapshotEntries) && l.logBytes < o.SnapshotBytes || l.logBytes < l.snapshotBytes {
		return nil
	}
	return l.snapshot()
}

// snapshot writes the state of the machines in place of the log.
func (l *loop) snapshot() error {
	o, m := &l.node.options, &l.node.metrics
	state, err := appendSnapshot(make([]byte, 0, l.snapshotBytes), o.Machines)
	if err != nil {
		return err
	}
	metadata := &raftpb.SnapshotMetadata{Index: &l.applied, Term: &l.appliedTerm, ConfState: l.conf}
	if err := l.store.snapshot(l.hard, metadata, state); err != nil {
		return fmt.Errorf("write snapshot at %d: %w", l.applied, err)
	}
	// The memory needs the place of the snapshot only: with one voter nobody asks for its bytes.
	if _, err := l.memory.CreateSnapshot(l.applied, l.conf, nil); err != nil {
		return fmt.Errorf("snapshot at %d: %w", l.applied, err)
	}
	if err := l.memory.Compact(l.applied); err != nil {
		return fmt.Errorf("compact log to %d: %w", l.applied, err)
	}
	l.snapshotIndex, l.snapshotBytes, l.logBytes = l.applied, int64(len(state)), 0
	l.saveCopy()
	m.Snapshots.Add(1)
	m.SnapshotBytes.Store(l.snapshotBytes)
	o.Logger.Debug("meta snapshot", "index", l.applied, "bytes", l.snapshotBytes)
	return nil
}
