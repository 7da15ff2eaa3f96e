package meta

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// Repair says what became, or would become, of a directory.
type Repair struct {
	Damage error  // why Open refuses it; nil: it does not, and nothing is to be done
	From   string // what the directory is made of again
	Aside  string // where the damaged files are kept
}

// RepairDir finds out whether Open would refuse the directory as damaged and, where apply is set, makes it of the
// newest state that can still be had: what Pebble reads of it, or the copy beside it. NodeID and ClusterID of the
// options are not looked at, the machines are used up. Errors: ErrInUse; whatever else Open refuses the directory for;
// that nothing can be had.
func RepairDir(ctx context.Context, o Options, apply bool) (*Repair, error) {
	o.EnsureDefaults()
	o.Sync, o.anyNode, o.ClusterID = true, true, ""
	if _, err := o.FS.Stat(o.Dir); err == nil {
		lock, err := pebble.LockDirectory(o.Dir, o.FS)
		if err != nil {
			return nil, fmt.Errorf("%w: lock %s: %w", ErrInUse, o.Dir, err)
		}
		defer lock.Close()
	}
	saved := readCopy(&o)
	if _, err := o.FS.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) && saved == nil {
		return &Repair{}, nil // never used
	}
	_, damage := openClone(ctx, o, saved)
	if damage == nil || !errors.Is(damage, ErrDamaged) {
		return &Repair{}, damage
	}
	r := &Repair{Damage: damage, Aside: fmt.Sprintf("%s.damaged-%d", o.Dir, time.Now().UnixMilli())}
	last, err := openClone(ctx, o, nil)
	switch {
	case err == nil && (saved == nil || last >= saved.index):
		r.From, saved = fmt.Sprintf("what can be read of it, up to change %d", last), nil
	case saved != nil:
		r.From = fmt.Sprintf("%s, which has it up to change %d", o.Dir+copySuffix, saved.index)
	default:
		return nil, fmt.Errorf("%w; there is no copy of it in %s: restore it from a backup", damage, o.Dir+copySuffix)
	}
	if !apply {
		return r, nil
	}
	return r, r.apply(&o, saved)
}

// openClone opens a copy of the directory in memory and returns the last entry that it has. What was promised counts
// only with the saved copy, which may be nil.
func openClone(ctx context.Context, o Options, saved *stateCopy) (last uint64, err error) {
	memory := vfs.NewMem()
	real := o.FS
	if err := memory.MkdirAll(o.Dir, 0o755); err != nil {
		return 0, err
	}
	skip := vfs.CloneSkip(func(path string) bool {
		name := real.PathBase(path)
		return name == "LOCK" || saved == nil && name == durableName
	})
	if _, err := vfs.Clone(real, memory, o.Dir, o.Dir, skip); err != nil {
		return 0, fmt.Errorf("read %s: %w", o.Dir, err)
	}
	o.FS, o.Logger = memory, slog.New(slog.DiscardHandler)
	if saved != nil {
		if err := saved.write(&o); err != nil {
			return 0, err
		}
	}
	n, err := Open(ctx, o)
	if err != nil {
		return 0, err
	}
	return n.found, n.Close()
}

// apply builds the new directory beside the old one and puts it into its place.
func (r *Repair) apply(o *Options, saved *stateCopy) error {
	made := *o
	made.Dir = o.Dir + ".new"
	if err := o.FS.RemoveAll(made.Dir); err != nil {
		return err
	}
	if saved != nil {
		if err := restoreCopy(&made, saved); err != nil {
			return fmt.Errorf("make %s: %w", made.Dir, err)
		}
	} else {
		skip := vfs.CloneSkip(func(path string) bool {
			name := o.FS.PathBase(path)
			return name == "LOCK" || name == durableName
		})
		if _, err := vfs.Clone(o.FS, o.FS, o.Dir, made.Dir, skip, vfs.CloneSync); err != nil {
			return fmt.Errorf("copy %s: %w", o.Dir, err)
		}
		// It has more than this.
		if err := o.FS.Remove(o.Dir + copySuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := o.FS.Rename(o.Dir, r.Aside); errors.Is(err, fs.ErrNotExist) {
		r.Aside = ""
	} else if err != nil {
		return fmt.Errorf("set %s aside: %w", o.Dir, err)
	}
	if err := o.FS.Rename(made.Dir, o.Dir); err != nil {
		return fmt.Errorf("put %s into place: %w", made.Dir, err)
	}
	return syncDir(o.FS, o.FS.PathDir(o.Dir))
}

// restoreCopy makes a new directory of a copy.
func restoreCopy(o *Options, c *stateCopy) error {
	var failure error
	s, err := openStore(o, &Metrics{}, func(err error) { failure = err })
	if err != nil {
		return err
	}
	err = s.bootstrap(c.id, &raftpb.SnapshotMetadata{Index: &c.index, Term: &c.term,
		ConfState: &raftpb.ConfState{Voters: []uint64{raftID(c.id.nodeID)}}}, c.state)
	return errors.Join(err, s.close(), failure)
}
