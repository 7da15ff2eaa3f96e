package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"millrace/diskio"
	"millrace/engine"
	"millrace/kafka/group"
	"millrace/meta"
	"millrace/meta/cluster"
)

// Repair tells report what keeps a broker from starting on the data directory, or partitions out of service, and what is
// done, or without apply would be done, about it; nothing where there is nothing to do. Nothing is removed: what is replaced is kept beside it. It refuses
// a directory that is in use, and one that it cannot repair. fsys is any that reaches the directory.
func Repair(ctx context.Context, dir string, fsys diskio.FS, apply bool, report func(string)) error {
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, diskio.ErrLocked) {
		return fmt.Errorf("data directory %s is in use by a broker; stop it first", dir)
	}
	if err != nil {
		return fmt.Errorf("data directory: lock: %w", err)
	}
	err = repairMeta(ctx, meta.Options{Dir: filepath.Join(dir, metaName)}, apply, report)
	if err == nil {
		err = engine.Repair(dir, fsys, apply, report)
	}
	return errors.Join(err, lock.Close())
}

// repairMeta repairs the cluster state in o.Dir.
func repairMeta(ctx context.Context, o meta.Options, apply bool, report func(string)) error {
	o.Logger = slog.New(slog.DiscardHandler)
	o.Machines = map[uint8]meta.Machine{clusterMachine: cluster.NewMachine(), groupMachine: group.NewStore()}
	repaired, err := meta.RepairDir(ctx, o, apply)
	if err != nil {
		return fmt.Errorf("cluster state: %w", err)
	}
	if repaired.Damage == nil {
		return nil
	}
	verb := "would be"
	if apply {
		verb = "was"
	}
	report(fmt.Sprintf("cluster state: %v", repaired.Damage))
	report(fmt.Sprintf("  it %s made again of %s", verb, repaired.From))
	if repaired.Aside != "" {
		report(fmt.Sprintf("  the damaged files %s kept in %s", verb, repaired.Aside))
	}
	return nil
}
