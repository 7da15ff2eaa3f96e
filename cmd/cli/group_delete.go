package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// groupResult is what --json prints of a change to a group or to one of its offsets.
type groupResult struct {
	Group     string `json:"group"`
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Result    string `json:"result"`
	Error     string `json:"error,omitempty"`
}

// reportGroups prints the results of a change, and fails if one of them did.
func (a *App) reportGroups(asJSON bool, results []groupResult) error {
	failed := false
	for _, r := range results {
		failed = failed || r.Error != ""
		if asJSON {
			continue
		}
		if r.Error != "" {
			fmt.Fprintf(a.Err, "millrace: %s\n", r.Error)
			continue
		}
		line := r.Result + " " + r.Group
		if r.Partition != nil {
			line += fmt.Sprintf(" %s:%d", r.Topic, *r.Partition)
		}
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return err
		}
	}
	if asJSON {
		if err := a.printJSON(results); err != nil {
			return err
		}
	}
	if failed {
		return errQuiet
	}
	return nil
}

func (a *App) groupDeleteCommand() *cobra.Command {
	var (
		flags  clientFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "delete GROUP...",
		Short: "Delete groups without members, and their offsets",
		Args:  someGroups,
		RunE: func(cmd *cobra.Command, names []string) error {
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				results := []groupResult{}
				for _, name := range names {
					r := groupResult{Group: name, Result: "deleted"}
					if _, err := adm.DeleteGroup(ctx, name); err != nil {
						r.Result, r.Error = "failed", explainGroup(name, err).Error()
					}
					results = append(results, r)
				}
				return a.reportGroups(asJSON, results)
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *App) groupDeleteOffsetsCommand() *cobra.Command {
	var (
		flags  clientFlags
		topics []string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "delete-offsets GROUP --topic TOPIC[:P,P...]",
		Short:   "Delete what a group has committed for topics",
		Example: "  millrace group delete-offsets billing --topic orders:0,1",
		Args:    oneGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := parseGroupTopics(topics)
			if err != nil {
				return err
			}
			if len(wanted) == 0 {
				return usagef("say which: --topic TOPIC or --topic TOPIC:P,P")
			}
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				set, err := groupPartitions(ctx, adm, args[0], wanted)
				if err != nil {
					return err
				}
				deleted, err := adm.DeleteOffsets(ctx, args[0], set)
				if err != nil {
					return explainGroup(args[0], err)
				}
				results := []groupResult{}
				for _, tp := range partitionsOf(set) {
					r := groupResult{Group: args[0], Topic: tp.Topic, Partition: &tp.Partition, Result: "deleted"}
					failure, ok := deleted.Lookup(tp.Topic, tp.Partition)
					if !ok {
						failure = fmt.Errorf("the broker did not answer for it")
					}
					if failure != nil {
						r.Result, r.Error = "failed", explainGroup(args[0], fmt.Errorf("%s:%d: %w", tp.Topic, tp.Partition, failure)).Error()
					}
					results = append(results, r)
				}
				return a.reportGroups(asJSON, results)
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringArrayVarP(&topics, "topic", "t", nil, "TOPIC, or TOPIC:P,P for some partitions; repeatable")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// parseGroupTopics reads TOPIC and TOPIC:P,P; no partitions mean all.
func parseGroupTopics(texts []string) (map[string][]int32, error) {
	wanted := map[string][]int32{}
	for _, text := range texts {
		topic, list, some := strings.Cut(text, ":")
		if _, twice := wanted[topic]; twice || topic == "" {
			return nil, usagef("--topic %q names no topic, or one that is named already", text)
		}
		wanted[topic] = nil
		if !some {
			continue
		}
		for _, number := range strings.Split(list, ",") {
			p, err := strconv.ParseInt(number, 10, 32)
			if err != nil || p < 0 {
				return nil, usagef("--topic %q: %q is not a partition; write TOPIC:0,1", text, number)
			}
			wanted[topic] = append(wanted[topic], int32(p))
		}
	}
	return wanted, nil
}

// groupPartitions resolves the wanted topics to partitions that are there.
func groupPartitions(ctx context.Context, adm *kadm.Client, group string, wanted map[string][]int32) (kadm.TopicsSet, error) {
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	list, err := topics(ctx, adm, names...)
	if err != nil {
		return nil, explainGroup(group, err)
	}
	set := kadm.TopicsSet{}
	for _, t := range list {
		if t.Err != nil {
			return nil, explain(t.Topic, t.Err)
		}
		for _, p := range wanted[t.Topic] {
			if _, ok := t.Partitions[p]; !ok {
				return nil, fmt.Errorf("topic %s has no partition %d: it has %s, numbered from 0", t.Topic, p, count(int64(len(t.Partitions)), "partition"))
			}
			set.Add(t.Topic, p)
		}
		if len(wanted[t.Topic]) == 0 {
			for p := range t.Partitions {
				set.Add(t.Topic, p)
			}
		}
	}
	return set, nil
}
