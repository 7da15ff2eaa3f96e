package consumer

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group/assignor"
)

// Describe returns the group as ConsumerGroupDescribe 0-1 shows it. Authorized operations are the caller's.
func (g *Group) Describe() kmsg.ConsumerGroupDescribeResponseGroup {
	d := kmsg.NewConsumerGroupDescribeResponseGroup()
	d.Group, d.State, d.Epoch, d.AssignmentEpoch = g.id, g.Phase(), g.state.epoch, g.state.targetEpoch
	d.AssignorName = g.assignorName()
	for _, id := range g.state.MemberIDs() {
		m := g.state.members[id]
		r := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		r.MemberID, r.MemberEpoch, r.ClientID, r.ClientHost = id, m.Epoch, m.ClientID, m.ClientHost
		r.InstanceID, r.RackID, r.SubscribedTopicRegex = optional(m.InstanceID), optional(m.RackID), kmsg.StringPtr(m.Regex) // not null, as in Kafka
		r.SubscribedTopics = m.Topics
		r.Assignment = g.described(m.all().lists())
		r.TargetAssignment = g.described(g.state.target[id])
		r.MemberType = 1
		if m.Classic != nil {
			r.MemberType = 0
		}
		d.Members = append(d.Members, r)
	}
	return d
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// described is an assignment with names, without the topics that are gone.
func (g *Group) described(a assignor.Assignment) kmsg.Assignment {
	d := kmsg.NewAssignment()
	for _, id := range sortedIDs(a) {
		if t, ok := g.opts.Topics.TopicByID(id); ok {
			p := kmsg.NewAssignmentTopicPartition()
			p.TopicID, p.Topic, p.Partitions = id, t.Name, a[id]
			d.TopicPartitions = append(d.TopicPartitions, p)
		}
	}
	return d
}
