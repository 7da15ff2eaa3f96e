package consumer

import "millrace/kafka/group/assignor"

// Change is one durable change of a group, a value of one of the types below. The changes of an operation
// belong together: all of them become durable, in order, or none. Their slices and maps are shared with the
// group that made them and must not be written to.
type Change interface {
	// Append appends the encoded change to dst.
	Append(dst []byte) []byte
	apply(s *State) error
}

// GroupEpoch sets the epoch of the group.
type GroupEpoch struct {
	Epoch        int32
	MetadataHash uint64 // of the topics that members are subscribed to
}

// PutMember sets the subscription of a member, and adds the member where it is new.
type PutMember struct{ Subscription }

// DeleteMember removes a member with all that is its own.
type DeleteMember struct{ MemberID string }

// TargetEpoch sets the epoch that the target assignment is of.
type TargetEpoch struct {
	Epoch      int32
	TimeMillis int64 // when it was computed; 0: not at all, since the group was empty
}

// TargetAssignment sets the target assignment of one member.
type TargetAssignment struct {
	MemberID   string
	Partitions assignor.Assignment
}

// CurrentAssignment sets how far a member is.
type CurrentAssignment struct {
	MemberID string
	Progress
}

// PutRegex sets the topics that a regular expression stands for.
type PutRegex struct {
	Regex  string
	Topics []string // ascending
}

// DeleteRegex removes a regular expression that nobody is subscribed to any more.
type DeleteRegex struct{ Regex string }

// DeleteGroup removes everything.
type DeleteGroup struct{}
