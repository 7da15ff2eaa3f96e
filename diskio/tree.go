package diskio

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Modes of what is created: the owner writes, the group reads, others see nothing. The umask applies.
const (
	dirMode  = 0o750
	fileMode = 0o640
)

// tree holds the part of FS that is the same for every backend on the host: names, sizes and locks.
type tree struct{ host *pageHost }

// MkdirAll implements FS.
func (tree) MkdirAll(path string) error { return os.MkdirAll(path, dirMode) }

// Create implements FS.
func (t tree) Create(path string) (File, error) {
	return t.openFile(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
}

// Open implements FS.
func (t tree) Open(path string) (File, error) { return t.openFile(path, unix.O_RDWR) }

// OpenReadOnly implements FS.
func (t tree) OpenReadOnly(path string) (File, error) { return t.openFile(path, unix.O_RDONLY) }

// Remove implements FS.
func (tree) Remove(path string) error { return os.Remove(path) }

// RemoveAll implements FS.
func (tree) RemoveAll(path string) error { return os.RemoveAll(path) }

// Rename implements FS.
func (tree) Rename(from, to string) error { return os.Rename(from, to) }

// List implements FS.
func (tree) List(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, nil
}

// Size implements FS.
func (tree) Size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// SyncDir implements FS.
func (tree) SyncDir(path string) error {
	fd, err := openRetry(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	if err := retry(func() error { return unix.Fsync(fd) }); err != nil {
		return &fs.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

// Free implements FS.
func (tree) Free(path string) (int64, error) {
	var stat unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(path, &stat) }); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(stat.Bavail) * stat.Frsize, nil
}

// Lock implements FS. It uses flock: the lock belongs to the open description, so that a second lock in this
// process is refused too, and closing another descriptor of the file does not give it away (as it would with
// fcntl locks of the POSIX kind).
func (tree) Lock(path string) (io.Closer, error) {
	fd, err := openRetry(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	err = retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return &file{fd: newDescriptor(fd), name: path}, nil
}

// openFile opens a file without handing it to the runtime's poller, which could not wait for it anyway.
func (t tree) openFile(path string, flags int) (File, error) {
	fd, err := openRetry(path, flags)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &file{fd: newDescriptor(fd), name: path, host: t.host}, nil
}

// openRetry opens path with O_CLOEXEC, again where a signal interrupted it.
func openRetry(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, fileMode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// retry calls f until a signal does not interrupt it. The Go runtime preempts goroutines with signals, so
// EINTR is ordinary.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
