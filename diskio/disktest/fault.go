package disktest

import (
	"slices"
	"strings"
	"syscall"
)

// Kind is a kind of operation that is counted and can be made to fail.
type Kind int

// Kinds of operations, of both faces of the disk.
const (
	KindOpen        Kind = iota // Open, OpenReadOnly, Lock
	KindCreate                  // Create
	KindMkdir                   // MkdirAll that makes something
	KindRemove                  // Remove, RemoveAll
	KindRename                  // Rename
	KindLink                    // Pebble's Link
	KindList                    // List, Size, Stat
	KindRead                    // ReadAt, and Load of a mapping
	KindTouch                   // Slice of a mapping: reading the slice faults
	KindWrite                   // one op of Write, WriteAt
	KindSync                    // one op of Sync
	KindSyncDir                 // SyncDir
	KindPreallocate             // Preallocate
	KindMap                     // Map
	kinds
)

// changing tells whether operations of this kind change what a crash leaves behind.
func (k Kind) changing() bool {
	switch k {
	case KindCreate, KindMkdir, KindRemove, KindRename, KindLink, KindWrite, KindSync, KindSyncDir, KindPreallocate:
		return true
	default:
		return false
	}
}

// Fault makes operations fail.
type Fault struct {
	Kind Kind
	// Path, where set, is part of the path of the files meant.
	Path string
	// After is how many operations that match go well before.
	After int64
	// Times is how many then fail: 0 means one, a negative number all.
	Times int64
	// Err is what they fail with; nil means EIO. For KindTouch it says nothing: the reader gets a fault.
	Err error
	// WrittenBytes is how much of a failing write reaches the file all the same.
	WrittenBytes int64
}

// Inject adds a fault.
func (d *Disk) Inject(f Fault) {
	if f.Err == nil {
		f.Err = syscall.EIO
	}
	if f.Times == 0 {
		f.Times = 1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// ClearFaults takes all faults away.
func (d *Disk) ClearFaults() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

// Count returns how many operations of a kind there were, failed ones included.
func (d *Disk) Count(k Kind) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[k]
}

// Changes returns how many operations there were that change what a crash leaves behind. A test that wants to
// cut the power at each of them counts them in a first run.
func (d *Disk) Changes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := int64(0)
	for k, n := range d.counts {
		if Kind(k).changing() {
			sum += n
		}
	}
	return sum
}

// Cut takes the power away: from now on every operation fails with ErrCut and nothing changes any more.
// Mappings stay readable, so that readers of the process that is about to die do not fault.
func (d *Disk) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = true
}

// CutAfter takes the power away after n more operations that change something (see Changes).
func (d *Disk) CutAfter(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutLeft = n
}

// IsCut tells whether the power is cut.
func (d *Disk) IsCut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cut
}

// admitLocked counts an operation and returns the fault that is due, if any.
func (d *Disk) admitLocked(k Kind, path string) *Fault {
	if !d.cut && k.changing() {
		if d.cutLeft == 0 {
			d.cut = true
		}
		d.cutLeft--
	}
	if d.cut {
		return &Fault{Err: ErrCut}
	}
	d.counts[k]++
	for i, f := range d.faults {
		if f.Kind != k || !strings.Contains(path, f.Path) {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		if f.Times > 0 {
			f.Times--
			if f.Times == 0 {
				d.faults = slices.Delete(d.faults, i, i+1)
			}
		}
		return f
	}
	return nil
}

// admitErrorLocked is admitLocked for operations that fail or go well and nothing between.
func (d *Disk) admitErrorLocked(k Kind, path string) error {
	if f := d.admitLocked(k, path); f != nil {
		return f.Err
	}
	return nil
}
