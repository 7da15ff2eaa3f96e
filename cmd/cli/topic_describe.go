package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicDescription is what --json prints of a topic.
type topicDescription struct {
	Topic             string                 `json:"topic"`
	ID                string                 `json:"id"`
	ReplicationFactor int                    `json:"replication_factor"`
	Configs           []configDescription    `json:"configs"`
	Partitions        []partitionDescription `json:"partitions"`
}

type configDescription struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

type partitionDescription struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leader_epoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	StartOffset int64   `json:"start_offset"`
	EndOffset   int64   `json:"end_offset"`
}

func (a *App) topicDescribeCommand() *cobra.Command {
	var (
		flags  clientFlags
		all    bool
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show partitions, offsets and configs of topics",
		Args:  someTopics,
		RunE: func(cmd *cobra.Command, names []string) error {
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				described, err := describeTopics(ctx, adm, names, all)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(described)
				}
				for i := range described {
					if err := a.printTopic(&described[i], i > 0); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&all, "all-configs", false, "show configs that have their default as well")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func describeTopics(ctx context.Context, adm *kadm.Client, names []string, allConfigs bool) ([]topicDescription, error) {
	details, err := topics(ctx, adm, names...)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, d := range details {
		if d.Err != nil {
			errs = append(errs, explain(d.Topic, d.Err))
		}
	}
	if len(errs) > 0 {
		return nil, joinErrors(errs)
	}
	starts, err := adm.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	configs, err := adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, err
	}
	list := make([]topicDescription, 0, len(details))
	for _, d := range details {
		t := topicDescription{Topic: d.Topic, ID: topicID(d.ID), ReplicationFactor: d.Partitions.NumReplicas(), Configs: []configDescription{}}
		for _, p := range d.Partitions.Sorted() {
			row := partitionDescription{Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
				Replicas: p.Replicas, ISR: p.ISR, StartOffset: -1, EndOffset: -1}
			if o, ok := starts.Lookup(d.Topic, p.Partition); ok && o.Err == nil {
				row.StartOffset = o.Offset
			}
			if o, ok := ends.Lookup(d.Topic, p.Partition); ok && o.Err == nil {
				row.EndOffset = o.Offset
			}
			t.Partitions = append(t.Partitions, row)
		}
		for _, rc := range configs {
			if rc.Name != d.Topic {
				continue
			}
			if rc.Err != nil {
				return nil, explain(d.Topic, withMessage(rc.Err, rc.ErrMessage))
			}
			for _, c := range rc.Configs {
				if allConfigs || c.Source == kmsg.ConfigSourceDynamicTopicConfig {
					t.Configs = append(t.Configs, configDescription{c.Key, c.Value, c.Source.String()})
				}
			}
		}
		list = append(list, t)
	}
	return list, nil
}

func (a *App) printTopic(t *topicDescription, separate bool) error {
	if separate {
		if _, err := fmt.Fprintln(a.Out); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(a.Out, "%s  id %s, %s, %s\n", t.Topic, t.ID, count(int64(len(t.Partitions)), "partition"), count(int64(t.ReplicationFactor), "replica")); err != nil {
		return err
	}
	for _, c := range t.Configs {
		value := "(null)"
		if c.Value != nil {
			value = *c.Value
		}
		if _, err := fmt.Fprintf(a.Out, "  %s=%s\n", c.Name, value); err != nil {
			return err
		}
	}
	return a.table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "PARTITION\tLEADER\tEPOCH\tREPLICAS\tISR\tSTART\tEND\tRECORDS")
		for _, p := range t.Partitions {
			fmt.Fprintf(w, "%d\t%d\t%d\t%v\t%v\t%d\t%d\t%d\n", p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR,
				p.StartOffset, p.EndOffset, p.EndOffset-p.StartOffset)
		}
	})
}
