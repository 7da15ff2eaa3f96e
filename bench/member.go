package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/bench/wire"
)

// Versions of group requests that every broker since Apache Kafka 2.3 takes, and none of which has tagged fields.
const (
	versionJoin   = 5
	versionSync   = 3
	versionCommit = 7
	versionLeave  = 2
	versionBeat   = 3
)

const (
	groupProtocol  = "range"
	groupRebalance = 60_000 // how long members have to join again, in milliseconds
	joinTries      = 3      // of a member that has no id yet: once for the id, once with it, and one to spare
)

// member is one connection that is a member of a group. It is used by one goroutine at a time.
type member struct {
	conn        *wire.Conn
	formatter   *kmsg.RequestFormatter
	correlation int32
	out         []byte

	group, topic string
	sessionMs    int32
	id           string
	generation   int32
	leads        []string // ids of all members, where this one leads
}

func newMember(conn *wire.Conn, group, topic string) *member {
	return &member{conn: conn, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("millrace-bench")), group: group, topic: topic}
}

// ask sends a request and reads its answer.
func (m *member) ask(req kmsg.Request) (kmsg.Response, error) {
	m.correlation++
	m.out = m.formatter.AppendRequest(m.out[:0], req, m.correlation)
	if err := m.conn.Write(m.out); err != nil {
		return nil, err
	}
	frame, err := m.conn.Read()
	if err != nil {
		return nil, err
	}
	res := req.ResponseKind()
	if len(frame) < 4 || int32(binary.BigEndian.Uint32(frame)) != m.correlation {
		return nil, fmt.Errorf("%s: the answer is that of another request", kmsg.NameForKey(req.Key()))
	}
	if err := res.ReadFrom(frame[4:]); err != nil {
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return res, nil
}

// join joins with a subscription that carries the round, so that joining again is a change, and returns when all have
// joined.
func (m *member) join(round int) error {
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = []string{m.topic}
	subscription.UserData = binary.BigEndian.AppendUint32(nil, uint32(round))
	for range joinTries {
		req := kmsg.NewPtrJoinGroupRequest()
		req.SetVersion(versionJoin)
		req.Group, req.MemberID, req.ProtocolType = m.group, m.id, "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = m.sessionMs, groupRebalance
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = groupProtocol, subscription.AppendTo(nil)
		req.Protocols = append(req.Protocols, protocol)
		answer, err := m.ask(req)
		if err != nil {
			return err
		}
		res := answer.(*kmsg.JoinGroupResponse)
		m.id = res.MemberID
		if err := kerr.ErrorForCode(res.ErrorCode); errors.Is(err, kerr.MemberIDRequired) {
			continue
		} else if err != nil {
			return fmt.Errorf("join group %s: %w", m.group, err)
		}
		m.generation, m.leads = res.Generation, nil
		if res.LeaderID == m.id {
			for _, other := range res.Members {
				m.leads = append(m.leads, other.MemberID)
			}
		}
		return nil
	}
	return fmt.Errorf("join group %s: the broker asks for an id that it gave", m.group)
}

// sync brings the assignment where the member leads, and returns when it has its own. Partition i goes to the i-th
// member of the group.
func (m *member) sync() error {
	req := kmsg.NewPtrSyncGroupRequest()
	req.SetVersion(versionSync)
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	for i, id := range m.leads {
		assigned := kmsg.NewConsumerMemberAssignment()
		topic := kmsg.NewConsumerMemberAssignmentTopic()
		topic.Topic, topic.Partitions = m.topic, []int32{int32(i)}
		assigned.Topics = append(assigned.Topics, topic)
		one := kmsg.NewSyncGroupRequestGroupAssignment()
		one.MemberID, one.MemberAssignment = id, assigned.AppendTo(nil)
		req.GroupAssignment = append(req.GroupAssignment, one)
	}
	answer, err := m.ask(req)
	if err != nil {
		return err
	}
	res := answer.(*kmsg.SyncGroupResponse)
	if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
		return fmt.Errorf("sync group %s: %w", m.group, err)
	}
	own := kmsg.NewConsumerMemberAssignment()
	if err := own.ReadFrom(res.MemberAssignment); err != nil || len(own.Topics) != 1 || own.Topics[0].Topic != m.topic || len(own.Topics[0].Partitions) != 1 {
		return fmt.Errorf("sync group %s: the assignment is not one that the leader made: %x, %w", m.group, res.MemberAssignment, err)
	}
	return nil
}

// beat tells whether the group is as it was when the member joined; nil where it is.
func (m *member) beat() error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.SetVersion(versionBeat)
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	answer, err := m.ask(req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(answer.(*kmsg.HeartbeatResponse).ErrorCode); err != nil {
		return fmt.Errorf("heartbeat to group %s: %w", m.group, err)
	}
	return nil
}

// commit commits an offset of a partition.
func (m *member) commit(partition int32, offset int64) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(versionCommit)
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = m.topic
	one := kmsg.NewOffsetCommitRequestTopicPartition()
	one.Partition, one.Offset, one.LeaderEpoch = partition, offset, -1
	topic.Partitions = append(topic.Partitions, one)
	req.Topics = append(req.Topics, topic)
	answer, err := m.ask(req)
	if err != nil {
		return err
	}
	res := answer.(*kmsg.OffsetCommitResponse)
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return fmt.Errorf("commit to group %s: the answer is not of one partition", m.group)
	}
	if err := kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode); err != nil {
		return fmt.Errorf("commit offset %d of partition %d to group %s: %w", offset, partition, m.group, err)
	}
	return nil
}

// leave leaves the group. Who fails to is forgotten by the broker in time.
func (m *member) leave() {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.SetVersion(versionLeave)
	req.Group, req.MemberID = m.group, m.id
	_, _ = m.ask(req)
}

// committer is a member that commits one offset after the other.
type committer struct {
	tally
	*member
	clock     clock
	gate      *gate
	partition int32
	offset    int64 // that was committed last
}

// run commits until the gate closes.
func (c *committer) run(ctx context.Context) error {
	for c.gate.take(1) {
		at := c.clock.now()
		if err := c.commit(c.partition, c.offset+1); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		c.offset++
		now := c.clock.now()
		c.requests.Add(1)
		c.last.Store(now)
		if c.gate.measures(at) {
			record(c.latency, now-at, 1)
		}
	}
	return nil
}
