package diskio

import "fmt"

// Open probes dir, which must exist, and returns the FS for the tree below it. It logs one line that says
// which backend it took and why. Where Options force the ring and the host refuses io_uring, the error wraps
// ErrRingRefused and names the remedy.
func Open(dir string, o Options) (FS, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("options of disk access: %w", err)
	}
	report, first := probe(dir, o.RingEntries)
	chosen, err := choose(&report, first, &o)
	if err != nil {
		return nil, err
	}
	name, reason := chosen.Backend()
	o.Logger.Info("disk backend chosen", "backend", name, "reason", reason, "dir", dir,
		"file_system", report.FileSystem, "mount_options", report.Options,
		"io_uring", report.Uring, "nowait_writes", report.NowaitWrites)
	return chosen, nil
}

// choose picks the backend. It takes over the ring, or closes it.
func choose(report *Report, first *ring, o *Options) (FS, error) {
	if first != nil && (report.Err != nil || o.Backend == BackendPosix) {
		first.close()
	}
	switch {
	case report.Err != nil:
		return nil, report.Err
	case o.Backend == BackendPosix:
		return newPosixFS("forced by the settings"), nil
	case o.Backend == BackendRing && !report.Uring:
		return nil, fmt.Errorf("backend %s for %s: %w: %s; to repair: %s; or set the backend to %s or %s",
			BackendRing, report.Dir, ErrRingRefused, report.UringReason, report.UringRemedy, BackendAuto, BackendPosix)
	case o.Backend == BackendRing:
		return newRingFS(first, o.RingEntries, ringAll, "forced by the settings"), nil
	case !report.Uring:
		return newPosixFS(report.Reason), nil
	case report.NowaitWrites:
		return newRingFS(first, o.RingEntries, ringBatches, report.Reason), nil
	default:
		return newRingFS(first, o.RingEntries, ringSyncs, report.Reason), nil
	}
}
