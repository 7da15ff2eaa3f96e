package meta

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Machine is a state machine that is replicated by the group. It must be deterministic: the same commands
// in the same order give the same state and the same results on every node and on every replay. All calls
// come from one goroutine.
type Machine interface {
	// Apply applies one command and returns what its proposer gets. It does not keep the slice. An error,
	// such as for a command that it does not know, stops the node: going on would let this node's state
	// differ from that of others.
	Apply(command []byte) (result []byte, err error)
	// Snapshot appends the whole state to dst.
	Snapshot(dst []byte) ([]byte, error)
	// Restore replaces the state by that of a snapshot. It does not keep the slice.
	Restore(snapshot []byte) error
}

// CommandBytesMax bounds one command.
const CommandBytesMax = 64 << 20

// Options configure a Node. EnsureDefaults fills what is zero, Validate reports every fault at once.
type Options struct {
	Dir       string // of the group's log and state; made if missing
	FS        vfs.FS // default: the operating system's
	NodeID    int32  // 0 or more; the directory remembers it
	ClusterID string // empty: that of the directory, a new one for a new directory
	Machines  map[uint8]Machine
	Sync      bool // sync the log before a proposal is answered
	Logger    *slog.Logger

	// SnapshotEntries and SnapshotBytes are how long the log gets before a snapshot of the machines
	// replaces it; default 10,000 entries and 4 MiB. A log shorter than the last snapshot is kept in any
	// case, so that large states are not written again and again.
	SnapshotEntries int
	SnapshotBytes   int64

	anyNode bool // take the node id of the directory
}

// EnsureDefaults fills what is zero.
func (o *Options) EnsureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.SnapshotEntries == 0 {
		o.SnapshotEntries = 10_000
	}
	if o.SnapshotBytes == 0 {
		o.SnapshotBytes = 4 << 20
	}
}

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var faults []error
	if o.Dir == "" {
		faults = append(faults, errors.New("no directory"))
	}
	if o.NodeID < 0 {
		faults = append(faults, fmt.Errorf("node id %d is negative", o.NodeID))
	}
	if len(o.Machines) == 0 {
		faults = append(faults, errors.New("no machine"))
	}
	if o.SnapshotEntries < 0 || o.SnapshotBytes < 0 {
		faults = append(faults, errors.New("snapshot limits are negative"))
	}
	if len(faults) > 0 {
		return fmt.Errorf("meta options: %w", errors.Join(faults...))
	}
	return nil
}
