package disktest

import (
	"io"
	"io/fs"
	"syscall"

	"millrace/diskio"
)

// file is an open handle of the diskio contract.
type file struct {
	disk     *Disk
	node     *node
	name     string
	writable bool
	closed   bool
}

// Name implements diskio.File.
func (f *file) Name() string { return f.name }

// Close implements diskio.File.
func (f *file) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return fail("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.disk.closeLocked(f.node)
	return nil
}

// usableLocked fails where the handle is closed, or is to be written and may not.
func (f *file) usableLocked(write bool) error {
	if f.closed {
		return fs.ErrClosed
	}
	if write && !f.writable {
		return syscall.EBADF
	}
	return nil
}

// Write implements diskio.FS.
func (d *Disk) Write(ops []diskio.WriteOp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	failed := make(map[*file]error)
	for i := range ops {
		op := &ops[i]
		f, ok := op.File.(*file)
		if !ok || f.disk != d {
			op.Err = diskio.ErrForeignFile
			continue
		}
		if op.Err = failed[f]; op.Err != nil {
			continue
		}
		if op.Err = f.writeLocked(op); op.Err != nil {
			failed[f] = op.Err
		}
	}
}

func (f *file) writeLocked(op *diskio.WriteOp) error {
	if err := f.usableLocked(true); err != nil {
		return fail("write", f.name, err)
	}
	fault := f.disk.admitLocked(KindWrite, f.name)
	left := int64(fileBytesMax)
	if fault != nil {
		left = fault.WrittenBytes
	}
	pos := op.Pos
	for _, buf := range op.Bufs {
		n, err := f.node.put(f.disk, buf[:min(int64(len(buf)), left)], pos)
		if err != nil {
			return fail("write", f.name, err)
		}
		pos, left = pos+n, left-n
	}
	if fault != nil {
		return fail("write", f.name, fault.Err)
	}
	return nil
}

// WriteAt implements diskio.File.
func (f *file) WriteAt(b []byte, pos int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	op := diskio.WriteOp{File: f, Pos: pos, Bufs: [][]byte{b}}
	if err := f.writeLocked(&op); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ReadAt implements diskio.File.
func (f *file) ReadAt(b []byte, pos int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.usableLocked(false); err != nil {
		return 0, fail("read", f.name, err)
	}
	n, err := f.disk.readLocked(f.node, f.name, b, pos)
	if err != nil && err != io.EOF {
		return n, fail("read", f.name, err)
	}
	return n, err
}

// readLocked fills b from pos, and answers io.EOF where the file ends before.
func (d *Disk) readLocked(n *node, name string, b []byte, pos int64) (int, error) {
	if err := d.admitErrorLocked(KindRead, name); err != nil {
		return 0, err
	}
	if pos < 0 {
		return 0, syscall.EINVAL
	}
	done := copy(b, n.data[min(pos, int64(len(n.data))):])
	n.flipInto(b[:done], pos)
	if done < len(b) {
		return done, io.EOF
	}
	return done, nil
}

// Sync implements diskio.FS.
func (d *Disk) Sync(ops []diskio.SyncOp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range ops {
		f, ok := ops[i].File.(*file)
		if !ok || f.disk != d {
			ops[i].Err = diskio.ErrForeignFile
			continue
		}
		ops[i].Err = f.syncLocked()
	}
}

func (f *file) syncLocked() error {
	err := f.usableLocked(false)
	if err == nil {
		err = f.disk.syncFileLocked(f.node, f.name)
	}
	if err != nil {
		return fail("sync", f.name, err)
	}
	return nil
}

// syncFileLocked makes the bytes of n durable, or fails and never will.
func (d *Disk) syncFileLocked(n *node, name string) error {
	err := d.admitErrorLocked(KindSync, name)
	if err != ErrCut {
		n.sync(err != nil)
	}
	return err
}

// Sync implements diskio.File.
func (f *file) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.syncLocked()
}

// Preallocate implements diskio.File.
func (f *file) Preallocate(pos, size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if size <= 0 {
		return nil
	}
	err := f.usableLocked(true)
	if err == nil {
		err = f.disk.preallocateLocked(f.node, f.name, pos, size)
	}
	if err != nil {
		return fail("preallocate", f.name, err)
	}
	return nil
}

func (d *Disk) preallocateLocked(n *node, name string, pos, size int64) error {
	if err := d.admitErrorLocked(KindPreallocate, name); err != nil {
		return err
	}
	if pos+size-n.charged > d.capacity-d.used {
		return syscall.ENOSPC
	}
	n.reserved = max(n.reserved, pos+size)
	n.charge(d)
	return nil
}

// ReleasePreallocated implements diskio.File.
func (f *file) ReleasePreallocated() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.usableLocked(true)
	if err == nil {
		err = f.disk.aliveLocked()
	}
	if err != nil {
		return fail("release preallocated", f.name, err)
	}
	f.node.reserved = 0
	f.node.charge(f.disk)
	return nil
}

// Size implements diskio.File.
func (f *file) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.usableLocked(false); err != nil {
		return 0, fail("stat", f.name, err)
	}
	return int64(len(f.node.data)), nil
}
