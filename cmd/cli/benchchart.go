package cli

import (
	"os"

	"github.com/spf13/cobra"

	"millrace/bench/compare"
)

func (a *App) benchChartCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "chart COMPARE.JSON",
		Short: "Draw the small chart of a comparison from its JSON",
		Long: `Draw the small chart of a comparison from its JSON: throughput, processor time and their ratios as an SVG that
needs nothing else, for a page in light or dark. bench compare leaves the same beside its JSON.`,
		Example: "  millrace bench chart bench-results/full/compare.json --out docs/bench.svg",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name the JSON of one comparison: %s COMPARE.JSON", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseEmpty(cmd, "out"); err != nil {
				return err
			}
			r, err := compare.Read(args[0])
			if err != nil {
				return err
			}
			if out == "" {
				_, err = a.Out.Write(r.Chart())
				return err
			}
			return os.WriteFile(out, r.Chart(), 0o644)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write; the standard output if not given")
	return cmd
}
