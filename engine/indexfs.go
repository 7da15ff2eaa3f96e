package engine

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fenceFS stands between the index store and its files. Pebble ends the process when its log cannot be
// written; a broker must not end because a disk is full. So writes that find no space wait here until there
// is some: appends are refused meanwhile and reads go on. Any other failed write or sync freezes the file
// system: nothing reaches the disk from then on, the store takes no more writes, and the next start finds
// what a crash at that moment would have left.
type fenceFS struct {
	vfs.FS
	log    *slog.Logger
	onFail func(error)
	frozen atomic.Bool
	closed chan struct{} // ends waits for space
	full   atomic.Bool
}

func newFenceFS(fs vfs.FS, log *slog.Logger, onFail func(error)) *fenceFS {
	return &fenceFS{FS: fs, log: log, onFail: onFail, closed: make(chan struct{})}
}

// spaceRetry is the time between two tries to write to a full disk.
const spaceRetry = 50 * time.Millisecond

// try carries a write out, waiting for space. It returns an error to nobody: what fails freezes.
func (f *fenceFS) try(op func() error) error {
	for {
		if f.frozen.Load() {
			return nil
		}
		err := op()
		if err == nil {
			f.full.Store(false)
			return nil
		}
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			f.freeze(err)
			return nil
		}
		if !f.full.Swap(true) {
			f.log.Warn("index store waits for disk space", "err", err)
		}
		select {
		case <-f.closed:
			f.freeze(err)
			return nil
		case <-time.After(spaceRetry):
		}
	}
}

// once carries out a sync. One that failed says nothing about what is on the disk, also not when it is
// tried again.
func (f *fenceFS) once(op func() error) error {
	if f.frozen.Load() {
		return nil
	}
	if err := op(); err != nil {
		f.freeze(err)
	}
	return nil
}

func (f *fenceFS) freeze(err error) {
	if !f.frozen.Swap(true) {
		f.onFail(err)
	}
}

// endWaits lets go of who waits for space, at the price of freezing.
func (f *fenceFS) endWaits() { close(f.closed) }

func (f *fenceFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &fenceFile{File: file, fs: f}, nil
}

// Create implements vfs.FS.
func (f *fenceFS) Create(name string, category vfs.DiskWriteCategory) (file vfs.File, err error) {
	err = f.try(func() error { file, err = f.FS.Create(name, category); return err })
	if file == nil && err == nil {
		return &fenceFile{File: frozenFile{}, fs: f}, nil
	}
	return f.wrap(file, err)
}

// ReuseForWrite implements vfs.FS.
func (f *fenceFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (file vfs.File, err error) {
	err = f.try(func() error { file, err = f.FS.ReuseForWrite(old, name, category); return err })
	if file == nil && err == nil {
		return &fenceFile{File: frozenFile{}, fs: f}, nil
	}
	return f.wrap(file, err)
}

// OpenReadWrite implements vfs.FS.
func (f *fenceFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.wrap(f.FS.OpenReadWrite(name, category, opts...))
}

// OpenDir implements vfs.FS.
func (f *fenceFS) OpenDir(name string) (vfs.File, error) { return f.wrap(f.FS.OpenDir(name)) }

// Remove implements vfs.FS.
func (f *fenceFS) Remove(name string) error {
	if f.frozen.Load() {
		return nil
	}
	return f.FS.Remove(name)
}

// Rename implements vfs.FS.
func (f *fenceFS) Rename(from, to string) error {
	return f.try(func() error { return f.FS.Rename(from, to) })
}

// Link implements vfs.FS.
func (f *fenceFS) Link(from, to string) error {
	return f.try(func() error { return f.FS.Link(from, to) })
}

// Unwrap implements vfs.FS.
func (f *fenceFS) Unwrap() vfs.FS { return f.FS }

// fenceFile is a file for writing behind the fence.
type fenceFile struct {
	vfs.File
	fs *fenceFS
}

// Write implements io.Writer. Where space ends within it, the rest is written when there is some.
func (f *fenceFile) Write(b []byte) (int, error) {
	done := 0
	err := f.fs.try(func() error {
		n, err := f.File.Write(b[done:])
		done += n
		return err
	})
	return len(b), err
}

// WriteAt implements vfs.File.
func (f *fenceFile) WriteAt(b []byte, at int64) (int, error) {
	err := f.fs.try(func() error { _, err := f.File.WriteAt(b, at); return err })
	return len(b), err
}

// Sync implements vfs.File.
func (f *fenceFile) Sync() error { return f.fs.once(f.File.Sync) }

// SyncData implements vfs.File.
func (f *fenceFile) SyncData() error { return f.fs.once(f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *fenceFile) SyncTo(length int64) (full bool, err error) {
	err = f.fs.once(func() error { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Preallocate implements vfs.File. Its failure is harmless.
func (f *fenceFile) Preallocate(offset, length int64) error {
	if f.fs.frozen.Load() {
		return nil
	}
	if err := f.File.Preallocate(offset, length); errors.Is(err, syscall.ENOSPC) {
		return nil
	} else if err != nil {
		return err
	}
	return nil
}

// Fd hides the descriptor, so that no write goes around the fence.
func (f *fenceFile) Fd() uintptr { return vfs.InvalidFd }

// frozenFile stands for a file that was not made because the file system is frozen.
type frozenFile struct{}

func (frozenFile) Close() error                           { return nil }
func (frozenFile) Read([]byte) (int, error)               { return 0, errFrozen }
func (frozenFile) ReadAt([]byte, int64) (int, error)      { return 0, errFrozen }
func (frozenFile) Write(b []byte) (int, error)            { return len(b), nil }
func (frozenFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (frozenFile) Preallocate(int64, int64) error         { return nil }
func (frozenFile) Stat() (vfs.FileInfo, error)            { return nil, errFrozen }
func (frozenFile) Sync() error                            { return nil }
func (frozenFile) SyncTo(int64) (bool, error)             { return false, nil }
func (frozenFile) SyncData() error                        { return nil }
func (frozenFile) Prefetch(int64, int64) error            { return nil }
func (frozenFile) Fd() uintptr                            { return vfs.InvalidFd }

var errFrozen = errors.New("index store is frozen after a failed write")
