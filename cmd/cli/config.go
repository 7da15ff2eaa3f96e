package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *App) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and change configs of topics, brokers and groups",
		Long: `Show and change configs of a broker of any make that speaks the Kafka protocol. What they belong to is named by kind:
  topic NAME        a topic
  broker ID         what one broker runs with; its dynamic configs can be set
  brokers           the dynamic configs that all brokers have in common
  group NAME        a group of the consumer protocol`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("name what to do: describe, set or delete")
		},
	}
	cmd.AddCommand(a.configDescribeCommand(), a.configSetCommand(), a.configDeleteCommand())
	return cmd
}

// configOwner is what configs belong to.
type configOwner struct {
	kind kmsg.ConfigResourceType
	name string
	text string // as people call it
}

// parseOwner reads kind and name off the arguments, and returns the rest of them.
func parseOwner(cmd *cobra.Command, args []string) (configOwner, []string, error) {
	if len(args) > 0 && args[0] == "brokers" {
		return configOwner{kmsg.ConfigResourceTypeBroker, "", "all brokers"}, args[1:], nil
	}
	kinds := map[string]kmsg.ConfigResourceType{"topic": kmsg.ConfigResourceTypeTopic, "broker": kmsg.ConfigResourceTypeBroker,
		"group": kmsg.ConfigResourceTypeGroupConfig}
	if len(args) == 0 || args[0] != "" && kinds[args[0]] == 0 {
		return configOwner{}, nil, usagef("name what the configs belong to: %s topic NAME, broker ID, brokers or group NAME", cmd.CommandPath())
	}
	if len(args) < 2 || args[1] == "" {
		return configOwner{}, nil, usagef("name the %s: %s %s NAME", args[0], cmd.CommandPath(), args[0])
	}
	if _, err := strconv.ParseInt(args[1], 10, 32); args[0] == "broker" && err != nil {
		return configOwner{}, nil, usagef("broker %q is not the number of one", args[1])
	}
	return configOwner{kinds[args[0]], args[1], args[0] + " " + args[1]}, args[2:], nil
}

// configEntry is what --json prints of a config.
type configEntry struct {
	configDescription
	ReadOnly      bool    `json:"read_only"`
	Sensitive     bool    `json:"sensitive"`
	Documentation *string `json:"documentation,omitempty"`
}

