package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millrace/bench"
	"millrace/bench/compare"
	"millrace/bench/tune"
	"millrace/cmd/hostspeed"
	"millrace/perf"
)

// hostTime is how long the parts of the host are measured.
const hostTime = 8 * time.Second

// tuneFlags are the options of tune.
type tuneFlags struct {
	dataDir, goal, out string
	rounds             int
	seconds            float64
	asJSON             bool
}

func (a *App) tuneCommand() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Find the best settings for this host",
		Long: `Find the best settings for this host. The file system of the directory, syncs, memory and the loopback are measured;
then brokers are started with each setting that is worth a try here, in turn with the defaults, and loaded with
workloads of millrace bench. Only what is better than the defaults by more than noise, and is so again when it is
measured a second time, is recommended. Of several directories each is measured, and the brokers use all of them.

Everything happens in a directory of its own below each of --data-dir, which is removed at the end, also after Ctrl-C and a
failure. No broker may run in --data-dir meanwhile. --out FILE writes the settings as a file for serve --config.
docs/benchmarking.md tells the method.`,
		Example: `  millrace tune --data-dir /var/lib/millrace --out tuned.properties
  millrace tune --data-dir /var/lib/millrace --for durability --json > tune.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.tune(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.dataDir, "data-dir", "d", "", "directory on the disk that the broker shall use, or several separated by commas; made, and removed again, where it is missing")
	flags.StringVar(&f.goal, "for", string(tune.Throughput), "what the settings shall be best for: throughput, latency or durability")
	flags.IntVar(&f.rounds, "rounds", 5, "starts with each setting, beside as many with the defaults; 4 are the least for a verdict")
	flags.Float64Var(&f.seconds, "seconds", 2, "how long each workload is measured on each start")
	flags.StringVarP(&f.out, "out", "o", "", "file to write the settings to; it must not exist")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

// tuned is what tune prints as JSON.
type tuned struct {
	*tune.Report
	Measured *hostspeed.Report `json:"host_measured"`
}

func (a *App) tune(cmd *cobra.Command, f *tuneFlags) error {
	if err := refuseEmpty(cmd, "data-dir", "out", "for"); err != nil {
		return err
	}
	if f.dataDir == "" {
		return usagef("name the directory on the disk that the broker shall use: --data-dir DIR")
	}
	if err := vacant(f.out); err != nil {
		return err
	}
	dirs, err := dataDirs(f.dataDir)
	if err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	o := tune.Options{DataDirs: dirs, Goal: tune.Goal(f.goal), Rounds: f.rounds, Duration: time.Duration(f.seconds * float64(time.Second)), Binary: binary,
		Version: a.Version, Command: "millrace " + strings.Join(a.Args, " "), Say: a.say}
	if a.Terminal {
		o.Progress = func(p tune.Progress) { fmt.Fprintf(a.Err, "\r\033[K%s", tuneLine(p)) }
	}
	if err := o.Validate(); err != nil {
		return usagef("%w", err)
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	for _, dir := range dirs {
		made, err := makeDir(dir)
		if err != nil {
			return err
		}
		defer made()
	}
	measured, report, err := a.tuneIn(ctx, o)
	if a.Terminal {
		fmt.Fprint(a.Err, "\r\033[K")
	}
	var senseless *bench.UsageError
	switch {
	case errors.As(err, &senseless):
		return usagef("%w", err)
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return err
	}
	if f.out != "" {
		if err := writeNew(f.out, report.Config()); err != nil {
			return err
		}
	}
	if f.asJSON {
		return a.printJSON(tuned{report, measured})
	}
	return a.printTune(measured, report, dirs, f.out)
}

// tuneIn measures the host and sweeps.
func (a *App) tuneIn(ctx context.Context, o tune.Options) (*hostspeed.Report, *tune.Report, error) {
	if err := tune.Refuse(o.DataDirs); err != nil {
		return nil, nil, err
	}
	a.say("measuring the file system, memory and loopback")
	measured, err := hostspeed.Measure(ctx, o.DataDirs, min(hostTime, 4*o.Duration))
	if err != nil {
		return nil, nil, err
	}
	cpus, err := perf.AllowedCPUs()
	if err != nil {
		return nil, nil, err
	}
	o.Facts = tune.Facts{CPUs: len(cpus), Ring: measured.Probe.Uring, RingReason: measured.Probe.UringReason}
	report, err := tune.Run(ctx, o)
	return measured, report, err
}

// vacant refuses a file that is there or cannot be made.
func vacant(file string) error {
	if file == "" {
		return nil
	}
	if _, err := os.Lstat(file); err == nil {
		return usagef("--out %s is there already: name another file, or remove it", file)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return usagef("--out %s: %s is no directory", file, filepath.Dir(file))
	}
	return nil
}

// writeNew writes a file that must not exist.
func writeNew(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// makeDir makes a directory where it is missing and returns what removes again what was made, as far as it is empty.
func makeDir(dir string) (remove func(), err error) {
	var fresh []string
	for path := filepath.Clean(dir); ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			return nil, usagef("--data-dir %s: %s is no directory", dir, path)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, usagef("--data-dir: %w", err)
		}
		fresh = append(fresh, path)
	}
	remove = func() {
		for _, path := range fresh {
			_ = os.Remove(path) // fails where something else is in it by now, which then stays
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		remove()
		return nil, usagef("--data-dir: %w", err)
	}
	return remove, nil
}

func tuneLine(p tune.Progress) string {
	return fmt.Sprintf("%s %d/%d, %s, %s | in all at most about %v left", p.Phase, p.Round, p.Rounds, p.Variant, statusLine(p.Run), p.Left.Round(time.Second))
}

// printTune writes what the host gives, what was tried, and what came of it.
func (a *App) printTune(h *hostspeed.Report, r *tune.Report, dirs []string, out string) error {
	fmt.Fprintf(a.Out, "%s, %d CPUs, Linux %s\n", r.Host.CPU, r.Host.CPUs, r.Host.Kernel)
	for _, dir := range dirs {
		on := compare.HostOf(dir)
		fmt.Fprintf(a.Out, "%s: on %s (%s)\n", dir, on.FileSystem, on.Mount)
	}
	fmt.Fprintln(a.Out)
	if err := a.printHostSpeed(h); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "\nfor %s: %d rounds, each workload for %v s beside the defaults\n\n", r.Goal, r.Rounds, r.Seconds)
	err := a.table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "SETTING\tWORKLOAD\tFIGURE\tUNIT\tWITH IT\tDEFAULTS\tRATIO (RANGE)\tVERDICT")
		tuneRows(w, "", r.Control)
		for _, t := range r.Trials {
			tuneRows(w, "", t)
		}
		if r.Confirmed != nil {
			tuneRows(w, "again: ", *r.Confirmed)
		}
	})
	if err != nil {
		return err
	}
	var lines []string
	for _, t := range r.Tunables {
		if t.Reason != "" {
			lines = append(lines, fmt.Sprintf("note: %s (%s) was not swept: %s", t.Setting, t.Name, t.Reason))
		}
	}
	for _, s := range r.Starts {
		lines = append(lines, fmt.Sprintf("note: %s: the broker does not start: %s", s.Variant, s.Reason))
	}
	lines = append(lines, "the load shares the processors with the broker: where clients run on other hosts, more event loops may pay than here", r.Says())
	for _, s := range r.Settings {
		lines = append(lines, "  "+s)
	}
	if out != "" {
		lines = append(lines, "wrote "+out+", for millrace serve --config "+out)
	}
	_, err = fmt.Fprintln(a.Out, "\n"+strings.Join(lines, "\n"))
	return err
}

func (a *App) printHostSpeed(h *hostspeed.Report) error {
	err := a.table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "THIS HOST\tBACKEND\tFIGURE\tCPU S/GB")
		for _, f := range h.Figures {
			cpu := ""
			if f.CPU > 0 {
				cpu = fmt.Sprintf("%.3g", f.CPU)
			}
			what := f.What
			if f.Directory != "" {
				what = f.Directory + ": " + what
			}
			fmt.Fprintf(w, "%s\t%s\t%.4g %s\t%s\n", what, shown(f.Backend), f.Value, f.Unit, shown(cpu))
		}
	})
	for _, m := range h.Missing {
		fmt.Fprintf(a.Out, "not measured: %s\n", m)
	}
	return err
}

// tuneRows has a line for each figure of a trial; those that do not decide say so.
func tuneRows(w *tabwriter.Writer, prefix string, t tune.Trial) {
	name := prefix + t.Variant.Name
	for _, row := range t.Rows {
		if !row.Decides && row.Metric != compare.MetricCPU {
			continue // only the JSON has it
		}
		says := row.Says()
		if !row.Decides {
			says = "(does not decide)"
		}
		a, b := row.Medians()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, strings.TrimSpace(row.Workload+" "+row.Part), row.Metric, row.Unit, a, b, row.Ratios(), says)
		name = ""
	}
}
