package diskio

import "io"

// FS is a directory tree on one file system together with the backend that batches I/O on it. All methods
// may block and may be called from several goroutines at once; none may be called from an event loop. Paths
// are those of the process, absolute or relative to its working directory. Errors of paths and files are
// *fs.PathError or *os.LinkError around the system's error, so that errors.Is finds fs.ErrExist,
// fs.ErrNotExist, syscall.ENOSPC and syscall.EIO.
type FS interface {
	// MkdirAll creates path and what leads to it. The directory entry is durable after SyncDir of the parent.
	MkdirAll(path string) error
	// Create makes a new file for reading and writing and fails with fs.ErrExist where there is one.
	Create(path string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(path string) (File, error)
	// OpenReadOnly opens an existing file for reading.
	OpenReadOnly(path string) (File, error)
	// Remove deletes a file or an empty directory; RemoveAll a tree, and is content where there is none.
	Remove(path string) error
	RemoveAll(path string) error
	// Rename replaces to where there is such a file. Durable after SyncDir of both parents.
	Rename(from, to string) error
	// List returns the names in a directory, sorted.
	List(path string) ([]string, error)
	// Size returns a file's size, and fs.ErrNotExist where there is none.
	Size(path string) (int64, error)
	// SyncDir makes the entries of a directory durable.
	SyncDir(path string) error
	// Lock takes an exclusive advisory lock on a file that it creates, and fails at once with ErrLocked
	// where another process holds it. Closing gives it back; so does the end of the process.
	Lock(path string) (io.Closer, error)
	// Free returns the bytes that an unprivileged process can still write.
	Free(path string) (int64, error)

	// Write carries out every op and sets its Err. An op is done whole or fails: short writes are continued
	// inside. Ops of one file take effect in the order given, and once one of them failed the later ones of
	// that file are not tried and carry the same error, so that no write lands behind a hole. One submission
	// serves all ops where the backend can. It does not allocate in the steady state.
	Write(ops []WriteOp)
	// Sync makes the data of every file durable (fdatasync) as one batch and sets each Err.
	Sync(ops []SyncOp)
	// Backend names the chosen backend, "ring", "posix" or "simulated", and why it was chosen.
	Backend() (name, reason string)
	// Close releases the backend. Files must be closed before.
	Close() error
}

// WriteOp is one positioned write of the bytes of Bufs in turn. Neither Bufs nor their bytes may change
// until Write returns.
type WriteOp struct {
	File File
	Pos  int64
	Bufs [][]byte
	Err  error
}

// SyncOp is one file to be made durable.
type SyncOp struct {
	File File
	Err  error
}

// File is an open file. Close must not run at the same time as another method.
type File interface {
	Name() string
	// WriteAt writes all of b at pos.
	WriteAt(b []byte, pos int64) (int, error)
	// ReadAt fills b from pos; io.EOF where the file ends before.
	ReadAt(b []byte, pos int64) (int, error)
	// Sync makes the data durable (fdatasync). A failed sync is never retried by the caller.
	Sync() error
	// Preallocate reserves blocks for [pos, pos+size) without changing the size. Failure is harmless.
	Preallocate(pos, size int64) error
	// ReleasePreallocated gives back the blocks reserved beyond the file's size. It must not run while the
	// file is being written.
	ReleasePreallocated() error
	Size() (int64, error)
	// Map maps [0, size) for reading; size may lie beyond the end of the file: bytes appended later show up
	// in the mapping, and reading beyond the end of the file is the caller's mistake. The mapping stays
	// usable after Close of the file, until its own Unmap.
	Map(size int64) (Mapping, error)
	Close() error
}

// Mapping is a read-only view of a file's bytes. Slices of it are valid until Unmap, which must not run
// while one is in use.
type Mapping interface {
	// Slice returns the bytes [pos, end), not copied. Touching a page that is not resident stalls the
	// goroutine and its thread: ask Resident first. A page that cannot be read raises SIGBUS; readers run
	// under Guard.
	Slice(pos, end int64) []byte
	// Resident tells whether all of [pos, end) is in the page cache. It does not block. Bytes beyond the
	// page in which the file ends are not resident; after somebody else cut the file they may seem to be.
	Resident(pos, end int64) bool
	// Load brings [pos, end) into the page cache and blocks until it is there or could not be read
	// (ErrFault). Where the file ends before end it loads what there is and returns an error that is io.EOF. It never faults.
	Load(pos, end int64) error
	// Len returns the mapped length.
	Len() int64
	Unmap() error
}
