package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (a *App) topicAlterCommand() *cobra.Command {
	var (
		flags      clientFlags
		partitions int32
		configs    []string
		deleted    []string
		asJSON     bool
	)
	cmd := &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Add partitions, set and reset configs",
		Example: `  millrace topic alter orders --partitions 24
  millrace topic alter orders --config retention.ms=3600000 --delete-config segment.bytes`,
		Args: oneTopic,
		RunE: func(cmd *cobra.Command, args []string) error {
			topic := args[0]
			values, err := parseConfigs("config", configs)
			if err != nil {
				return err
			}
			var changes []kadm.AlterConfig
			for name, value := range values {
				if slices.Contains(deleted, name) {
					return usagef("--config and --delete-config both name %s", name)
				}
				changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: value})
			}
			for _, name := range deleted {
				changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
			}
			grow := cmd.Flags().Changed("partitions")
			if !grow && len(changes) == 0 {
				return usagef("say what to alter: --partitions, --config or --delete-config")
			}
			if grow && partitions < 1 {
				return usagef("--partitions %d must be at least 1", partitions)
			}
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				result := topicResult{Topic: topic, Result: "altered"}
				if err := alterTopic(ctx, adm, topic, changes, grow, int(partitions)); err != nil {
					result.Result, result.Error = "failed", err.Error()
				}
				return a.report(asJSON, []topicResult{result})
			})
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.Int32VarP(&partitions, "partitions", "p", 0, "new number of partitions, more than now")
	f.StringArrayVarP(&configs, "config", "c", nil, "NAME=VALUE of a topic config to set; repeatable")
	f.StringArrayVar(&deleted, "delete-config", nil, "NAME of a topic config to reset to its default; repeatable")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func alterTopic(ctx context.Context, adm *kadm.Client, topic string, changes []kadm.AlterConfig, grow bool, partitions int) error {
	// Configs first: they are checked whole, so that a wrong one leaves the topic as it was.
	if len(changes) > 0 {
		responses, err := adm.AlterTopicConfigs(ctx, changes, topic)
		if err != nil {
			return err
		}
		for _, r := range responses {
			if r.Err != nil {
				return explain(topic, withMessage(r.Err, r.ErrMessage))
			}
		}
	}
	if !grow {
		return nil
	}
	responses, err := adm.UpdatePartitions(ctx, partitions, topic)
	if err != nil {
		return err
	}
	for _, r := range responses {
		if r.Err != nil {
			err := explain(topic, withMessage(r.Err, r.ErrMessage))
			if len(changes) > 0 {
				err = fmt.Errorf("%w (the configs are changed)", err)
			}
			return err
		}
	}
	return nil
}
