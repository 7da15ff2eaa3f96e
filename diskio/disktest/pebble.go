package disktest

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// PebbleFS returns the disk as Pebble takes it: the same files, faults, counts and power.
func (d *Disk) PebbleFS() vfs.FS { return pebbleFS{d} }

// pebbleFS is the disk with Pebble's methods.
type pebbleFS struct{ disk *Disk }

// Create implements vfs.FS: an existing file gives way to a new one.
func (p pebbleFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	d := p.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.admitErrorLocked(KindCreate, name)
	if err != nil {
		return nil, fail("create", name, err)
	}
	if old, err := d.find(name); err == nil && !old.isDir() {
		if err := d.removeLocked(name); err != nil {
			return nil, fail("create", name, err)
		}
	}
	n, err := d.makeFile(name)
	if err != nil {
		return nil, fail("create", name, err)
	}
	return p.handleLocked(n, name, true), nil
}

func (p pebbleFS) handleLocked(n *node, name string, writable bool) *pebbleFile {
	n.opens++
	return &pebbleFile{disk: p.disk, node: n, name: name, writable: writable}
}

// Link implements vfs.FS.
func (p pebbleFS) Link(oldname, newname string) error {
	d := p.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.linkLocked(oldname, newname); err != nil {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: err}
	}
	return nil
}

func (d *Disk) linkLocked(oldname, newname string) error {
	if err := d.admitErrorLocked(KindLink, newname); err != nil {
		return err
	}
	n, err := d.find(oldname)
	if err != nil {
		return err
	}
	if n.isDir() {
		return syscall.EPERM
	}
	dir, name, err := d.parent(newname)
	if err != nil {
		return err
	}
	if dir.entries[name] != nil {
		return syscall.EEXIST
	}
	n.links++
	dir.change(entryChange{add: name, node: n})
	return nil
}

// Open implements vfs.FS.
func (p pebbleFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	p.disk.mu.Lock()
	f, err := p.openLocked(name, p.disk.find)
	p.disk.mu.Unlock()
	if err != nil {
		return nil, fail("open", name, err)
	}
	for _, opt := range opts {
		opt.Apply(f)
	}
	return f, nil
}

func (p pebbleFS) openLocked(name string, find func(string) (*node, error)) (*pebbleFile, error) {
	if err := p.disk.admitErrorLocked(KindOpen, name); err != nil {
		return nil, err
	}
	n, err := find(name)
	if err != nil {
		return nil, err
	}
	return p.handleLocked(n, name, false), nil
}

// OpenReadWrite implements vfs.FS: a missing file is made.
func (p pebbleFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	p.disk.mu.Lock()
	f, err := p.openLocked(name, p.disk.findFile)
	if err == syscall.ENOENT {
		var n *node
		if n, err = p.disk.createLocked(name); err == nil {
			f = p.handleLocked(n, name, true)
		}
	}
	p.disk.mu.Unlock()
	if err != nil {
		return nil, fail("open", name, err)
	}
	f.writable = true
	for _, opt := range opts {
		opt.Apply(f)
	}
	return f, nil
}

// OpenDir implements vfs.FS.
func (p pebbleFS) OpenDir(name string) (vfs.File, error) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	f, err := p.openLocked(name, p.disk.findDir)
	if err != nil {
		return nil, fail("open", name, err)
	}
	return f, nil
}

// Remove implements vfs.FS.
func (p pebbleFS) Remove(name string) error { return p.disk.Remove(name) }

// RemoveAll implements vfs.FS.
func (p pebbleFS) RemoveAll(name string) error { return p.disk.RemoveAll(name) }

// Rename implements vfs.FS.
func (p pebbleFS) Rename(oldname, newname string) error { return p.disk.Rename(oldname, newname) }

// ReuseForWrite implements vfs.FS: the file is renamed and written from its start, its old bytes in place.
func (p pebbleFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := p.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return p.OpenReadWrite(newname, category)
}

// MkdirAll implements vfs.FS.
func (p pebbleFS) MkdirAll(dir string, _ os.FileMode) error { return p.disk.MkdirAll(dir) }

// Lock implements vfs.FS. The file is cut to nothing.
func (p pebbleFS) Lock(name string) (io.Closer, error) {
	held, err := p.disk.Lock(name)
	if err != nil {
		return nil, err
	}
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	held.(*lock).node.truncate(p.disk, 0)
	return held, nil
}

// List implements vfs.FS.
func (p pebbleFS) List(dir string) ([]string, error) { return p.disk.List(dir) }

// Stat implements vfs.FS.
func (p pebbleFS) Stat(name string) (vfs.FileInfo, error) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	err := p.disk.admitErrorLocked(KindList, name)
	if err != nil {
		return nil, fail("stat", name, err)
	}
	n, err := p.disk.find(name)
	if err != nil {
		return nil, fail("stat", name, err)
	}
	return infoOf(n, name), nil
}

// PathBase implements vfs.FS.
func (pebbleFS) PathBase(path string) string { return filepath.Base(path) }

