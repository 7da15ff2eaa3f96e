package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/kafka/group/consumer"
)

// Describe fills in a group of a DescribeGroups response, in a version of the request.
func (c *Coordinator) Describe(id string, version int16) kmsg.DescribeGroupsResponseGroup {
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group = id
	g := c.groups[id]
	switch {
	case id == "" && version < 6:
		out.ErrorCode = kerr.InvalidGroupID.Code
		return out
	case g == nil:
		out.State = "Dead"
		if version >= 6 {
			out.ErrorCode = kerr.GroupIDNotFound.Code
			out.ErrorMessage = kmsg.StringPtr("Group " + id + " not found.")
			if c.consumers[id] != nil {
				out.ErrorMessage = kmsg.StringPtr("Group " + id + " is not a classic group.")
			}
		}
		return out
	}
	out.State, out.ProtocolType = g.state.String(), g.protocolType
	if g.state == stable {
		out.Protocol = g.protocol
	}
	for _, m := range g.members {
		dm := kmsg.NewDescribeGroupsResponseGroupMember()
		dm.MemberID, dm.ClientID, dm.ClientHost = m.id, m.clientID, m.host
		if m.instance != "" {
			dm.InstanceID = kmsg.StringPtr(m.instance)
		}
		if g.state == stable {
			dm.ProtocolMetadata, dm.MemberAssignment = m.metadata(g.protocol), m.assignment
		}
		out.Members = append(out.Members, dm)
	}
	return out
}

// List returns the groups in any of the states and of any of the types, without regard to case; an empty list
// is no condition.
func (c *Coordinator) List(states, types []string) []kmsg.ListGroupsResponseGroup {
	has := func(list []string, name string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) })
	}
	list := []kmsg.ListGroupsResponseGroup{}
	add := func(id, protocolType, state, kind string) {
		if has(states, state) && has(types, kind) {
			out := kmsg.NewListGroupsResponseGroup()
			out.Group, out.ProtocolType, out.GroupState, out.GroupType = id, protocolType, state, kind
			list = append(list, out)
		}
	}
	for id, g := range c.groups {
		add(id, g.protocolType, g.state.String(), typeClassic)
	}
	for id, g := range c.consumers {
		add(id, consumer.ProtocolType, g.Phase(), typeConsumer)
	}
	slices.SortFunc(list, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return list
}
