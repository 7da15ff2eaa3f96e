package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (a *App) topicListCommand() *cobra.Command {
	var (
		flags    clientFlags
		internal bool
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List topics",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				all, err := topics(ctx, adm)
				if err != nil {
					return err
				}
				type row struct {
					Topic             string `json:"topic"`
					ID                string `json:"id"`
					Partitions        int    `json:"partitions"`
					ReplicationFactor int    `json:"replication_factor"`
				}
				rows := []row{}
				for _, t := range all {
					if t.IsInternal && !internal {
						continue
					}
					rows = append(rows, row{t.Topic, topicID(t.ID), len(t.Partitions), t.Partitions.NumReplicas()})
				}
				if asJSON {
					return a.printJSON(rows)
				}
				return a.table(func(w *tabwriter.Writer) {
					fmt.Fprintln(w, "TOPIC\tPARTITIONS\tREPLICAS")
					for _, r := range rows {
						fmt.Fprintf(w, "%s\t%d\t%d\n", r.Topic, r.Partitions, r.ReplicationFactor)
					}
				})
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&internal, "internal", false, "list internal topics as well")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
