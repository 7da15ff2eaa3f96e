package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millrace/bench"
	"millrace/bench/compare"
	"millrace/bench/peer"
)

// fullBytes is the payload of P1, which --bytes is a share of.
const fullBytes = 4_000_000_000

// shortCommit is how many digits of a commit a table has room for.
const shortCommit = 12

// compareFlags are the options of bench compare.
type compareFlags struct {
	against, home    string
	pid              int
	settings         []string // of millrace
	others           []string // of the other broker
	workloads        []string
	rounds           int
	pinned, unpinned bool
	placement        string
	bytes            string
	warm             time.Duration
	out, dir         string
	resume, asJSON   bool
}

func (a *App) benchCompareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Run workloads against millrace and another broker side by side",
		Long: `Run workloads against millrace and another broker, alternating between them, and tell whether what differs is more
than noise. Both brokers are started here, on fresh data directories that are removed at the end, Apache Kafka
from its published jars (needs Java 17 and Maven; they are kept in the user's cache directory).

--against is one of
  kafka       Apache Kafka ` + peer.KafkaVersion + `, or the one installed in --against-home
  HOST:PORT   any broker that runs already; --against-pid says which process it is
  millrace    this program once more: what differs then is noise
  ./BINARY    another millrace

The output directory gets compare.json, compare.html, a page with charts that needs nothing else, and compare.svg, a
small chart of throughput and processor time. A comparison
that was interrupted goes on with the same command and --resume.`,
		Example: `  millrace bench compare --workloads P1,P3,L1,F1 --rounds 3 --bytes 1GB
  millrace bench compare --against 127.0.0.1:9092 --against-pid $(pidof redpanda) --unpinned
  millrace bench compare --rounds 7 --placement both --out full --resume`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.benchCompare(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.against, "against", "kafka", "the other broker: kafka, HOST:PORT, millrace, or the path of another millrace")
	flags.StringVar(&f.home, "against-home", "", "directory of an installed Apache Kafka, in place of the published jars")
	flags.IntVar(&f.pid, "against-pid", 0, "number of the other broker's process, when it runs already on this host")
	flags.StringArrayVarP(&f.settings, "set", "s", nil, "KEY=VALUE of a setting of millrace; repeatable")
	flags.StringArrayVar(&f.others, "against-set", nil, "KEY=VALUE of a setting of the other broker; repeatable")
	flags.StringSliceVar(&f.workloads, "workloads", nil, "workloads with commas between; all if not given")
	flags.IntVar(&f.rounds, "rounds", 7, "starts of each broker in each placement; 4 are the least for a verdict")
	flags.BoolVar(&f.pinned, "pinned", false, "--placement pinned")
	flags.BoolVar(&f.unpinned, "unpinned", false, "--placement unpinned")
	flags.StringVar(&f.placement, "placement", "", "pinned (the broker on the first processor, the load on the others), unpinned, or both; pinned where it can be")
	flags.StringVar(&f.bytes, "bytes", "", "payload of P1, 4GB if not given; the bytes and times of all workloads shrink in proportion")
	flags.DurationVar(&f.warm, "warm", time.Minute, "load on the other broker after each start, before it is measured")
	flags.StringVarP(&f.out, "out", "o", "", "output directory; bench-results/ and the time if not given")
	flags.StringVar(&f.dir, "dir", "", "directory below which the data directories are made; the output directory if not given")
	flags.BoolVar(&f.resume, "resume", false, "go on with the comparison in --out, if there is one")
	flags.BoolVar(&f.asJSON, "json", false, "print the report as JSON")
	return cmd
}

func (a *App) benchCompare(cmd *cobra.Command, f *compareFlags) error {
	if err := refuseEmpty(cmd, "against", "against-home", "placement", "bytes", "out", "dir"); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	o, err := a.compareOptions(ctx, cmd, f)
	if err != nil {
		return err
	}
	report, err := compare.Run(ctx, o)
	if a.Terminal {
		fmt.Fprint(a.Err, "\r\033[K")
	}
	var senseless *bench.UsageError
	switch {
	case errors.As(err, &senseless):
		return usagef("%w", err)
	case err != nil:
		return err
	case f.asJSON:
		return a.printJSON(report)
	}
	return a.printCompare(report, o.Out)
}

