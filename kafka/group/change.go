package group

import (
	"encoding/binary"
	"errors"
	"fmt"

	"millrace/engine/model"
	"millrace/kafka/group/consumer"
	"millrace/perf/fields"
)

// A command is a version and a list of changes, applied together. The kinds stand in the Raft group's log and are
// never renumbered.
const (
	commandVersion byte = 1

	kindPutClassic byte = iota
	kindDeleteGroup
	kindPutOffset
	kindDeleteOffset
	kindDeleteTopic
	kindPutGeneration
	kindConsumer
)

// ErrMalformed is for bytes that are no command or snapshot of this package.
var ErrMalformed = errors.New("malformed group state")

// Change is one change of durable state. Only the fields of its kind are set.
type Change struct {
	kind       byte
	Group      string
	Classic    *Classic // put; of a group of the consumer protocol: what it becomes, nil where it stays one
	Generation int32    // put: it has begun
	Consumer   []consumer.Change
	Topic      model.TopicID // of an offset, or of a deleted topic
	TopicName  string
	Partition  int32
	Offset     Offset
}

// Offset is a committed offset.
type Offset struct {
	Offset      int64
	LeaderEpoch int32 // -1: none
	Metadata    string
	Committed   int64 // Unix milliseconds
	Expires     int64 // Unix milliseconds, -1: by the broker's retention
}

// Classic is the durable state of a classic group: the last generation whose assignment was made.
type Classic struct {
	ProtocolType string // empty: no member ever joined
	Protocol     string
	Generation   int32
	Leader       string
	Changed      int64 // Unix milliseconds of the last change of state
	Members      []ClassicMember
}

// ClassicMember is a member as it is kept.
type ClassicMember struct {
	ID, InstanceID, ClientID, Host string // an empty instance id is none
	RebalanceTimeout               int32  // milliseconds
	SessionTimeout                 int32
	Metadata, Assignment           []byte
}

// size is about what the change takes in a command.
func (c *Change) size() int {
	n := 64 + len(c.Group) + len(c.TopicName) + len(c.Offset.Metadata)
	if c.kind == kindConsumer {
		n += len(appendConsumer(nil, c.Consumer))
	}
	if c.Classic != nil {
		for i := range c.Classic.Members {
			m := &c.Classic.Members[i]
			n += 64 + len(m.ID) + len(m.InstanceID) + len(m.ClientID) + len(m.Host) + len(m.Metadata) + len(m.Assignment)
		}
	}
	return n
}

// AppendCommand appends the encoded changes to dst.
func AppendCommand(dst []byte, changes []Change) []byte {
	dst = append(dst, commandVersion)
	dst = binary.AppendUvarint(dst, uint64(len(changes)))
	for i := range changes {
		dst = appendChange(dst, &changes[i])
	}
	return dst
}

func appendChange(dst []byte, c *Change) []byte {
	dst = append(dst, c.kind)
	if c.kind == kindDeleteTopic {
		return append(dst, c.Topic[:]...)
	}
	dst = fields.AppendText(dst, c.Group)
	switch c.kind {
	case kindPutClassic:
		dst = appendClassic(dst, c.Classic)
	case kindPutGeneration:
		dst = binary.AppendVarint(dst, int64(c.Generation))
	case kindConsumer:
		dst = appendConsumer(dst, c.Consumer)
		if c.Classic == nil {
			return append(dst, 0)
		}
		dst = appendClassic(append(dst, 1), c.Classic)
		dst = binary.AppendVarint(dst, int64(c.Generation))
	case kindPutOffset:
		dst = append(dst, c.Topic[:]...)
		dst = fields.AppendText(dst, c.TopicName)
		dst = binary.AppendVarint(dst, int64(c.Partition))
		dst = appendOffset(dst, &c.Offset)
	case kindDeleteOffset:
		dst = append(dst, c.Topic[:]...)
		dst = binary.AppendVarint(dst, int64(c.Partition))
	}
	return dst
}

