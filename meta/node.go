package meta

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// proposalsQueued bounds the proposals that wait for the loop; further ones block in Propose.
const proposalsQueued = 4096

// Node is this process's member of the group. All methods are safe for concurrent use.
type Node struct {
	options   Options
	clusterID string
	proposals chan *proposal
	stop      chan struct{}
	stopOnce  sync.Once
	failed    chan struct{} // closed by the first failure
	done      chan struct{} // closed when the loop has ended
	leader    atomic.Bool
	failure   atomic.Pointer[error]
	metrics   Metrics
	found     uint64 // last entry that the start found
	closeErr  error  // written before done is closed
}

// proposal is one command on its way; answer has room for the one answer.
type proposal struct {
	machine uint8
	command []byte
	answer  chan answer
}

type answer struct {
	result []byte
	err    error
}

// Open opens or makes the directory, restores the machines from snapshot and log, and returns when this
// node leads and everything committed is applied. ErrInUse, ErrIdentity and ErrDamaged tell apart
// what an operator can repair.
func Open(ctx context.Context, o Options) (*Node, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	n := &Node{
		options:   o,
		proposals: make(chan *proposal, proposalsQueued),
		stop:      make(chan struct{}),
		failed:    make(chan struct{}),
		done:      make(chan struct{}),
	}
	opened := make(chan error, 1)
	go n.run(opened)
	// A failure in the background can leave Pebble's own Open waiting for ever, so it is not waited for.
	var err error
	select {
	case err = <-opened:
		if err == nil {
			return n, nil
		}
	case <-n.failed:
		err = n.Failed()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_ = n.Close()
	if pebble.IsCorruptionError(err) && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w; `millrace inspect --repair --data-dir %s` shows what can be saved, or restore %s from a backup: "+
			"topics and configs live there, the records in the shards are not affected", err, o.FS.PathDir(o.Dir), o.Dir)
	}
	return nil, fmt.Errorf("open meta node: %w", err)
}

// Propose replicates a command and returns the machine's result. It blocks until the command is applied
// here and, with Options.Sync, on disk. Errors: ErrTooLarge; the cause of ctx, ErrClosed and ErrFailed,
// after which the command may or may not have been applied. command must not be changed before Propose
// returns, nor after an error.
func (n *Node) Propose(ctx context.Context, machine uint8, command []byte) ([]byte, error) {
	if len(command) > CommandBytesMax {
		return nil, fmt.Errorf("propose %d bytes: %w (%d at most)", len(command), ErrTooLarge, CommandBytesMax)
	}
	if n.options.Machines[machine] == nil {
		return nil, fmt.Errorf("propose: there is no machine %d", machine)
	}
	if err := n.ended(); err != nil {
		return nil, err
	}
	p := &proposal{machine: machine, command: command, answer: make(chan answer, 1)}
	n.metrics.Waiting.Add(1)
	defer n.metrics.Waiting.Add(-1)
	select {
	case n.proposals <- p:
	case <-n.failed:
		return nil, n.ended()
	case <-n.done:
		return nil, n.ended()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case a := <-p.answer:
		return a.result, a.err
	case <-n.failed:
		return nil, n.ended()
	case <-n.done:
		// The answer may have come just before the end.
		select {
		case a := <-p.answer:
			return a.result, a.err
		default:
			return nil, n.ended()
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ended returns why no proposal is taken, nil if they are.
func (n *Node) ended() error {
	if err := n.Failed(); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	select {
	case <-n.done:
		return ErrClosed
	default:
		return nil
	}
}

// ClusterID returns the cluster's id, a uuid in 22 characters of base64.
func (n *Node) ClusterID() string { return n.clusterID }

// NodeID returns this node's id.
func (n *Node) NodeID() int32 { return n.options.NodeID }

// Leader returns the node id of the leader; ok is false while none is known.
func (n *Node) Leader() (id int32, ok bool) {
	if !n.leader.Load() {
		return 0, false
	}
	return n.options.NodeID, true
}

// IsLeader tells whether this node leads.
func (n *Node) IsLeader() bool { return n.leader.Load() }

// Failed returns what made the node stop taking proposals, nil if nothing did.
func (n *Node) Failed() error {
	if err := n.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// FailedSignal is closed when the node fails; see Failed.
func (n *Node) FailedSignal() <-chan struct{} { return n.failed }

// Metrics returns the node's counters.
func (n *Node) Metrics() *Metrics { return &n.metrics }

// Close answers what is proposed already with ErrClosed, closes the store and returns its error. It waits
// for the end. The store of a node that has failed may not be written any more, not even to close it: it
// stays open until the process ends, and Close returns at once.
func (n *Node) Close() error {
	n.stopOnce.Do(func() { close(n.stop) })
	select {
	case <-n.done:
		return n.closeErr
	case <-n.failed:
		return nil
	}
}

// fail records the first failure. It may be called from any goroutine.
func (n *Node) fail(err error) {
	if n.failure.CompareAndSwap(nil, &err) {
		n.leader.Store(false)
		close(n.failed)
		n.options.Logger.Error("meta node failed, no more changes of cluster state", "err", err)
	}
}
