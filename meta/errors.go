package meta

import "errors"

// ErrClosed says that the node was closed. The command may or may not have been applied.
var ErrClosed = errors.New("the meta node is closed")

// ErrFailed says that the node takes no more proposals, since its log could not be written or a command
// could not be applied. Only a new start can help. The command may or may not have been applied.
var ErrFailed = errors.New("the meta node has failed and takes no more proposals")

// ErrTooLarge says that a command is longer than CommandBytesMax.
var ErrTooLarge = errors.New("command is too large")

// ErrInUse says that another process has the directory open.
var ErrInUse = errors.New("directory is in use by another process")

// ErrDamaged says that files of the directory are damaged.
var ErrDamaged = errors.New("files of the cluster state are damaged")

// ErrIdentity says that the directory belongs to another node or cluster.
var ErrIdentity = errors.New("directory belongs to another broker")