// parseCommand calls f for each change, up to the first that f refuses. It keeps nothing of src.
func parseCommand(src []byte, f func(*Change) error) error {
	r := reader{fields.New(src)}
	if v := r.Byte(); r.Err() == nil && v != commandVersion {
		return fmt.Errorf("group command of version %d (this program knows %d): it was written by a newer one", v, commandVersion)
	}
	changes := make([]Change, 0, 16)
	for range r.Count(2) {
		changes = append(changes, r.change())
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("group command: %w: %w", ErrMalformed, err)
	}
	for i := range changes {
		if err := f(&changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// appendConsumer appends the changes of one operation on a group of the consumer protocol, with their number.
func appendConsumer(dst []byte, changes []consumer.Change) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(changes)))
	for _, c := range changes {
		dst = c.Append(dst)
	}
	return dst
}

func appendClassic(dst []byte, c *Classic) []byte {
	dst = fields.AppendText(dst, c.ProtocolType)
	dst = fields.AppendText(dst, c.Protocol)
	dst = binary.AppendVarint(dst, int64(c.Generation))
	dst = fields.AppendText(dst, c.Leader)
	dst = binary.AppendVarint(dst, c.Changed)
	dst = binary.AppendUvarint(dst, uint64(len(c.Members)))
	for i := range c.Members {
		m := &c.Members[i]
		dst = fields.AppendText(dst, m.ID)
		dst = fields.AppendText(dst, m.InstanceID)
		dst = fields.AppendText(dst, m.ClientID)
		dst = fields.AppendText(dst, m.Host)
		dst = binary.AppendVarint(dst, int64(m.RebalanceTimeout))
		dst = binary.AppendVarint(dst, int64(m.SessionTimeout))
		dst = fields.AppendText(dst, string(m.Metadata))
		dst = fields.AppendText(dst, string(m.Assignment))
	}
	return dst
}

func appendOffset(dst []byte, o *Offset) []byte {
	dst = binary.AppendVarint(dst, o.Offset)
	dst = binary.AppendVarint(dst, int64(o.LeaderEpoch))
	dst = fields.AppendText(dst, o.Metadata)
	dst = binary.AppendVarint(dst, o.Committed)
	return binary.AppendVarint(dst, o.Expires)
}

// reader reads what the append functions wrote.
type reader struct{ fields.Reader }

func (r *reader) change() Change {
	c := Change{kind: r.Byte()}
	if c.kind == kindDeleteTopic {
		c.Topic = r.ID()
		return c
	}
	c.Group = r.Text()
	switch c.kind {
	case kindPutClassic:
		c.Classic = r.classic()
	case kindPutOffset:
		c.Topic, c.TopicName, c.Partition = r.ID(), r.Text(), r.Int32()
		c.Offset = r.offset()
	case kindDeleteOffset:
		c.Topic, c.Partition = r.ID(), r.Int32()
	case kindPutGeneration:
		c.Generation = r.Int32()
	case kindDeleteGroup:
	case kindConsumer:
		c.Consumer = r.consumer()
		if r.Byte() == 1 {
			c.Classic, c.Generation = r.classic(), r.Int32()
		}
	default:
		r.Fail(fmt.Errorf("a change of kind %d", c.kind))
	}
	return c
}

func (r *reader) consumer() []consumer.Change {
	changes := make([]consumer.Change, r.Count(2))
	for i := range changes {
		c, n, err := consumer.ParseChange(r.Rest())
		if err != nil {
			r.Fail(err)
			return nil
		}
		changes[i] = c
		r.Skip(n)
	}
	return changes
}

func (r *reader) classic() *Classic {
	c := &Classic{ProtocolType: r.Text(), Protocol: r.Text(), Generation: r.Int32(), Leader: r.Text(), Changed: r.Varint()}
	n := r.Count(8)
	if n > 0 {
		c.Members = make([]ClassicMember, n)
	}
	for i := range c.Members {
		c.Members[i] = ClassicMember{ID: r.Text(), InstanceID: r.Text(), ClientID: r.Text(), Host: r.Text(),
			RebalanceTimeout: r.Int32(), SessionTimeout: r.Int32(), Metadata: []byte(r.Text()), Assignment: []byte(r.Text())}
	}
	return c
}

func (r *reader) offset() Offset {
	return Offset{Offset: r.Varint(), LeaderEpoch: r.Int32(), Metadata: r.Text(), Committed: r.Varint(), Expires: r.Varint()}
}
