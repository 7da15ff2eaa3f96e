package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *App) topicDeleteCommand() *cobra.Command {
	var (
		flags    clientFlags
		ifExists bool
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "delete TOPIC...",
		Short: "Delete topics and all their records",
		Args:  someTopics,
		RunE: func(cmd *cobra.Command, names []string) error {
			return flags.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				deleted, err := adm.DeleteTopics(ctx, names...)
				if err != nil {
					return err
				}
				var results []topicResult
				for _, name := range names {
					d, ok := deleted[name]
					r := topicResult{Topic: name, Result: "deleted"}
					switch {
					case !ok:
						r.Result, r.Error = "failed", "topic "+name+": the broker did not answer for it"
					case errors.Is(d.Err, kerr.UnknownTopicOrPartition) && ifExists:
						r.Result = "absent"
					case d.Err != nil:
						r.Result, r.Error = "failed", explain(name, withMessage(d.Err, d.ErrMessage)).Error()
					}
					results = append(results, r)
				}
				return a.report(asJSON, results)
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "a topic that is not there is no error")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
