package cli

import "github.com/spf13/cobra"

func (a *App) inspectCommand() *cobra.Command { return &cobra.Command{Use: "inspect", Hidden: true} }
