package tune

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/bench/compare"
)

// Format is the version of a report's JSON.
const Format = 1

// Report is what a run found.
type Report struct {
	Format    int           `json:"format"`
	Command   string        `json:"command"`
	Millrace  string        `json:"millrace_version"`
	Goal      Goal          `json:"goal"`
	Rounds    int           `json:"rounds"`
	Seconds   float64       `json:"seconds"` // of each workload in each round
	Began     time.Time     `json:"began"`
	Ended     time.Time     `json:"ended"`
	Host      compare.Host  `json:"host"`
	Tunables  []Tunable     `json:"tunables"`
	Control   Trial         `json:"control"` // the defaults beside themselves
	Trials    []Trial       `json:"trials"`
	Confirmed *Trial        `json:"confirmed,omitempty"` // what was chosen, measured again
	Outcome   Outcome       `json:"outcome"`
	Settings  []string      `json:"settings"` // KEY=VALUE; empty: the defaults
	Starts    []StartFailed `json:"cannot_start,omitempty"`
}

// StartFailed is a variant that a broker cannot be started with here.
type StartFailed struct {
	Variant string `json:"variant"`
	Reason  string `json:"reason"`
}

// Config is the report's settings as a file that serve --config takes.
func (r *Report) Config() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	h := r.Host
	line("# Written by millrace tune (%s) for %s on %s.", oneLine(r.Millrace), r.Goal, r.Ended.UTC().Format(time.RFC3339))
	line("# Host: %s, %d CPUs, Linux %s, data on %s.", oneLine(h.CPU), h.CPUs, oneLine(h.Kernel), oneLine(h.FileSystem))
	line("# %s.", strings.ToUpper(r.Says()[:1])+r.Says()[1:])
	if r.Outcome == Recommended {
		for _, row := range r.Confirmed.Rows {
			if row.Decides {
				line("# %s, %s: %s %s instead of %s, ratio %s, %s", strings.TrimSpace(row.Workload+" "+row.Part), row.Metric, compare.Number(row.MedianA), row.Unit, compare.Number(row.MedianB), row.Ratios(), row.Says())
			}
		}
	}
	for _, t := range r.Tunables {
		chosen := slices.IndexFunc(r.Settings, func(s string) bool { return strings.HasPrefix(s, t.Setting+"=") })
		if chosen >= 0 {
			line("%s", r.Settings[chosen])
		} else {
			line("# %s is left at its default, %s here.", t.Setting, t.Default)
		}
	}
	return b.String()
}

// oneLine keeps a comment from ending early.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