func (a *App) configDescribeCommand() *cobra.Command {
	var (
		flags              clientFlags
		all, docs, jsonOut bool
	)
	cmd := &cobra.Command{
		Use:   "describe topic|broker|brokers|group [NAME] [CONFIG...]",
		Short: "Show configs: those that are set, those named, or all",
		Example: `  millrace config describe topic orders
  millrace config describe broker 1 --all
  millrace config describe group billing consumer.session.timeout.ms --docs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			owner, names, err := parseOwner(cmd, args)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), &flags, func(ctx context.Context, client *kgo.Client) error {
				entries, err := describeConfigs(ctx, client, owner, names, docs)
				if err != nil {
					return err
				}
				if !all && len(names) == 0 {
					entries = slices.DeleteFunc(entries, func(e configEntry) bool { return e.Source == kmsg.ConfigSourceDefaultConfig.String() })
				}
				if jsonOut {
					return a.printJSON(entries)
				}
				return a.table(func(w *tabwriter.Writer) { writeConfigs(w, entries, docs) })
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "show what has its default as well")
	cmd.Flags().BoolVar(&docs, "docs", false, "show what each is for")
	cmd.Flags().BoolVar(&jsonOut, "json", false, "print JSON")
	return cmd
}

func writeConfigs(w *tabwriter.Writer, entries []configEntry, docs bool) {
	fmt.Fprint(w, "CONFIG\tVALUE\tSOURCE\tCHANGES")
	if docs {
		fmt.Fprint(w, "\tMEANING")
	}
	fmt.Fprintln(w)
	for _, e := range entries {
		value, changes := "(hidden)", "at run time"
		if !e.Sensitive {
			value = dash(deref(e.Value))
		}
		if e.ReadOnly {
			changes = "at start"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s", e.Name, value, e.Source, changes)
		if docs {
			fmt.Fprintf(w, "\t%s", deref(e.Documentation))
		}
		fmt.Fprintln(w)
	}
}

func describeConfigs(ctx context.Context, client *kgo.Client, owner configOwner, names []string, docs bool) ([]configEntry, error) {
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = owner.kind, owner.name
	if len(names) > 0 {
		resource.ConfigNames = names
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources, req.IncludeDocumentation = append(req.Resources, resource), docs
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	entries := []configEntry{}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, owner.explain(err, r.ErrorMessage)
		}
		for _, c := range r.Configs {
			entries = append(entries, configEntry{configDescription{c.Name, c.Value, c.Source.String()}, c.ReadOnly, c.IsSensitive, c.Documentation})
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(entries, func(e configEntry) bool { return e.Name == name }) {
			return nil, fmt.Errorf("%s has no config %s; `--all` without a name shows what there is", owner.text, name)
		}
	}
	slices.SortFunc(entries, func(a, b configEntry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// explain names the owner in an error of a broker.
func (o configOwner) explain(err error, message *string) error {
	if o.kind == kmsg.ConfigResourceTypeTopic {
		return explain(o.name, withMessage(err, deref(message)))
	}
	return fmt.Errorf("%s: %w", o.text, withMessage(err, deref(message)))
}

func (a *App) configSetCommand() *cobra.Command {
	return a.configAlterCommand(&cobra.Command{
		Use:   "set topic|broker|brokers|group [NAME] CONFIG=VALUE...",
		Short: "Set configs; all of them, or none where one is wrong",
		Example: `  millrace config set topic orders retention.ms=3600000 cleanup.policy=compact,delete
  millrace config set group billing consumer.session.timeout.ms=50000`,
	}, "CONFIG=VALUE", func(arg string, c *kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return usagef("%q is not CONFIG=VALUE", arg)
		}
		c.Op, c.Name, c.Value = kmsg.IncrementalAlterConfigOpSet, strings.TrimSpace(name), &value
		return nil
	})
}

func (a *App) configDeleteCommand() *cobra.Command {
	return a.configAlterCommand(&cobra.Command{
		Use:     "delete topic|broker|brokers|group [NAME] CONFIG...",
		Short:   "Give configs their defaults again",
		Example: `  millrace config delete topic orders retention.ms`,
	}, "CONFIG", func(arg string, c *kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
		if strings.Contains(arg, "=") {
			return usagef("%q names a value, and delete takes none", arg)
		}
		c.Op, c.Name = kmsg.IncrementalAlterConfigOpDelete, arg
		return nil
	})
}

// configAlterCommand completes a command that changes configs, each of which parse reads from an argument.
func (a *App) configAlterCommand(cmd *cobra.Command, what string, parse func(string, *kmsg.IncrementalAlterConfigsRequestResourceConfig) error) *cobra.Command {
	var (
		flags  clientFlags
		dryRun bool
	)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		owner, rest, err := parseOwner(cmd, args)
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			return usagef("say what to change: %s ... %s", cmd.CommandPath(), what)
		}
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = owner.kind, owner.name
		for _, arg := range rest {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			if err := parse(arg, &c); err != nil {
				return err
			}
			if slices.ContainsFunc(resource.Configs, func(o kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return o.Name == c.Name }) {
				return usagef("%s is named twice", c.Name)
			}
			resource.Configs = append(resource.Configs, c)
		}
		return a.withClient(cmd.Context(), &flags, func(ctx context.Context, client *kgo.Client) error {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.Resources, req.ValidateOnly = append(req.Resources, resource), dryRun
			resp, err := req.RequestWith(ctx, client)
			if err != nil {
				return err
			}
			for _, r := range resp.Resources {
				if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
					return owner.explain(err, r.ErrorMessage)
				}
			}
			done := "changed"
			if dryRun {
				done = "would change"
			}
			_, err = fmt.Fprintf(a.Out, "%s %s of %s\n", done, count(int64(len(resource.Configs)), "config"), owner.text)
			return err
		})
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only check whether the broker would take it")
	return cmd
}

// withClient runs do with a client that an interrupt ends.
func (a *App) withClient(parent context.Context, flags *clientFlags, do func(context.Context, *kgo.Client) error) error {
	ctx, stop := interruptible(parent)
	defer stop()
	client, err := flags.client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(ctx, client)
}
