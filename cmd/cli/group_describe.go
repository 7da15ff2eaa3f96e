package cli

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// groupLagRow is one partition of a group; an offset that is not known is null.
type groupLagRow struct {
	topicPartition
	Current    *int64 `json:"current_offset"`
	End        *int64 `json:"log_end_offset"`
	Lag        *int64 `json:"lag"`
	MemberID   string `json:"member_id,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	ClientID   string `json:"client_id,omitempty"`
	Host       string `json:"host,omitempty"`
}

type groupDescription struct {
	groupView
	Partitions []groupLagRow `json:"partitions"`
}

func (a *App) groupDescribeCommand() *cobra.Command {
	var (
		flags          clientFlags
		members, state bool
		asJSON         bool
	)
	cmd := &cobra.Command{
		Use:   "describe GROUP...",
		Short: "Show groups: offsets and lag, members, state",
		Args:  someGroups,
		RunE: func(cmd *cobra.Command, names []string) error {
			if members && state {
				return usagef("--members and --state are two views: give one")
			}
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				descriptions, failed := []groupDescription{}, false
				for _, name := range names {
					d, err := describeGroup(ctx, adm, name)
					if err != nil {
						failed = true
						fmt.Fprintf(a.Err, "millrace: %v\n", err)
						continue
					}
					descriptions = append(descriptions, d)
				}
				var err error
				switch {
				case asJSON:
					err = a.printJSON(descriptions)
				case len(descriptions) > 0:
					err = a.table(func(w *tabwriter.Writer) { writeGroups(w, descriptions, members, state) })
				}
				if err == nil && failed {
					err = errQuiet
				}
				return err
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&members, "members", false, "show the members and their partitions")
	cmd.Flags().BoolVar(&state, "state", false, "show coordinator, assignor, state, epoch and number of members")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with all of the views")
	return cmd
}

func describeGroup(ctx context.Context, adm *kadm.Client, name string) (groupDescription, error) {
	view, err := viewGroup(ctx, adm, name)
	if err != nil {
		return groupDescription{}, err
	}
	d := groupDescription{groupView: view, Partitions: []groupLagRow{}}
	commits, err := adm.FetchOffsets(ctx, name)
	if err != nil {
		return d, explainGroup(name, err)
	}
	var fault error
	commits.Each(func(o kadm.OffsetResponse) {
		if o.Err != nil && fault == nil {
			fault = fmt.Errorf("offset of topic %s partition %d: %w", o.Topic, o.Partition, o.Err)
		}
	})
	if fault != nil {
		return d, explainGroup(name, fault)
	}
	owners, set := map[topicPartition]groupMember{}, kadm.TopicsSet{}
	for _, m := range view.Members {
		for _, tp := range m.Assigned {
			owners[tp] = m
			set.Add(tp.Topic, tp.Partition)
		}
	}
	commits.Each(func(o kadm.OffsetResponse) { set.Add(o.Topic, o.Partition) })
	ends := kadm.ListedOffsets{}
	if len(set) > 0 {
		if ends, err = adm.ListEndOffsets(ctx, set.Topics()...); err != nil {
			return d, explainGroup(name, err)
		}
	}
	for _, tp := range partitionsOf(set) {
		m := owners[tp]
		row := groupLagRow{topicPartition: tp, MemberID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.Host}
		if end, ok := ends.Lookup(tp.Topic, tp.Partition); ok && end.Err == nil {
			row.End = &end.Offset
		}
		if c, ok := commits.Lookup(tp.Topic, tp.Partition); ok && c.Err == nil && c.At >= 0 {
			row.Current = &c.At
			if row.End != nil {
				lag := max(0, *row.End-c.At)
				row.Lag = &lag
			}
		}
		d.Partitions = append(d.Partitions, row)
	}
	return d, nil
}

func writeGroups(w *tabwriter.Writer, groups []groupDescription, members, state bool) {
	switch {
	case members:
		fmt.Fprintln(w, "GROUP\tMEMBER\tINSTANCE\tCLIENT\tHOST\tEPOCH\tPARTITIONS\tASSIGNED")
	case state:
		fmt.Fprintln(w, "GROUP\tCOORDINATOR\tTYPE\tASSIGNOR\tSTATE\tEPOCH\tMEMBERS")
	default:
		fmt.Fprintln(w, "GROUP\tTOPIC\tPARTITION\tCURRENT\tEND\tLAG\tMEMBER\tINSTANCE\tCLIENT\tHOST")
	}
	for _, g := range groups {
		switch {
		case members:
			for _, m := range g.Members {
				assigned := ""
				for i, tp := range m.Assigned {
					if i > 0 {
						assigned += ","
					}
					assigned += fmt.Sprintf("%s:%d", tp.Topic, tp.Partition)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", g.Group, m.ID, dash(m.InstanceID), dash(m.ClientID), dash(m.Host), number(m.Epoch), len(m.Assigned), dash(assigned))
			}
		case state:
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%d\n", g.Group, g.Coordinator, g.Type, dash(g.Assignor), g.State, number(g.Epoch), len(g.Members))
		default:
			for _, r := range g.Partitions {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Group, r.Topic, r.Partition, number(r.Current), number(r.End), number(r.Lag),
					dash(r.MemberID), dash(r.InstanceID), dash(r.ClientID), dash(r.Host))
			}
		}
	}
}

// number writes a number that may not be known.
func number[T int32 | int64](n *T) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(int64(*n), 10)
}
