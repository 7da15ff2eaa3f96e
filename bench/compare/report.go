package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/bench"
)

// Format is the version of a report's JSON.
const Format = 1

// Placements say where the brokers and the load run.
const (
	Pinned   = "pinned"   // the broker on the first processor, the load on the others
	Unpinned = "unpinned" // both on all
)

// Report is a comparison: what was planned, on what, and what was measured.
type Report struct {
	Format    int       `json:"format"`
	Command   string    `json:"command"`
	Millrace  string    `json:"millrace_version"`
	Commit    string    `json:"commit"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended"`
	Complete  bool      `json:"complete"`
	Plan      Plan      `json:"plan"`
	Host      Host      `json:"host"`
	Brokers   []Broker  `json:"brokers"` // A and B
	Starts    []Start   `json:"starts"`
	Rows      []Row     `json:"rows"` // what the starts say, worked out anew each time
	Latencies []Curve   `json:"latencies"`
	Notes     []string  `json:"notes"`
}

// Plan is what a comparison does.
type Plan struct {
	Workloads  []string      `json:"workloads"`
	Rounds     int           `json:"rounds"`
	Placements []string      `json:"placements"`
	Scale      float64       `json:"scale"`   // share of the bytes and times that bench list tells
	Warm       time.Duration `json:"warm_ns"` // load on B before it is measured
}

// Host is where the comparison ran.
type Host struct {
	Name        string `json:"name"`
	Kernel      string `json:"kernel"`
	CPU         string `json:"cpu"`
	CPUs        int    `json:"cpus"`
	BrokerCPUs  string `json:"pinned_broker_cpus,omitempty"`
	LoadCPUs    string `json:"pinned_load_cpus,omitempty"`
	MemoryBytes int64  `json:"memory_bytes"`
	FileSystem  string `json:"file_system"`
	Device      string `json:"device"`
	Mount       string `json:"mount_options"`
}

// Broker is one side.
type Broker struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	Command       string `json:"command"`
	Configuration string `json:"configuration"`
	Owned         bool   `json:"started_here"`
}

// Start is one start of a broker with all that ran on it.
type Start struct {
	Round        int             `json:"round"` // from 1
	Placement    string          `json:"placement"`
	Side         int             `json:"side"` // 0: A, 1: B
	Began        time.Time       `json:"began"`
	Seconds      float64         `json:"seconds"`
	ReadySeconds float64         `json:"ready_seconds"` // 0: it ran already
	Results      []*bench.Result `json:"results"`
}

// Curve is a latency of one part, pooled over the rounds.
type Curve struct {
	Workload  string          `json:"workload"`
	Part      string          `json:"part,omitempty"`
	Placement string          `json:"placement"`
	Of        string          `json:"of"`
	Sides     []bench.Latency `json:"sides"`
}

// Read reads a report from a file.
func Read(file string) (*Report, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Format != Format {
		return nil, fmt.Errorf("%s is of format %d, not %d", file, r.Format, Format)
	}
	if len(r.Brokers) != 2 || len(r.Plan.Placements) == 0 {
		return nil, fmt.Errorf("%s is no comparison of two brokers", file)
	}
	return r, nil
}

// write replaces the file whole: who reads meanwhile sees the old one or the new one.
func (r *Report) write(file string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return replace(file, append(raw, '\n'))
}

func replace(file string, raw []byte) error {
	fresh := file + ".new"
	if err := os.WriteFile(fresh, raw, 0o644); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return os.Rename(fresh, file)
}

// goesOn says why the comparison planned in r cannot go on with what was found in an earlier report.
func (r *Report) goesOn(earlier *Report) error {
	var errs []error
	same := func(what string, now, then any) {
		if fmt.Sprint(now) != fmt.Sprint(then) {
			errs = append(errs, fmt.Errorf("%s: %v then, %v now", what, then, now))
		}
	}
	same("workloads", r.Plan.Workloads, earlier.Plan.Workloads)
	same("rounds", r.Plan.Rounds, earlier.Plan.Rounds)
	same("placements", r.Plan.Placements, earlier.Plan.Placements)
	same("scale", r.Plan.Scale, earlier.Plan.Scale)
	same("warm-up", r.Plan.Warm, earlier.Plan.Warm)
	same("millrace", r.Millrace+" "+r.Commit, earlier.Millrace+" "+earlier.Commit)
	same("kernel", r.Host.Kernel, earlier.Host.Kernel)
	same("processor", r.Host.CPU, earlier.Host.CPU)
	same("file system", r.Host.FileSystem, earlier.Host.FileSystem)
	for i := range r.Brokers {
		if i < len(earlier.Brokers) {
			now, then := r.Brokers[i], earlier.Brokers[i]
			same("broker", now.Name+" "+now.Version, then.Name+" "+then.Version)
			same("configuration of "+now.Name, now.Configuration, then.Configuration)
		}
	}
	return errors.Join(errs...)
}

// has tells that a start was measured.
func (r *Report) has(s step) bool {
	return slices.ContainsFunc(r.Starts, func(t Start) bool {
		return t.Round == s.round && t.Placement == s.placement && t.Side == s.side
	})
}

// ReportFile and PageFile are what a comparison leaves in its output directory.
const (
	ReportFile = "compare.json"
	PageFile   = "compare.html"
)

// earlier returns the report of a comparison that is to go on, nil where there is none.
func earlier(dir string, resume bool) (*Report, error) {
	file := filepath.Join(dir, ReportFile)
	r, err := Read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !resume:
		return nil, &bench.UsageError{Err: fmt.Errorf("%s holds a comparison: go on with --resume, or name another --out", dir)}
	}
	return r, err
}

// part names a part of a workload in a line.
func part(workload, part string) string { return strings.TrimSpace(workload + " " + part) }
