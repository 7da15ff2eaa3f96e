package cluster

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

// Error makes an Outcome an error; it returns the message.
func (o Outcome) Error() string { return o.Message }
