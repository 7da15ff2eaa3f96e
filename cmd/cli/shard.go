package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (a *App) shardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shard",
		Short: "List the logs of partitions and where they are",
		Args:  noArgs,
		RunE:  func(*cobra.Command, []string) error { return usagef("name what to do: list") },
	}
	cmd.AddCommand(a.shardListCommand())
	return cmd
}

// shardRow is one log on one broker. Offsets are -1 where the broker does not tell them.
type shardRow struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Broker      int32  `json:"broker"`
	Directory   string `json:"directory"` // empty where the broker does not tell it: it may have failed
	Bytes       int64  `json:"bytes"`
	StartOffset int64  `json:"start_offset"`
	EndOffset   int64  `json:"end_offset"`
	LeaderEpoch int32  `json:"leader_epoch"`
}

func (a *App) shardListCommand() *cobra.Command {
	var (
		flags  clientFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "list [TOPIC...]",
		Short: "List logs with directory, size, offsets and leader epoch",
		Long: `List the log of each partition with the data directory that it is in, the bytes it takes there, its first offset, the
offset after its last, and its leader epoch. Directories that failed are named besides.`,
		Example: `  millrace shard list
  millrace shard list orders --json`,
		RunE: func(cmd *cobra.Command, names []string) error {
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				described, err := describeTopics(ctx, adm, names, false)
				if err != nil {
					return err
				}
				dirs, err := adm.DescribeAllLogDirs(ctx, nil)
				if err != nil {
					return err
				}
				rows := shardRows(described, dirs)
				if asJSON {
					err = a.printJSON(rows)
				} else {
					err = a.printShards(rows)
				}
				for _, d := range dirs.Sorted() {
					if d.Err != nil {
						fmt.Fprintf(a.Err, "millrace: directory %s of broker %d failed: %v\n", d.Dir, d.Broker, d.Err)
					}
				}
				return err
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// shardRows joins partitions with the directories of their replicas.
func shardRows(described []topicDescription, dirs kadm.DescribedAllLogDirs) []shardRow {
	rows := []shardRow{}
	for i := range described {
		t := &described[i]
		for _, p := range t.Partitions {
			for _, broker := range p.Replicas {
				row := shardRow{Topic: t.Topic, Partition: p.Partition, Broker: broker, Bytes: -1,
					StartOffset: p.StartOffset, EndOffset: p.EndOffset, LeaderEpoch: p.LeaderEpoch}
				for _, d := range dirs[broker] {
					if at, ok := d.Topics.Lookup(t.Topic, p.Partition); ok && !at.IsFuture {
						row.Directory, row.Bytes = d.Dir, at.Size
					}
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func (a *App) printShards(rows []shardRow) error {
	return a.table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "TOPIC\tPARTITION\tBROKER\tDIRECTORY\tBYTES\tSTART\tEND\tEPOCH")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%d\n", r.Topic, r.Partition, r.Broker, shown(r.Directory),
				known(r.Bytes), known(r.StartOffset), known(r.EndOffset), r.LeaderEpoch)
		}
	})
}

// known shows a number that may not be told.
func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