// PathJoin implements vfs.FS.
func (pebbleFS) PathJoin(elem ...string) string { return filepath.Join(elem...) }

// PathDir implements vfs.FS.
func (pebbleFS) PathDir(path string) string { return filepath.Dir(path) }

// GetDiskUsage implements vfs.FS.
func (p pebbleFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	if _, err := p.disk.find(path); err != nil {
		return vfs.DiskUsage{}, fail("statfs", path, err)
	}
	d := p.disk
	return vfs.DiskUsage{
		AvailBytes: uint64(max(0, d.capacity-d.used)),
		TotalBytes: uint64(d.capacity),
		UsedBytes:  uint64(d.used),
	}, nil
}

// Unwrap implements vfs.FS.
func (pebbleFS) Unwrap() vfs.FS { return nil }

// pebbleFile is an open file or directory of Pebble.
type pebbleFile struct {
	disk     *Disk
	node     *node
	name     string
	writable bool
	closed   bool
	pos      int64 // of the next Read or Write, which share it as in the kernel
}

// usableLocked fails where the handle is closed or is not what the operation needs.
func (f *pebbleFile) usableLocked(write bool) error {
	switch {
	case f.closed:
		return fs.ErrClosed
	case write && !f.writable:
		return syscall.EBADF
	case f.node.isDir():
		return syscall.EISDIR
	default:
		return nil
	}
}

// Close implements vfs.File.
func (f *pebbleFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return fail("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.disk.closeLocked(f.node)
	return nil
}

// Read implements vfs.File.
func (f *pebbleFile) Read(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n, err := f.readLocked(b, f.pos)
	f.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt implements vfs.File.
func (f *pebbleFile) ReadAt(b []byte, pos int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.readLocked(b, pos)
}

func (f *pebbleFile) readLocked(b []byte, pos int64) (int, error) {
	if err := f.usableLocked(false); err != nil {
		return 0, fail("read", f.name, err)
	}
	n, err := f.disk.readLocked(f.node, f.name, b, pos)
	if err != nil && err != io.EOF {
		err = fail("read", f.name, err)
	}
	return n, err
}

// Write implements vfs.File.
func (f *pebbleFile) Write(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n, err := f.writeLocked(b, f.pos)
	f.pos += int64(n)
	return n, err
}

// WriteAt implements vfs.File.
func (f *pebbleFile) WriteAt(b []byte, pos int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.writeLocked(b, pos)
}

func (f *pebbleFile) writeLocked(b []byte, pos int64) (int, error) {
	if err := f.usableLocked(true); err != nil {
		return 0, fail("write", f.name, err)
	}
	fault := f.disk.admitLocked(KindWrite, f.name)
	if fault != nil {
		b = b[:min(int64(len(b)), fault.WrittenBytes)]
	}
	n, err := f.node.put(f.disk, b, pos)
	if err == nil && fault != nil {
		err = fault.Err
	}
	if err != nil {
		err = fail("write", f.name, err)
	}
	return int(n), err
}

// Preallocate implements vfs.File.
func (f *pebbleFile) Preallocate(offset, length int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.usableLocked(true)
	if err == nil {
		err = f.disk.preallocateLocked(f.node, f.name, offset, length)
	}
	if err != nil {
		return fail("preallocate", f.name, err)
	}
	return nil
}

// Stat implements vfs.File.
func (f *pebbleFile) Stat() (vfs.FileInfo, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return nil, fail("stat", f.name, fs.ErrClosed)
	}
	return infoOf(f.node, f.name), nil
}

// Sync implements vfs.File, for files and directories.
func (f *pebbleFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	var err error
	switch {
	case f.closed:
		err = fs.ErrClosed
	case f.node.isDir():
		err = f.disk.syncDirLocked(f.node, f.name)
	default:
		err = f.disk.syncFileLocked(f.node, f.name)
	}
	if err != nil {
		return fail("sync", f.name, err)
	}
	return nil
}

// SyncData implements vfs.File.
func (f *pebbleFile) SyncData() error { return f.Sync() }

// SyncTo implements vfs.File. It promises nothing and does nothing.
func (f *pebbleFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }

// Prefetch implements vfs.File.
func (f *pebbleFile) Prefetch(int64, int64) error { return nil }

// Fd implements vfs.File.
func (f *pebbleFile) Fd() uintptr { return vfs.InvalidFd }

// fileInfo tells of a file. The disk keeps no times.
type fileInfo struct {
	name string
	size int64
	dir  bool
}

func infoOf(n *node, path string) fileInfo {
	return fileInfo{name: filepath.Base(path), size: int64(len(n.data)), dir: n.isDir()}
}

// Name implements fs.FileInfo.
func (i fileInfo) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i fileInfo) Size() int64 { return i.size }

// Mode implements fs.FileInfo.
func (i fileInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// ModTime implements fs.FileInfo.
func (fileInfo) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (i fileInfo) IsDir() bool { return i.dir }

// Sys implements fs.FileInfo.
func (fileInfo) Sys() any { return nil }

// DeviceID implements vfs.FileInfo.
func (fileInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
