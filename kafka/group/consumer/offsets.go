package consumer

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/engine/model"
)

// CommitCheck judges the partitions of an offset commit. The zero value accepts all.
type CommitCheck struct {
	member *Member
	epoch  int32
}

// CheckCommit judges who commits: any caller without a member id and epoch while the group is empty, a
// transaction that names no member, or a member. version is the version of OffsetCommit; it does not count for
// a transactional commit. A member of the consumer protocol needs 9.
//
// A member that is behind by some epochs may commit what it has been assigned since: each partition of the
// commit then goes through Partition, and where one is refused the whole request is.
func (s *State) CheckCommit(memberID string, instanceID *string, epoch int32, transactional bool, version int16) (CommitCheck, error) {
	if epoch < 0 && len(s.members) == 0 {
		return CommitCheck{}, nil
	}
	if transactional && epoch == -1 && memberID == "" && instanceID == nil {
		return CommitCheck{}, nil
	}
	m := s.members[memberID]
	if m == nil {
		return CommitCheck{}, refuse(kerr.UnknownMemberID, "Member %s is not a member of the group.", memberID)
	}
	if !transactional && m.Classic == nil && version < 9 {
		return CommitCheck{}, refuse(kerr.UnsupportedVersion, "OffsetCommit version 9 or above must be used by members using the consumer group protocol")
	}
	if epoch == m.Epoch {
		return CommitCheck{}, nil
	}
	if epoch > m.Epoch {
		return CommitCheck{}, m.stale("Received epoch %d is newer than current member epoch %d.", epoch, m.Epoch)
	}
	return CommitCheck{member: m, epoch: epoch}, nil
}

// Partition refuses the commit where the member's epoch is older than its hold of the partition.
func (c CommitCheck) Partition(topic model.TopicID, partition int32) error {
	if c.member == nil {
		return nil
	}
	since, ok := c.member.Assigned.Has(topic, partition)
	if !ok {
		if since, ok = c.member.Pending.Has(topic, partition); !ok {
			return c.member.stale("Partition %v-%d is not assigned or pending revocation for member.", topic, partition)
		}
	}
	if c.epoch < since {
		return c.member.stale("Received epoch %d is older than the assignment epoch %d of the partition.", c.epoch, since)
	}
	return nil
}

// CheckFetch judges who fetches offsets: anybody without a member id and epoch, or a member at its epoch.
// memberID is nil in versions of OffsetFetch below 9, and epoch -1.
func (s *State) CheckFetch(memberID *string, epoch int32) error {
	if memberID == nil && epoch < 0 {
		return nil
	}
	id := ""
	if memberID != nil {
		id = *memberID
	}
	m := s.members[id]
	if m == nil {
		return refuse(kerr.UnknownMemberID, "Member %s is not a member of the group.", id)
	}
	if epoch != m.Epoch {
		return m.stale("The received epoch %d does not match the expected member epoch %d.", epoch, m.Epoch)
	}
	return nil
}

// stale is the code for a wrong epoch in the words of the member's protocol.
func (m *Member) stale(format string, args ...any) error {
	if m.Classic != nil {
		return refuse(kerr.IllegalGeneration, format, args...)
	}
	return refuse(kerr.StaleMemberEpoch, format, args...)
}
