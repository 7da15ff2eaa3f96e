package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *App) groupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "List, describe, reset and delete consumer groups",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("name what to do: list, describe, reset-offsets, delete or delete-offsets")
		},
	}
	cmd.AddCommand(a.groupListCommand(), a.groupDescribeCommand(), a.groupResetCommand(), a.groupDeleteCommand(), a.groupDeleteOffsetsCommand())
	return cmd
}

// oneGroup is the argument rule of commands on one group.
func oneGroup(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return usagef("name a group: %s GROUP", cmd.CommandPath())
	case len(args) > 1:
		return usagef("%s takes one group, not %q as well", cmd.CommandPath(), args[1])
	}
	return nil
}

// someGroups is the argument rule of commands on one group or more.
func someGroups(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || slices.Contains(args, "") {
		return usagef("name a group: %s GROUP...", cmd.CommandPath())
	}
	return nil
}

// explainGroup names the group in an error of a broker and, where there is one, the way out.
func explainGroup(group string, err error) error {
	hint := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.GroupIDNotFound):
		hint = "there is no such group; see `millrace group list`"
	case errors.Is(err, kerr.NonEmptyGroup):
		hint = fmt.Sprintf("it has members; stop them (`millrace group describe --members %s` shows them) and try again", group)
	case errors.Is(err, kerr.GroupSubscribedToTopic):
		hint = "its members are subscribed to the topic; stop them and try again"
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		hint = "there is no such topic or partition; see `millrace topic list`"
	case errors.Is(err, kerr.CoordinatorNotAvailable), errors.Is(err, kerr.NotCoordinator), errors.Is(err, kerr.CoordinatorLoadInProgress):
		hint = "the group's coordinator is not ready; try again"
	case errors.Is(err, kerr.UnsupportedVersion):
		hint = "the broker does not offer this"
	}
	if hint == "" {
		return fmt.Errorf("group %s: %w", group, err)
	}
	return &hinted{text: fmt.Sprintf("group %s: %s; %s", group, brief(err), hint), err: err}
}

// groupMember is one member, of either protocol.
type groupMember struct {
	ID         string           `json:"member_id"`
	InstanceID string           `json:"instance_id,omitempty"`
	ClientID   string           `json:"client_id"`
	Host       string           `json:"host"`
	Epoch      *int32           `json:"epoch,omitempty"`
	Assigned   []topicPartition `json:"assigned"`
}

type topicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// groupView is one group, of either protocol.
type groupView struct {
	Group       string        `json:"group"`
	Type        string        `json:"type"`
	State       string        `json:"state"`
	Assignor    string        `json:"assignor"`
	Epoch       *int32        `json:"epoch,omitempty"`
	Coordinator int32         `json:"coordinator"`
	Members     []groupMember `json:"members"`
}

// viewGroup asks for a group by its own protocol: the consumer protocol where the broker knows the group
// by that, else the classic one.
func viewGroup(ctx context.Context, adm *kadm.Client, name string) (groupView, error) {
	// A broker that has no such groups refuses the request, one that knows the group as a classic one does not find it.
	if modern, err := adm.DescribeConsumerGroups(ctx, name); err == nil {
		g := modern[name]
		switch {
		case g.Err == nil && g.Group == name:
			return modernView(g), nil
		case g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound):
			return groupView{}, explainGroup(name, g.Err)
		}
	}
	classic, err := adm.DescribeGroups(ctx, name)
	if err != nil {
		return groupView{}, explainGroup(name, err)
	}
	g, ok := classic[name]
	switch {
	case !ok:
		return groupView{}, fmt.Errorf("group %s: the broker did not answer for it", name)
	case g.Err != nil:
		return groupView{}, explainGroup(name, g.Err)
	case g.State == "Dead": // what older versions say of a group that is not there
		return groupView{}, explainGroup(name, kerr.GroupIDNotFound)
	}
	v := groupView{Group: name, Type: "classic", State: g.State, Assignor: g.Protocol, Coordinator: g.Coordinator.NodeID, Members: []groupMember{}}
	for _, m := range g.Members {
		member := groupMember{ID: m.MemberID, InstanceID: deref(m.InstanceID), ClientID: m.ClientID, Host: m.ClientHost, Assigned: []topicPartition{}}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				for _, p := range t.Partitions {
					member.Assigned = append(member.Assigned, topicPartition{t.Topic, p})
				}
			}
		}
		sortPartitions(member.Assigned)
		v.Members = append(v.Members, member)
	}
	return v, nil
}

func modernView(g kadm.DescribedConsumerGroup) groupView {
	v := groupView{Group: g.Group, Type: "consumer", State: g.State, Assignor: g.AssignorName, Epoch: &g.Epoch, Coordinator: g.Coordinator.NodeID, Members: []groupMember{}}
	for _, m := range g.Members {
		v.Members = append(v.Members, groupMember{ID: m.MemberID, InstanceID: deref(m.InstanceID), ClientID: m.ClientID,
			Host: m.ClientHost, Epoch: &m.MemberEpoch, Assigned: partitionsOf(m.Assignment)})
	}
	return v
}

func partitionsOf(set kadm.TopicsSet) []topicPartition {
	list := []topicPartition{}
	for topic, partitions := range set {
		for p := range partitions {
			list = append(list, topicPartition{topic, p})
		}
	}
	sortPartitions(list)
	return list
}

func sortPartitions(list []topicPartition) {
	slices.SortFunc(list, func(a, b topicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// dash stands for what is not there in a table.
func dash(s string) string { return cmp.Or(s, "-") }
