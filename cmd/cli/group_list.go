package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// What groups can be, of classic groups and of those of the consumer protocol, as Apache Kafka 4.4 lists them.
const (
	groupStates = "PreparingRebalance CompletingRebalance Stable Dead Empty Assigning Reconciling"
	groupTypes  = "classic consumer"
)

// oneOf refuses values of a flag that a broker would find nothing for. Case does not count.
func oneOf(flag string, values []string, known string) error {
	for _, v := range values {
		if !slices.ContainsFunc(strings.Fields(known), func(k string) bool { return strings.EqualFold(k, v) }) {
			return usagef("--%s %s: it is one of %s", flag, v, strings.ReplaceAll(known, " ", ", "))
		}
	}
	return nil
}

func (a *App) groupListCommand() *cobra.Command {
	var (
		flags         clientFlags
		states, types []string
		asJSON        bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List groups",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(oneOf("state", states, groupStates), oneOf("type", types, groupTypes)); err != nil {
				return err
			}
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				listed, err := adm.ListGroupsByType(ctx, types, states...)
				if err != nil {
					return err
				}
				type row struct {
					Group    string `json:"group"`
					State    string `json:"state"`
					Type     string `json:"type"`
					Protocol string `json:"protocol"`
				}
				rows := []row{}
				for _, g := range listed.Sorted() {
					rows = append(rows, row{g.Group, g.State, g.GroupType, g.ProtocolType})
				}
				if asJSON {
					return a.printJSON(rows)
				}
				return a.table(func(w *tabwriter.Writer) {
					fmt.Fprintln(w, "GROUP\tSTATE\tTYPE\tPROTOCOL")
					for _, r := range rows {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Group, dash(r.State), dash(r.Type), dash(r.Protocol))
					}
				})
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&states, "state", nil, "list only groups in this state, as Stable or Empty; repeatable")
	cmd.Flags().StringSliceVar(&types, "type", nil, "list only groups of this type, classic or consumer; repeatable")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
