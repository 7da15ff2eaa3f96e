package diskio

import "errors"

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// ErrFault says that mapped bytes could not be read: the file was cut by somebody else or the disk failed.
var ErrFault = errors.New("mapped bytes cannot be read")

// ErrForeignFile says that an op names a file that another FS opened, or none. It is the caller's mistake.
var ErrForeignFile = errors.New("file was not opened by this file system")

// ErrRingRefused says that the ring backend was asked for where the host does not allow io_uring.
var ErrRingRefused = errors.New("io_uring is not available")
