package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *App) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			facts := struct {
				Version  string `json:"version"`
				Revision string `json:"revision,omitempty"`
				Time     string `json:"time,omitempty"`
				Modified bool   `json:"modified,omitempty"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{Version: a.Version, Revision: revision(), Time: buildSetting("vcs.time"), Modified: modified(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if asJSON {
				return a.printJSON(facts)
			}
			built := ""
			if facts.Revision != "" {
				built = fmt.Sprintf(" (commit %.12s of %s", facts.Revision, facts.Time)
				if facts.Modified {
					built += ", with changes"
				}
				built += ")"
			}
			_, err := fmt.Fprintf(a.Out, "millrace %s%s %s %s\n", facts.Version, built, facts.Go, facts.Platform)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// revision is the commit that the binary was built from, where the build recorded it.
func revision() string { return buildSetting("vcs.revision") }

// modified tells that the binary was built from more than that commit.
func modified() bool { return buildSetting("vcs.modified") == "true" }

func buildSetting(key string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
