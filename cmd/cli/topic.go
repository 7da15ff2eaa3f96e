package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (a *App) topicCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Create, list, describe, alter and delete topics",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("name what to do: create, list, describe, alter or delete")
		},
	}
	cmd.AddCommand(a.topicCreateCommand(), a.topicListCommand(), a.topicDescribeCommand(), a.topicAlterCommand(), a.topicDeleteCommand())
	return cmd
}

// topicResult is what --json prints of a change to one topic.
type topicResult struct {
	Topic             string `json:"topic"`
	ID                string `json:"id,omitempty"`
	Partitions        int32  `json:"partitions,omitempty"`
	ReplicationFactor int16  `json:"replication_factor,omitempty"`
	Result            string `json:"result"`
	Error             string `json:"error,omitempty"`
}

// report prints the results of a change, and fails if one of them did.
func (a *App) report(asJSON bool, results []topicResult) error {
	failed := false
	for _, r := range results {
		failed = failed || r.Error != ""
	}
	if asJSON {
		if err := a.printJSON(results); err != nil {
			return err
		}
		if failed {
			return errQuiet
		}
		return nil
	}
	for _, r := range results {
		if r.Error != "" {
			fmt.Fprintf(a.Err, "millrace: %s\n", r.Error)
			continue
		}
		line := fmt.Sprintf("%s %s", r.Result, r.Topic)
		if r.Partitions > 0 {
			line += fmt.Sprintf(", %s", count(int64(r.Partitions), "partition"))
		}
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return err
		}
	}
	if failed {
		return errQuiet
	}
	return nil
}

// parseConfigs reads NAME=VALUE pairs.
func parseConfigs(flag string, pairs []string) (map[string]*string, error) {
	configs := map[string]*string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, usagef("--%s %q is not NAME=VALUE", flag, pair)
		}
		if configs[name] != nil {
			return nil, usagef("--%s sets %s twice", flag, name)
		}
		configs[name] = &value
	}
	return configs, nil
}

// topics asks for the named topics, or for all, sorted by name.
func topics(ctx context.Context, adm *kadm.Client, names ...string) ([]kadm.TopicDetail, error) {
	details, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	list := make([]kadm.TopicDetail, 0, len(details))
	for _, d := range details {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b kadm.TopicDetail) int { return cmp.Compare(a.Topic, b.Topic) })
	return list, nil
}

// table writes aligned columns.
func (a *App) table(rows func(w *tabwriter.Writer)) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	rows(w)
	return w.Flush()
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func joinErrors(errs []error) error {
	return errors.Join(errs...)
}
