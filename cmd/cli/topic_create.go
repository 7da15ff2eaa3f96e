package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *App) topicCreateCommand() *cobra.Command {
	var (
		flags       clientFlags
		partitions  int32
		replication int16
		configs     []string
		ifNotExists bool
		dryRun      bool
		asJSON      bool
	)
	cmd := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Create topics",
		Example: `  millrace topic create greetings
  millrace topic create orders --partitions 12 --config retention.ms=86400000`,
		Args: someTopics,
		RunE: func(cmd *cobra.Command, names []string) error {
			values, err := parseConfigs("config", configs)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("partitions") && partitions < 1 {
				return usagef("--partitions %d must be at least 1", partitions)
			}
			if cmd.Flags().Changed("replication-factor") && replication < 1 {
				return usagef("--replication-factor %d must be at least 1", replication)
			}
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				create := adm.CreateTopics
				if dryRun {
					create = adm.ValidateCreateTopics
				}
				created, err := create(ctx, partitions, replication, values, names...)
				if err != nil {
					return err
				}
				return a.report(asJSON, createResults(created, names, ifNotExists, dryRun))
			})
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; the broker's num.partitions if not given")
	f.Int16VarP(&replication, "replication-factor", "r", -1, "copies of each partition; the broker's default if not given")
	f.StringArrayVarP(&configs, "config", "c", nil, "NAME=VALUE of a topic config; repeatable")
	f.BoolVar(&ifNotExists, "if-not-exists", false, "a topic that is there already is no error")
	f.BoolVar(&dryRun, "validate-only", false, "only check whether it could be created")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func createResults(created kadm.CreateTopicResponses, names []string, ifNotExists, dryRun bool) []topicResult {
	var results []topicResult
	for _, name := range names {
		c, ok := created[name]
		r := topicResult{Topic: name, Result: "created"}
		if dryRun {
			r.Result = "would create"
		}
		switch {
		case !ok:
			r.Result, r.Error = "failed", "topic "+name+": the broker did not answer for it"
		case errors.Is(c.Err, kerr.TopicAlreadyExists) && ifNotExists:
			r.Result = "kept"
		case c.Err != nil:
			r.Result, r.Error = "failed", explain(name, withMessage(c.Err, c.ErrMessage)).Error()
		default:
			r.Partitions, r.ReplicationFactor = c.NumPartitions, c.ReplicationFactor
			if c.ID != (kadm.TopicID{}) {
				r.ID = topicID(c.ID)
			}
		}
		results = append(results, r)
	}
	return results
}
