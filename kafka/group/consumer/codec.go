package consumer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"millrace/engine/model"
	"millrace/kafka/group/assignor"
	"millrace/perf/fields"
)

// The kinds of changes as they stand in the log. They are never renumbered. A change is its kind, its
// version and its fields; integers are varints, strings and lists begin with their length, a partition
// list is in ascending order.
const (
	kindGroupEpoch byte = iota + 1
	kindPutMember
	kindDeleteMember
	kindTargetEpoch
	kindTargetAssignment
	kindCurrentAssignment
	kindPutRegex
	kindDeleteRegex
	kindDeleteGroup
)

// changeVersion is the version of every change so far.
const changeVersion = 1

var errMalformed = errors.New("bytes say what cannot be")

// Append implements Change.
func (c GroupEpoch) Append(dst []byte) []byte {
	dst = append(dst, kindGroupEpoch, changeVersion)
	dst = binary.AppendVarint(dst, int64(c.Epoch))
	return binary.BigEndian.AppendUint64(dst, c.MetadataHash)
}

// Append implements Change.
func (c PutMember) Append(dst []byte) []byte {
	dst = append(dst, kindPutMember, changeVersion)
	for _, s := range []string{c.MemberID, c.InstanceID, c.RackID, c.ClientID, c.ClientHost, c.Regex, c.Assignor} {
		dst = fields.AppendText(dst, s)
	}
	dst = binary.AppendVarint(dst, c.RebalanceTimeout.Milliseconds())
	dst = appendStrings(dst, c.Topics)
	if c.Classic == nil {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	dst = binary.AppendVarint(dst, c.Classic.SessionTimeout.Milliseconds())
	dst = binary.AppendUvarint(dst, uint64(len(c.Classic.Protocols)))
	for _, p := range c.Classic.Protocols {
		dst = fields.AppendText(dst, p.Name)
		dst = fields.AppendText(dst, string(p.Metadata))
	}
	return dst
}

// Append implements Change.
func (c DeleteMember) Append(dst []byte) []byte {
	return fields.AppendText(append(dst, kindDeleteMember, changeVersion), c.MemberID)
}

// Append implements Change.
func (c TargetEpoch) Append(dst []byte) []byte {
	dst = append(dst, kindTargetEpoch, changeVersion)
	dst = binary.AppendVarint(dst, int64(c.Epoch))
	return binary.AppendVarint(dst, c.TimeMillis)
}

// Append implements Change.
func (c TargetAssignment) Append(dst []byte) []byte {
	dst = fields.AppendText(append(dst, kindTargetAssignment, changeVersion), c.MemberID)
	dst = binary.AppendUvarint(dst, uint64(len(c.Partitions)))
	for _, id := range sortedIDs(c.Partitions) {
		dst = append(dst, id[:]...)
		dst = binary.AppendUvarint(dst, uint64(len(c.Partitions[id])))
		for _, p := range c.Partitions[id] {
			dst = binary.AppendVarint(dst, int64(p))
		}
	}
	return dst
}

// Append implements Change.
func (c CurrentAssignment) Append(dst []byte) []byte {
	dst = fields.AppendText(append(dst, kindCurrentAssignment, changeVersion), c.MemberID)
	dst = binary.AppendVarint(dst, int64(c.Epoch))
	dst = binary.AppendVarint(dst, int64(c.PreviousEpoch))
	dst = append(dst, byte(c.State))
	return appendOwned(appendOwned(dst, c.Assigned), c.Pending)
}

// Append implements Change.
func (c PutRegex) Append(dst []byte) []byte {
	return appendStrings(fields.AppendText(append(dst, kindPutRegex, changeVersion), c.Regex), c.Topics)
}

// Append implements Change.
func (c DeleteRegex) Append(dst []byte) []byte {
	return fields.AppendText(append(dst, kindDeleteRegex, changeVersion), c.Regex)
}

// Append implements Change.
func (c DeleteGroup) Append(dst []byte) []byte { return append(dst, kindDeleteGroup, changeVersion) }

// ParseChange reads the change that src begins with and returns how many bytes it took. The change does not
// share memory with src.
func ParseChange(src []byte) (Change, int, error) {
	r := &reader{fields.New(src)}
	kind, version := r.Byte(), r.Byte()
	if r.Err() == nil && version != changeVersion {
		return nil, 0, fmt.Errorf("change of kind %d has version %d, known is %d", kind, version, changeVersion)
	}
	c := r.change(kind)
	if r.Err() != nil {
		return nil, 0, fmt.Errorf("parse change of kind %d: %w", kind, r.Err())
	}
	return c, len(src) - len(r.Rest()), nil
}

func (r *reader) change(kind byte) Change {
	switch kind {
	case kindGroupEpoch:
		return GroupEpoch{Epoch: r.Int32(), MetadataHash: r.Uint64()}
	case kindPutMember:
		return r.putMember()
	case kindDeleteMember:
		return DeleteMember{MemberID: r.Text()}
	case kindTargetEpoch:
		return TargetEpoch{Epoch: r.Int32(), TimeMillis: r.Varint()}
	case kindTargetAssignment:
		return TargetAssignment{MemberID: r.Text(), Partitions: r.assignment()}
	case kindCurrentAssignment:
		return CurrentAssignment{MemberID: r.Text(), Progress: Progress{Epoch: r.Int32(), PreviousEpoch: r.Int32(),
			State: min(MemberState(r.Byte()), Unknown), Assigned: r.owned(), Pending: r.owned()}}
	case kindPutRegex:
		return PutRegex{Regex: r.Text(), Topics: r.strings()}
	case kindDeleteRegex:
		return DeleteRegex{Regex: r.Text()}
	case kindDeleteGroup:
		return DeleteGroup{}
	}
	r.Fail(fmt.Errorf("no such kind: %w", errMalformed))
	return nil
}

func (r *reader) putMember() Change {
	c := PutMember{Subscription{MemberID: r.Text(), InstanceID: r.Text(), RackID: r.Text(), ClientID: r.Text(),
		ClientHost: r.Text(), Regex: r.Text(), Assignor: r.Text(), RebalanceTimeout: r.millis(), Topics: r.strings()}}
	switch r.Byte() {
	case 0:
	case 1:
		c.Classic = &ClassicMember{SessionTimeout: r.millis(), Protocols: make([]Protocol, r.Count(2))}
		for i := range c.Classic.Protocols {
			c.Classic.Protocols[i] = Protocol{Name: r.Text(), Metadata: []byte(r.Text())}
		}
		if len(c.Classic.Protocols) == 0 {
			r.Fail(fmt.Errorf("classic member without a protocol: %w", errMalformed))
		}
	default:
		r.Fail(errMalformed)
	}
	return c
}

func appendStrings(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = fields.AppendText(dst, s)
	}
	return dst
}

