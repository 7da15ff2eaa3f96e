package kafka

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group"
)

// GroupMember is one member of a group, for those who watch.
type GroupMember struct {
	ID, InstanceID, ClientID, Host string
	Assigned                       []GroupAssigned
}

// GroupAssigned is what a member has of one topic.
type GroupAssigned struct {
	Topic      string
	Partitions []int32
}

// askGroups returns what f says on the coordinator's goroutine, and whether this broker coordinates groups now. It
// waits for the coordinator's turn.
func askGroups[T any](s *Server, f func(*group.Coordinator) T) (answer T, ok bool) {
	got := make(chan T, 1)
	if !s.groups.run(func(c *group.Coordinator, _ group.Now) { got <- f(c) }) {
		return answer, false
	}
	select {
	case answer = <-got:
		return answer, true
	case <-s.groups.done:
		return answer, false
	}
}

// GroupMetrics returns the figures of groups, and whether this broker coordinates any now. It waits for the
// coordinator's turn.
func (s *Server) GroupMetrics() (m group.Metrics, ok bool) {
	return askGroups(s, (*group.Coordinator).Metrics)
}

// GroupSummaries lists the groups by id, and tells whether this broker coordinates any now. It waits for the
// coordinator's turn.
func (s *Server) GroupSummaries() (list []group.Summary, ok bool) {
	return askGroups(s, (*group.Coordinator).Summaries)
}

// GroupMembers lists the members of a group of either kind by id, none where there is no such group. It waits for the
// coordinator's turn.
func (s *Server) GroupMembers(id string) []GroupMember {
	list, _ := askGroups(s, func(c *group.Coordinator) (list []GroupMember) {
		for _, m := range c.ConsumerDescribe(id).Members {
			out := GroupMember{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost}
			if m.InstanceID != nil {
				out.InstanceID = *m.InstanceID
			}
			for _, t := range m.Assignment.TopicPartitions {
				out.Assigned = append(out.Assigned, GroupAssigned{t.Topic, t.Partitions})
			}
			list = append(list, out)
		}
		for _, m := range c.Describe(id, 6).Members {
			out := GroupMember{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost}
			if m.InstanceID != nil {
				out.InstanceID = *m.InstanceID
			}
			var assigned kmsg.ConsumerMemberAssignment
			if assigned.ReadFrom(m.MemberAssignment) == nil { // the members' own affair: it may hold anything
				for _, t := range assigned.Topics {
					out.Assigned = append(out.Assigned, GroupAssigned{t.Topic, t.Partitions})
				}
			}
			list = append(list, out)
		}
		return list
	})
	slices.SortFunc(list, func(a, b GroupMember) int { return strings.Compare(a.ID, b.ID) })
	return list
}
