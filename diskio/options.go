package diskio

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Names of the backends, as Options takes them and FS.Backend answers.
const (
	// BackendAuto lets the probe choose.
	BackendAuto = "auto"
	// BackendRing batches syncs, and writes where the file system takes them without blocking, by io_uring.
	// Forced, it sends all writes through the ring.
	BackendRing = "ring"
	// BackendPosix uses plain system calls.
	BackendPosix = "posix"
)

// Bounds of Options.RingEntries. 256 ops in flight keep any one device busy; the kernel refuses more than
// 32,768.
const (
	ringEntriesDefault = 256
	ringEntriesMax     = 4096
)

// Options tell Open how to reach files.
type Options struct {
	// Backend is auto, ring or posix; empty means auto. It can be forced because a host may allow io_uring
	// and yet not want it, and to compare the two.
	Backend string
	// RingEntries is the number of ops that one ring has in flight, 2 to 4,096; 0 means 256. Larger batches
	// are carried out in turns. It is rounded up to a power of two.
	RingEntries int
	// Logger takes the line that tells the choice. nil discards it.
	Logger *slog.Logger
}

// EnsureDefaults fills what is not set.
func (o *Options) EnsureDefaults() {
	if o.Backend == "" {
		o.Backend = BackendAuto
	}
	if o.RingEntries == 0 {
		o.RingEntries = ringEntriesDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var faults []error
	switch o.Backend {
	case BackendAuto, BackendRing, BackendPosix:
	default:
		faults = append(faults, fmt.Errorf("backend %q is none of %s", o.Backend,
			strings.Join([]string{BackendAuto, BackendRing, BackendPosix}, ", ")))
	}
	if o.RingEntries < 2 || o.RingEntries > ringEntriesMax {
		faults = append(faults, fmt.Errorf("ring entries %d are not within 2 and %d", o.RingEntries, ringEntriesMax))
	}
	return errors.Join(faults...)
}
