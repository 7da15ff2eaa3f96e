package model

import "errors"

// What is wrong with stored bytes. Errors that are returned wrap one of these and may name the value that
// was found.
var (
	// ErrShort: the bytes end before the frame, block or record does. At the tail of the newest segment it
	// means that the append was not written whole.
	ErrShort = errors.New("bytes end too early")
	// ErrNotAppend: there is no append header here: zeros, preallocated space or other bytes.
	ErrNotAppend = errors.New("no append header")
	// ErrChecksum: the bytes are not those that were written.
	ErrChecksum = errors.New("checksum does not match")
	// ErrForeign: a whole append header of another shard.
	ErrForeign = errors.New("append of another shard")
	// ErrVersion: written by a newer version of this program.
	ErrVersion = errors.New("unknown format version")
	// ErrKind: a kind of append that this version does not know.
	ErrKind = errors.New("unknown kind of append")
	// ErrFlags: flags or reserved bytes are set that this version does not know.
	ErrFlags = errors.New("unknown flags")
	// ErrBodyCodec: the blocks are stored compressed, which this version does not know.
	ErrBodyCodec = errors.New("unknown body codec")
	// ErrMalformed: the checksum is right, but lengths, counts or offsets contradict each other.
	ErrMalformed = errors.New("malformed")
	// ErrOrder: an append is whole, but its offset or leader epoch does not follow what came before.
	ErrOrder = errors.New("append does not follow the one before")
)
