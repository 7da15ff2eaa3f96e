package diskio

import (
	"io"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// descriptor is a file descriptor that mappings may look at while their file is being closed.
type descriptor struct{ value atomic.Int32 }

// closedDescriptor stands where there is no open file any more.
const closedDescriptor = -1

func newDescriptor(fd int) *descriptor {
	d := &descriptor{}
	d.value.Store(int32(fd))
	return d
}

func (d *descriptor) get() int { return int(d.value.Load()) }

// take returns the descriptor and leaves it closed.
func (d *descriptor) take() int { return int(d.value.Swap(closedDescriptor)) }

// file is an open file of the host.
type file struct {
	fd   *descriptor
	name string
	host *pageHost
	// loads counts the Load calls in flight on any mapping of this file: see mapping.Resident.
	loads atomic.Int32
}

// Name implements File.
func (f *file) Name() string { return f.name }

// Close implements File. A second Close returns fs.ErrClosed.
func (f *file) Close() error {
	fd := f.fd.take()
	if fd == closedDescriptor {
		return f.fail("close", fs.ErrClosed)
	}
	// Not repeated on EINTR: Linux has freed the descriptor by then, and another goroutine may own the number.
	if err := unix.Close(fd); err != nil && err != unix.EINTR {
		return f.fail("close", err)
	}
	return nil
}

// WriteAt implements File.
func (f *file) WriteAt(b []byte, pos int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pwrite(f.fd.get(), b[done:], pos+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return done, f.fail("write", err)
		}
		done += n
	}
	return done, nil
}

// ReadAt implements File.
func (f *file) ReadAt(b []byte, pos int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pread(f.fd.get(), b[done:], pos+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, f.fail("read", err)
		}
		if n == 0 {
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

// Sync implements File.
func (f *file) Sync() error {
	for {
		err := unix.Fdatasync(f.fd.get())
		switch err {
		case nil:
			return nil
		case unix.EINTR: // interrupted before the data was out: says nothing of the disk
		default:
			return f.fail("sync", err)
		}
	}
}

// Preallocate implements File.
func (f *file) Preallocate(pos, size int64) error {
	if size <= 0 {
		return nil
	}
	fd := f.fd.get()
	err := retry(func() error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, pos, size) })
	if err != nil {
		return f.fail("preallocate", err)
	}
	return nil
}

// ReleasePreallocated implements File. ext4 and XFS free blocks beyond the end when a file is cut to the size
// it has; punching a hole there does nothing on ext4.
func (f *file) ReleasePreallocated() error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	fd := f.fd.get()
	if err := retry(func() error { return unix.Ftruncate(fd, size) }); err != nil {
		return f.fail("release preallocated", err)
	}
	return nil
}

// Size implements File.
func (f *file) Size() (int64, error) {
	size, err := f.fd.size()
	if err != nil {
		return 0, f.fail("stat", err)
	}
	return size, nil
}

// size asks the system for the size of the open file.
func (d *descriptor) size() (int64, error) {
	var stat unix.Stat_t
	for {
		err := unix.Fstat(d.get(), &stat)
		if err != unix.EINTR {
			return stat.Size, err
		}
	}
}

// fail names what was tried and on which file. A closed file is told by the error that callers know.
func (f *file) fail(op string, err error) error {
	if err == unix.EBADF && f.fd.get() == closedDescriptor {
		err = fs.ErrClosed
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}