func (a *App) compareOptions(ctx context.Context, cmd *cobra.Command, f *compareFlags) (compare.Options, error) {
	o := compare.Options{Out: f.out, Dir: f.dir, Resume: f.resume, Version: a.Version, Commit: commit(), Command: "millrace " + strings.Join(a.Args, " "),
		Say: a.say, Plan: compare.Plan{Rounds: f.rounds, Warm: f.warm, Scale: 1}}
	if a.Terminal {
		o.Progress = func(p compare.Progress) { fmt.Fprintf(a.Err, "\r\033[K%s", compareLine(p)) }
	}
	if f.resume && f.out == "" {
		return o, usagef("--resume goes on with what is in --out: name it")
	}
	if o.Out == "" {
		o.Out = filepath.Join("bench-results", time.Now().UTC().Format("20060102-150405"))
	}
	if o.Dir != "" {
		if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
			return o, usagef("--dir %s is no directory", o.Dir)
		}
	}
	if f.bytes != "" {
		bytes, err := parseSize(f.bytes)
		if err != nil {
			return o, usagef("--bytes: %w", err)
		}
		o.Plan.Scale = float64(bytes) / fullBytes
	}
	if err := a.plan(f, &o.Plan); err != nil {
		return o, err
	}
	return o, a.sides(ctx, cmd, f, &o)
}

// say tells what begins: in place of the progress line on a terminal, a line of its own elsewhere.
func (a *App) say(line string) {
	if a.Terminal {
		fmt.Fprintf(a.Err, "\r\033[K%s", line)
		return
	}
	fmt.Fprintf(a.Err, "%s %s\n", time.Now().UTC().Format("15:04:05"), line)
}

// plan takes workloads and placements over.
func (a *App) plan(f *compareFlags, p *compare.Plan) error {
	for _, w := range f.workloads {
		p.Workloads = append(p.Workloads, strings.ToUpper(strings.TrimSpace(w)))
	}
	if len(f.workloads) == 0 {
		for _, w := range bench.Workloads() {
			if w.ID == "S3" && strings.Contains(f.against, ":") {
				continue // it kills the broker, which runs already
			}
			if err := bench.Feasible(&w); err != nil {
				a.say("leaving out " + w.ID + ": " + err.Error())
				continue
			}
			p.Workloads = append(p.Workloads, w.ID)
		}
	}
	named := 0
	for name, set := range map[string]bool{compare.Pinned: f.pinned, compare.Unpinned: f.unpinned, f.placement: f.placement != ""} {
		if set {
			named++
			f.placement = name
		}
	}
	if named > 1 {
		return usagef("--pinned, --unpinned and --placement exclude each other; --placement both does both")
	}
	switch f.placement {
	case compare.Pinned, compare.Unpinned:
		p.Placements = []string{f.placement}
	case "both":
		p.Placements = []string{compare.Pinned, compare.Unpinned}
	case "":
		p.Placements = []string{compare.Pinned}
		if strings.Contains(f.against, ":") {
			p.Placements = []string{compare.Unpinned}
		}
	default:
		return usagef("--placement %q is none of pinned, unpinned, both", f.placement)
	}
	return nil
}

