package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"millrace/kafka"
	"millrace/meta/config"
)

// docsCommand prints what is made from the tables the broker runs on and from the commands themselves: pages of docs/,
// man pages and shell completion. It is for the Makefile and not listed.
func (a *App) docsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "docs",
		Short:  "Print a generated page of the documentation",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("name a page: configuration, protocol or man")
		},
	}
	cmd.AddCommand(
		&cobra.Command{Use: "configuration", Short: "Print docs/configuration.md", Args: noArgs,
			RunE: func(*cobra.Command, []string) error { return config.WriteDocumentation(a.Out) }},
		&cobra.Command{Use: "protocol", Short: "Print docs/protocol.md", Args: noArgs,
			RunE: func(*cobra.Command, []string) error { return kafka.WriteProtocol(a.Out) }},
		&cobra.Command{Use: "man DIR", Short: "Write a man page for each command into a directory", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return writeManPages(cmd.Root(), args[0]) }},
	)
	return cmd
}

// writeManPages writes the pages of section 1. They carry no date, so that the same program writes the same bytes.
func writeManPages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var write func(cmd *cobra.Command) error
	write = func(cmd *cobra.Command) error {
		if !cmd.IsAvailableCommand() && cmd != root {
			return nil
		}
		for _, sub := range cmd.Commands() {
			if err := write(sub); err != nil {
				return err
			}
		}
		cmd.DisableAutoGenTag = true
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		file, err := os.Create(filepath.Join(dir, name+".1"))
		if err != nil {
			return err
		}
		defer file.Close()
		header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "millrace", Manual: "millrace"}
		if err := doc.GenMan(cmd, header, file); err != nil {
			return err
		}
		return file.Close()
	}
	return write(root)
}
