package consumer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"millrace/engine/model"
	"millrace/kafka/group/assignor"
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

var (
	errTruncated = errors.New("bytes end too early")
	errMalformed = errors.New("bytes say what cannot be")
)

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
		dst = appendString(dst, s)
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
		dst = appendString(dst, p.Name)
		dst = appendString(dst, string(p.Metadata))
	}
	return dst
}

// Append implements Change.
func (c DeleteMember) Append(dst []byte) []byte {
	return appendString(append(dst, kindDeleteMember, changeVersion), c.MemberID)
}

// Append implements Change.
func (c TargetEpoch) Append(dst []byte) []byte {
	dst = append(dst, kindTargetEpoch, changeVersion)
	dst = binary.AppendVarint(dst, int64(c.Epoch))
	return binary.AppendVarint(dst, c.TimeMillis)
}

// Append implements Change.
func (c TargetAssignment) Append(dst []byte) []byte {
	dst = appendString(append(dst, kindTargetAssignment, changeVersion), c.MemberID)
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
	dst = appendString(append(dst, kindCurrentAssignment, changeVersion), c.MemberID)
	dst = binary.AppendVarint(dst, int64(c.Epoch))
	dst = binary.AppendVarint(dst, int64(c.PreviousEpoch))
	dst = append(dst, byte(c.State))
	return appendOwned(appendOwned(dst, c.Assigned), c.Pending)
}

// Append implements Change.
func (c PutRegex) Append(dst []byte) []byte {
	return appendStrings(appendString(append(dst, kindPutRegex, changeVersion), c.Regex), c.Topics)
}

// Append implements Change.
func (c DeleteRegex) Append(dst []byte) []byte {
	return appendString(append(dst, kindDeleteRegex, changeVersion), c.Regex)
}

// Append implements Change.
func (c DeleteGroup) Append(dst []byte) []byte { return append(dst, kindDeleteGroup, changeVersion) }

// ParseChange reads the change that src begins with and returns how many bytes it took. The change does not
// share memory with src.
func ParseChange(src []byte) (Change, int, error) {
	r := &reader{src: src}
	kind, version := r.byte(), r.byte()
	if r.err == nil && version != changeVersion {
		return nil, 0, fmt.Errorf("change of kind %d has version %d, known is %d", kind, version, changeVersion)
	}
	c := r.change(kind)
	if r.err != nil {
		return nil, 0, fmt.Errorf("parse change of kind %d: %w", kind, r.err)
	}
	return c, len(src) - len(r.src), nil
}

func (r *reader) change(kind byte) Change {
	switch kind {
	case kindGroupEpoch:
		return GroupEpoch{Epoch: r.int32(), MetadataHash: r.uint64()}
	case kindPutMember:
		return r.putMember()
	case kindDeleteMember:
		return DeleteMember{MemberID: r.string()}
	case kindTargetEpoch:
		return TargetEpoch{Epoch: r.int32(), TimeMillis: r.varint()}
	case kindTargetAssignment:
		return TargetAssignment{MemberID: r.string(), Partitions: r.assignment()}
	case kindCurrentAssignment:
		return CurrentAssignment{MemberID: r.string(), Progress: Progress{Epoch: r.int32(), PreviousEpoch: r.int32(),
			State: min(MemberState(r.byte()), Unknown), Assigned: r.owned(), Pending: r.owned()}}
	case kindPutRegex:
		return PutRegex{Regex: r.string(), Topics: r.strings()}
	case kindDeleteRegex:
		return DeleteRegex{Regex: r.string()}
	case kindDeleteGroup:
		return DeleteGroup{}
	}
	r.fail(fmt.Errorf("no such kind: %w", errMalformed))
	return nil
}

func (r *reader) putMember() Change {
	c := PutMember{Subscription{MemberID: r.string(), InstanceID: r.string(), RackID: r.string(), ClientID: r.string(),
		ClientHost: r.string(), Regex: r.string(), Assignor: r.string(), RebalanceTimeout: r.millis(), Topics: r.strings()}}
	switch r.byte() {
	case 0:
	case 1:
		c.Classic = &ClassicMember{SessionTimeout: r.millis(), Protocols: make([]Protocol, r.count(2))}
		for i := range c.Classic.Protocols {
			c.Classic.Protocols[i] = Protocol{Name: r.string(), Metadata: []byte(r.string())}
		}
		if len(c.Classic.Protocols) == 0 {
			r.fail(fmt.Errorf("classic member without a protocol: %w", errMalformed))
		}
	default:
		r.fail(errMalformed)
	}
	return c
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = appendString(dst, s)
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

// reader reads what the append functions wrote. It goes bad once: after that it returns zero values, and err
// says what the first fault was.
type reader struct {
	src []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.src = nil
}

func (r *reader) take(n int) []byte {
	if n > len(r.src) {
		r.fail(errTruncated)
		return nil
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.src)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *reader) int32() int32 {
	v := r.varint()
	if int64(int32(v)) != v {
		r.fail(errMalformed)
	}
	return int32(v)
}

func (r *reader) millis() time.Duration { return time.Duration(r.int32()) * time.Millisecond }

// count reads the length of a list whose elements take at least elementBytes each, so that no list claims
// more memory than a multiple of the bytes that are really there.
func (r *reader) count(elementBytes int) int {
	v, n := binary.Uvarint(r.src)
	if n <= 0 || v > uint64(len(r.src)-n)/uint64(elementBytes) {
		r.fail(errTruncated)
		return 0
	}
	r.src = r.src[n:]
	return int(v)
}

func (r *reader) string() string { return string(r.take(r.count(1))) }

func (r *reader) strings() []string {
	list := make([]string, r.count(1))
	for i := range list {
		list[i] = r.string()
	}
	return list
}

func (r *reader) topicID() (id model.TopicID) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *reader) assignment() assignor.Assignment {
	a := assignor.Assignment{}
	for range r.count(len(model.TopicID{}) + 1) {
		id := r.topicID()
		list := make([]int32, r.count(1))
		for i := range list {
			list[i] = r.int32()
			if list[i] < 0 || i > 0 && list[i] <= list[i-1] {
				r.fail(fmt.Errorf("partitions out of order: %w", errMalformed))
			}
		}
		a[id] = list
	}
	return a
}

func (r *reader) owned() Owned {
	o := Owned{}
	for range r.count(len(model.TopicID{}) + 1) {
		id := r.topicID()
		last := int32(-1)
		for range r.count(2) {
			partition, epoch := r.int32(), r.int32()
			if partition <= last {
				r.fail(fmt.Errorf("partitions out of order: %w", errMalformed))
			}
			o.put(id, partition, epoch)
			last = partition
		}
	}
	return o
}