// sides finds the two brokers.
func (a *App) sides(ctx context.Context, cmd *cobra.Command, f *compareFlags, o *compare.Options) error {
	if err := errors.Join(peer.ParseSettings(f.settings), peer.ParseSettings(f.others)); err != nil {
		return usagef("%w", err)
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	version := a.Version
	if short := revision(); len(short) > shortCommit {
		version += " " + short[:shortCommit]
	}
	o.A = peer.Millrace("millrace", binary, version, f.settings)
	running := strings.Contains(f.against, ":") && !strings.Contains(f.against, "/")
	switch {
	case f.home != "" && f.against != "kafka":
		return usagef("--against-home belongs to --against kafka")
	case !running && cmd.Flags().Changed("against-pid"):
		return usagef("--against-pid belongs to --against HOST:PORT: others are started here")
	case running && len(f.others) > 0:
		return usagef("--against-set %s: the broker at %s runs already", f.others[0], f.against)
	case f.against == "kafka":
		o.B, err = peer.Kafka(ctx, f.home, f.others, a.say)
	case f.against == "millrace":
		o.B = peer.Millrace("millrace again", binary, version, f.others)
	case strings.Contains(f.against, "/"):
		o.B, err = otherMillrace(ctx, f.against, f.others)
	case running:
		host, port, err := net.SplitHostPort(f.against)
		if err != nil || host == "" || port == "" {
			return usagef("--against %q is not HOST:PORT", f.against)
		}
		if cmd.Flags().Changed("against-pid") && f.pid <= 0 {
			return usagef("--against-pid %d is no process", f.pid)
		}
		o.B = peer.Running(f.against, f.pid)
	default:
		return usagef("--against %q is none of kafka, HOST:PORT, millrace and the path of another millrace", f.against)
	}
	return err
}

func otherMillrace(ctx context.Context, path string, settings []string) (*peer.Spec, error) {
	out, err := exec.CommandContext(ctx, path, "version").CombinedOutput()
	if err != nil {
		return nil, usagef("--against %s is no millrace: %w", path, err)
	}
	return peer.Millrace("other millrace", path, strings.TrimSpace(string(out)), settings), nil
}

func compareLine(p compare.Progress) string {
	return fmt.Sprintf("round %d/%d %s %s, %s | in all about %v left", p.Round, p.Rounds, p.Placement, p.Broker, statusLine(p.Run), p.Left.Round(time.Second))
}

// printCompare writes the table, what must be known of it, and where the rest is.
func (a *App) printCompare(r *compare.Report, out string) error {
	h := r.Host
	fmt.Fprintf(a.Out, "%s against %s %s\n%s, %d CPUs, Linux %s, data on %s (%s)\n\n", r.Brokers[0].Name+" "+r.Brokers[0].Version, r.Brokers[1].Name, r.Brokers[1].Version,
		h.CPU, h.CPUs, h.Kernel, h.FileSystem, h.Mount)
	err := a.table(func(w *tabwriter.Writer) {
		fmt.Fprintf(w, "WORKLOAD\tFIGURE\tUNIT\t%s\t%s\tRATIO (RANGE)\tVERDICT\n", strings.ToUpper(r.Brokers[0].Name), strings.ToUpper(r.Brokers[1].Name))
		for _, row := range r.Rows {
			name := strings.TrimSpace(row.Workload + " " + row.Part)
			if len(r.Plan.Placements) > 1 {
				name += ", " + row.Placement
			}
			medianA, medianB := row.Medians()
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, row.Metric, row.Unit, medianA, medianB, row.Ratios(), row.Says())
		}
	})
	if err != nil {
		return err
	}
	lines := []string{fmt.Sprintf("\nmedians of %s; ratio: median of millrace / %s over the pairs, with its range", count(int64(r.Plan.Rounds), "round"), r.Brokers[1].Name)}
	for _, d := range r.Durability() {
		lines = append(lines, "acknowledged means, "+d)
	}
	for _, n := range r.Notes {
		lines = append(lines, "note: "+n)
	}
	lines = append(lines, "wrote "+filepath.Join(out, compare.ReportFile)+", "+compare.PageFile+" and "+compare.ChartFile)
	_, err = fmt.Fprintln(a.Out, strings.Join(lines, "\n"))
	return err
}

// commit is what the binary was built from.
func commit() string {
	c := revision()
	if c != "" && modified() {
		c += " with changes"
	}
	return c
}