func appendOwned(dst []byte, o Owned) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(o)))
	for _, id := range sortedIDs(o) {
		dst = append(dst, id[:]...)
		dst = binary.AppendUvarint(dst, uint64(len(o[id])))
		Owned{id: o[id]}.each(func(_ model.TopicID, partition, epoch int32) {
			dst = binary.AppendVarint(dst, int64(partition))
			dst = binary.AppendVarint(dst, int64(epoch))
		})
	}
	return dst
}

// reader reads what the append functions wrote.
type reader struct{ fields.Reader }

func (r *reader) millis() time.Duration { return time.Duration(r.Int32()) * time.Millisecond }

func (r *reader) strings() []string {
	list := make([]string, r.Count(1))
	for i := range list {
		list[i] = r.Text()
	}
	return list
}

func (r *reader) assignment() assignor.Assignment {
	a := assignor.Assignment{}
	for range r.Count(len(model.TopicID{}) + 1) {
		id := r.ID()
		list := make([]int32, r.Count(1))
		for i := range list {
			list[i] = r.Int32()
			if list[i] < 0 || i > 0 && list[i] <= list[i-1] {
				r.Fail(fmt.Errorf("partitions out of order: %w", errMalformed))
			}
		}
		a[id] = list
	}
	return a
}

func (r *reader) owned() Owned {
	o := Owned{}
	for range r.Count(len(model.TopicID{}) + 1) {
		id := r.ID()
		last := int32(-1)
		for range r.Count(2) {
			partition, epoch := r.Int32(), r.Int32()
			if partition <= last {
				r.Fail(fmt.Errorf("partitions out of order: %w", errMalformed))
			}
			o.put(id, partition, epoch)
			last = partition
		}
	}
	return o
}
