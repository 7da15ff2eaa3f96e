package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"millrace/cmd/doctor"
	"millrace/meta/config"
)

func (a *App) doctorCommand() *cobra.Command {
	var dataDir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this host, and say how to repair what is found",
		Long: `Check this host for running a broker: kernel, io_uring, file system, limits, memory settings, free space and
clock. Of several data directories each is checked. Nothing is changed. The exit code is 1 when something serious is found.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmpty(cmd, "data-dir"); err != nil {
				return err
			}
			dirs, err := dataDirs(dataDir)
			if err != nil {
				return err
			}
			findings := doctor.Check(doctor.System(dirs))
			if err := a.printFindings(findings, asJSON); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Level == doctor.Serious {
					return errQuiet
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", ".", "directory that the broker keeps its data in, or several separated by commas")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// dataDirs splits what --data-dir says as serve does, and refuses what serve would.
func dataDirs(text string) ([]string, error) {
	b, err := config.ParseBroker(config.Settings{"log.dirs": {Value: text, Origin: "--data-dir"}})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return b.DataDirs, nil
}

func (a *App) printFindings(findings []doctor.Finding, asJSON bool) error {
	if asJSON {
		return a.printJSON(findings)
	}
	for _, f := range findings {
		what := f.Check
		if f.Directory != "" {
			what = f.Directory + ": " + what
		}
		line := fmt.Sprintf("%-8s %s: %s\n", f.Level, what, f.Found)
		if f.Says != "" {
			line += fmt.Sprintf("         %s\n", f.Says)
		}
		if f.Repair != "" {
			line += fmt.Sprintf("         repair: %s\n", f.Repair)
		}
		if _, err := fmt.Fprint(a.Out, line); err != nil {
			return err
		}
	}
	return nil
}
