package cli

import "github.com/spf13/cobra"

func (a *App) serveCommand() *cobra.Command   { return &cobra.Command{Use: "serve"} }
func (a *App) inspectCommand() *cobra.Command { return &cobra.Command{Use: "inspect"} }
func (a *App) docsCommand() *cobra.Command    { return &cobra.Command{Use: "docs"} }
