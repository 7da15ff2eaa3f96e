package recordbatch

import (
	"errors"
	"fmt"
)

// What a batch can be refused for; each stands for one wire error, which the caller maps.
var (
	// ErrCorrupt: CORRUPT_MESSAGE(2).
	ErrCorrupt = errors.New("corrupt batch")
	// ErrTooLarge: MESSAGE_TOO_LARGE(10).
	ErrTooLarge = errors.New("batch is too large")
	// ErrTimestamp: INVALID_TIMESTAMP(32).
	ErrTimestamp = errors.New("timestamp is out of range")
	// ErrUnsupportedCodec: UNSUPPORTED_COMPRESSION_TYPE(76).
	ErrUnsupportedCodec = errors.New("unsupported compression codec")
	// ErrInvalidRecord: INVALID_RECORD(87).
	ErrInvalidRecord = errors.New("invalid record")
	// ErrTransactional: the batch belongs to a transaction and the caller did not allow that.
	ErrTransactional = errors.New("batch is transactional")
	// ErrMemory: the memory for decompressing was refused by the accounting for now.
	ErrMemory = errors.New("no memory left to decompress in")
)

// BatchError is a refusal. It wraps one of the errors above.
type BatchError struct {
	Err error
	// Index is the first bad record in the batch, or -1 where the batch as a whole is bad (KIP-467).
	Index int32
	// Message says what is wrong, without the record's bytes.
	Message string
}

// Error returns the cause, the record and the message.
func (e *BatchError) Error() string {
	if e.Index < 0 {
		return fmt.Sprintf("%v: %s", e.Err, e.Message)
	}
	return fmt.Sprintf("%v: record %d: %s", e.Err, e.Index, e.Message)
}

// Unwrap returns the sentinel.
func (e *BatchError) Unwrap() error { return e.Err }

func refuse(err error, format string, args ...any) error {
	return &BatchError{Err: err, Index: -1, Message: fmt.Sprintf(format, args...)}
}

func refuseRecord(err error, index int, format string, args ...any) error {
	return &BatchError{Err: err, Index: int32(index), Message: fmt.Sprintf(format, args...)}
}
