package disktest

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"millrace/diskio"
)

// fail names what was tried and on which path.
func fail(op, path string, err error) error { return &fs.PathError{Op: op, Path: path, Err: err} }

// clean returns the path from the root on.
func clean(path string) string { return filepath.Clean("/" + path) }

// find returns what path names.
func (d *Disk) find(path string) (*node, error) {
	n := d.root
	for part := range strings.SplitSeq(clean(path), "/") {
		if part == "" {
			continue
		}
		if !n.isDir() {
			return nil, syscall.ENOTDIR
		}
		if n = n.entries[part]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

func (d *Disk) findFile(path string) (*node, error) {
	n, err := d.find(path)
	if err == nil && n.isDir() {
		err = syscall.EISDIR
	}
	return n, err
}

func (d *Disk) findDir(path string) (*node, error) {
	n, err := d.find(path)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	return n, err
}

// parent returns the directory that holds path, and its name there.
func (d *Disk) parent(path string) (*node, string, error) {
	path = clean(path)
	if path == "/" {
		return nil, "", syscall.EBUSY
	}
	dir, err := d.findDir(filepath.Dir(path))
	return dir, filepath.Base(path), err
}

// unlink takes a name away.
func (d *Disk) unlink(dir *node, name string) {
	n := dir.entries[name]
	dir.change(entryChange{remove: name})
	n.links--
	n.charge(d)
}

// MkdirAll implements diskio.FS.
func (d *Disk) MkdirAll(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mkdirAllLocked(path); err != nil {
		return fail("mkdir", path, err)
	}
	return nil
}

func (d *Disk) mkdirAllLocked(path string) error {
	n := d.root
	for part := range strings.SplitSeq(clean(path), "/") {
		if part == "" {
			continue
		}
		if !n.isDir() {
			return syscall.ENOTDIR
		}
		next := n.entries[part]
		if next == nil {
			if err := d.admitErrorLocked(KindMkdir, path); err != nil {
				return err
			}
			next = newDirectory()
			next.links = 1
			n.change(entryChange{add: part, node: next})
		}
		n = next
	}
	if !n.isDir() {
		return syscall.ENOTDIR
	}
	return d.aliveLocked()
}

// aliveLocked fails where the power is cut.
func (d *Disk) aliveLocked() error {
	if d.cut {
		return ErrCut
	}
	return nil
}

// Create implements diskio.FS.
func (d *Disk) Create(path string) (diskio.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.createLocked(path)
	if err != nil {
		return nil, fail("open", path, err)
	}
	return d.openLocked(n, path, true), nil
}

func (d *Disk) createLocked(path string) (*node, error) {
	if err := d.admitErrorLocked(KindCreate, path); err != nil {
		return nil, err
	}
	return d.makeFile(path)
}

// makeFile puts an empty file where there is nothing.
func (d *Disk) makeFile(path string) (*node, error) {
	dir, name, err := d.parent(path)
	if err != nil {
		return nil, err
	}
	if dir.entries[name] != nil {
		return nil, syscall.EEXIST
	}
	n := newFile()
	n.links = 1
	dir.change(entryChange{add: name, node: n})
	return n, nil
}

func (d *Disk) openLocked(n *node, path string, writable bool) *file {
	n.opens++
	return &file{disk: d, node: n, name: path, writable: writable}
}

// closeLocked gives back an open handle or mapping of n.
func (d *Disk) closeLocked(n *node) {
	n.opens--
	n.charge(d)
}

// Open implements diskio.FS.
func (d *Disk) Open(path string) (diskio.File, error) { return d.open(path, true) }

// OpenReadOnly implements diskio.FS.
func (d *Disk) OpenReadOnly(path string) (diskio.File, error) { return d.open(path, false) }

func (d *Disk) open(path string, writable bool) (diskio.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.admitErrorLocked(KindOpen, path)
	if err != nil {
		return nil, fail("open", path, err)
	}
	n, err := d.findFile(path)
	if err != nil {
		return nil, fail("open", path, err)
	}
	return d.openLocked(n, path, writable), nil
}

// Remove implements diskio.FS.
func (d *Disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.admitErrorLocked(KindRemove, path)
	if err == nil {
		err = d.removeLocked(path)
	}
	if err != nil {
		return fail("remove", path, err)
	}
	return nil
}

func (d *Disk) removeLocked(path string) error {
	dir, name, err := d.parent(path)
	if err != nil {
		return err
	}
	n := dir.entries[name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case len(n.entries) > 0:
		return syscall.ENOTEMPTY
	}
	d.unlink(dir, name)
	return nil
}

// RemoveAll implements diskio.FS.
func (d *Disk) RemoveAll(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.admitErrorLocked(KindRemove, path); err != nil {
		return fail("remove", path, err)
	}
	dir, name, err := d.parent(path)
	if err == syscall.ENOENT || err == nil && dir.entries[name] == nil {
		return nil
	}
	if err != nil {
		return fail("remove", path, err)
	}
	d.removeTree(dir, name)
	return nil
}

func (d *Disk) removeTree(dir *node, name string) {
	n := dir.entries[name]
	for _, child := range slices.Sorted(maps.Keys(n.entries)) {
		d.removeTree(n, child)
	}
	d.unlink(dir, name)
}

// Rename implements diskio.FS. Within one directory it happens whole or not at all; between two it may leave
// both names or none until both are synced.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.admitErrorLocked(KindRename, from)
	if err == nil {
		err = d.renameLocked(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (d *Disk) renameLocked(from, to string) error {
	fromDir, fromName, err := d.parent(from)
	if err != nil {
		return err
	}
	toDir, toName, err := d.parent(to)
	if err != nil {
		return err
	}
	n := fromDir.entries[fromName]
	if n == nil {
		return syscall.ENOENT
	}
	if strings.HasPrefix(clean(to), clean(from)+"/") {
		return syscall.EINVAL
	}
	old := toDir.entries[toName]
	switch {
	case old == n:
		return nil
	case old == nil:
	case old.isDir() && !n.isDir():
		return syscall.EISDIR
	case !old.isDir() && n.isDir():
		return syscall.ENOTDIR
	case len(old.entries) > 0:
		return syscall.ENOTEMPTY
	}
	if fromDir == toDir {
		fromDir.change(entryChange{remove: fromName, add: toName, node: n})
	} else {
		toDir.change(entryChange{add: toName, node: n})
		fromDir.change(entryChange{remove: fromName})
	}
	if old != nil {
		old.links--
		old.charge(d)
	}
	return nil
}

// List implements diskio.FS.
func (d *Disk) List(path string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.admitErrorLocked(KindList, path); err != nil {
		return nil, fail("open", path, err)
	}
	n, err := d.findDir(path)
	if err != nil {
		return nil, fail("open", path, err)
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

// Size implements diskio.FS.
func (d *Disk) Size(path string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.admitErrorLocked(KindList, path); err != nil {
		return 0, fail("stat", path, err)
	}
	n, err := d.find(path)
	if err != nil {
		return 0, fail("stat", path, err)
	}
	return int64(len(n.data)), nil
}

// SyncDir implements diskio.FS.
func (d *Disk) SyncDir(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.findDir(path)
	if err == nil {
		err = d.syncDirLocked(n, path)
	}
	if err != nil {
		return fail("sync", path, err)
	}
	return nil
}

func (d *Disk) syncDirLocked(n *node, path string) error {
	if err := d.admitErrorLocked(KindSyncDir, path); err != nil {
		return err
	}
	n.syncEntries()
	return nil
}

// Free implements diskio.FS.
func (d *Disk) Free(path string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.find(path); err != nil {
		return 0, fail("statfs", path, err)
	}
	return max(0, d.capacity-d.used), nil
}

// Lock implements diskio.FS. Pebble's locks are the same ones.
func (d *Disk) Lock(path string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.admitErrorLocked(KindOpen, path); err != nil {
		return nil, fail("open", path, err)
	}
	n, err := d.findFile(path)
	if err == syscall.ENOENT {
		n, err = d.createLocked(path)
	}
	if err != nil {
		return nil, fail("open", path, err)
	}
	if d.locked[n] {
		return nil, fail("lock", path, diskio.ErrLocked)
	}
	d.locked[n] = true
	return &lock{disk: d, node: n}, nil
}

// lock is a held lock.
type lock struct {
	disk *Disk
	node *node
}

// Close gives the lock back.
func (l *lock) Close() error {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if l.node == nil {
		return fs.ErrClosed
	}
	delete(l.disk.locked, l.node)
	l.node = nil
	return nil
}

// Backend implements diskio.FS.
func (d *Disk) Backend() (name, reason string) { return "simulated", "a disk of a test" }

// Close implements diskio.FS.
func (d *Disk) Close() error { return nil }
