package cli

import (
	"github.com/spf13/cobra"

	"millrace/kafka"
	"millrace/meta/config"
)

// docsCommand prints the pages of docs/ that are made from the tables the broker runs on. It is for the
// Makefile and not listed.
func (a *App) docsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "docs",
		Short:  "Print a generated page of the documentation",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("name a page: configuration or protocol")
		},
	}
	cmd.AddCommand(
		&cobra.Command{Use: "configuration", Short: "Print docs/configuration.md", Args: noArgs,
			RunE: func(*cobra.Command, []string) error { return config.WriteDocumentation(a.Out) }},
		&cobra.Command{Use: "protocol", Short: "Print docs/protocol.md", Args: noArgs,
			RunE: func(*cobra.Command, []string) error { return kafka.WriteProtocol(a.Out) }},
	)
	return cmd
}
