package cluster

import "errors"

// Code is the outcome of one item of a command. It travels in results; new codes go to the end.
type Code uint8

// The codes.
const (
	OK Code = iota
	ErrTopicExists
	ErrUnknownTopic
	ErrUnknownTopicID
	ErrInvalidName
	ErrNameCollision // a name that differs only in dots and underscores exists
	ErrInvalidPartitions
	ErrTooManyPartitions
	ErrInvalidReplicationFactor
	ErrInvalidAssignment
	ErrInvalidRequest
	ErrUnknownBroker
	ErrClusterMismatch // the broker belongs to another cluster
	ErrConflict        // the configs changed since the caller read them: read and propose again
	ErrTopicIDExists
)

// Outcome is a code with what there is to say about it. OK has no message.
type Outcome struct {
	Code    Code
	Message string
}

// Failed tells whether the item was refused.
func (o Outcome) Failed() bool { return o.Code != OK }

// Err returns the outcome as an error, nil for OK.
func (o Outcome) Err() error {
	if o.Code == OK {
		return nil
	}
	return errors.New(o.Message)
}
