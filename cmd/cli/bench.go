package cli

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/bench"
)

func (a *App) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a broker of any make that speaks the Kafka protocol",
		Long: `Measure a broker of any make that speaks the Kafka protocol: throughput, latency, and what the broker's process
uses for it. docs/benchmarking.md tells the method and its pitfalls.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return usagef("name what to do: list, run, compare or chart") },
	}
	cmd.AddCommand(a.benchListCommand(), a.benchRunCommand(), a.benchCompareCommand(), a.benchChartCommand())
	return cmd
}

func (a *App) benchListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the workloads", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			type row struct {
				Workload string `json:"workload"`
				Summary  string `json:"summary"`
			}
			var rows []row
			for _, w := range bench.Workloads() {
				rows = append(rows, row{w.ID, w.Summary})
			}
			if asJSON {
				return a.printJSON(rows)
			}
			return a.table(func(w *tabwriter.Writer) {
				for _, r := range rows {
					fmt.Fprintf(w, "%s\t%s\n", r.Workload, r.Summary)
				}
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// benchFlags are the options of bench run.
type benchFlags struct {
	broker   string
	pid      int
	settings bench.Settings
	bytes    string
	acks     string
	asJSON   bool
}

func (a *App) benchRunCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "run WORKLOAD",
		Short: "Run a workload against a broker",
		Long: `Run a workload against a broker. millrace bench list names the workloads. The options below take the place of
what the workload says; one that means nothing for it is refused.

The topics that are made begin with millrace-bench-, and are deleted at the end, also after Ctrl-C and a failure.
Everything that is read back is verified; wrong or missing records make the run fail.`,
		Example: `  millrace bench run P1 --broker 127.0.0.1:9092 --broker-pid $(pidof millrace)
  millrace bench run L1 --broker kafka1:9092 --rate 500 --duration 1m --json`,
		Args: oneWorkload,
		RunE: func(cmd *cobra.Command, args []string) error { return a.benchRun(cmd, args[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.broker, "broker", "b", "127.0.0.1:9092", "HOST:PORT of a broker")
	flags.IntVar(&f.pid, "broker-pid", 0, "number of the broker's process, when it runs on this host: its use of processor, memory and disk is measured")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	f.addSettings(flags)
	return cmd
}

func (f *benchFlags) addSettings(flags *pflag.FlagSet) {
	s := &f.settings
	flags.IntVar(&s.Partitions, "partitions", 0, "partitions of the topic")
	flags.IntVar(&s.Connections, "connections", 0, "connections that produce")
	flags.IntVar(&s.PerRequest, "per-request", 0, "partitions in a produce request, one batch each")
	flags.IntVar(&s.Window, "window", 0, "requests in flight on a connection")
	flags.IntVar(&s.Batch, "batch", 0, "records in a batch")
	flags.IntVar(&s.Size, "size", 0, "bytes of a record's value")
	flags.Float64Var(&s.Rate, "rate", 0, "requests a second, sent when they are due whatever the broker does; 0: as fast as it answers")
	flags.StringVar(&f.bytes, "bytes", "", "payload after which the measured part ends, like 500MB or 4GB")
	flags.DurationVar(&s.Duration, "duration", 0, "time after which the measured part ends")
	flags.DurationVar(&s.Warmup, "warmup", 0, "time before the measured part")
	flags.StringVar(&f.acks, "acks", "", "all, 1 or 0")
	flags.StringVar(&s.Codec, "codec", "", strings.Join(bench.Codecs(), ", "))
	flags.BoolVar(&s.Idempotent, "idempotent", false, "number the batches")
	flags.IntVar(&s.Readers, "readers", 0, "readers, each of which reads everything")
	flags.IntVar(&s.Idle, "idle", 0, "idle connections of S1")
}

// oneWorkload is the argument rule of bench run.
func oneWorkload(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("name one workload: %s WORKLOAD; millrace bench list tells them", cmd.CommandPath())
	}
	if bench.Find(strings.ToUpper(args[0])) == nil {
		return usagef("there is no workload %q; millrace bench list tells them", args[0])
	}
	return nil
}

func (a *App) benchRun(cmd *cobra.Command, workload string, f *benchFlags) error {
	o, err := f.options(cmd.Flags())
	if err != nil {
		return err
	}
	o.Workload, o.Version = strings.ToUpper(workload), a.Version
	if a.Terminal {
		o.Progress = func(s bench.Status) { fmt.Fprintf(a.Err, "\r\033[K%s", statusLine(s)) }
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	result, err := bench.Run(ctx, o)
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
		return a.printJSON(result)
	}
	return a.printBench(result)
}

// options checks what is not a setting's own affair.
func (f *benchFlags) options(flags *pflag.FlagSet) (bench.Options, error) {
	o := bench.Options{BrokerPID: f.pid}
	host, port, err := net.SplitHostPort(f.broker)
	if err != nil {
		host, port = strings.Trim(f.broker, "[]"), "9092"
	}
	if host == "" || port == "" {
		return o, usagef("--broker %q is not HOST:PORT", f.broker)
	}
	o.Broker = net.JoinHostPort(host, port)
	if flags.Changed("broker-pid") && f.pid <= 0 {
		return o, usagef("--broker-pid %d is no process", f.pid)
	}
	if flags.Changed("bytes") {
		if f.settings.Bytes, err = parseSize(f.bytes); err != nil {
			return o, usagef("--bytes: %w", err)
		}
	}
	if flags.Changed("acks") {
		acks, ok := map[string]int{"all": -1, "-1": -1, "1": 1, "0": 0}[f.acks]
		if !ok {
			return o, usagef("--acks %q is none of all, 1, 0", f.acks)
		}
		f.settings.Acks = acks
	}
	own := []string{"broker", "broker-pid", "json", "help"}
	flags.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(own, flag.Name) {
			o.Given = append(o.Given, flag.Name)
		}
	})
	o.Settings = f.settings
	return o, nil
}

// parseSize reads a number of bytes with a unit of 1,000 or, as KiB, of 1,024.
func parseSize(text string) (int64, error) {
	units := []struct {
		name  string
		bytes float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(n*u.bytes >= 1 && n*u.bytes < 1<<62) {
			break
		}
		return int64(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%q is not a number of bytes like 500MB", text)
}

func statusLine(s bench.Status) string {
	name := s.Workload
	if s.Of > 1 {
		name += fmt.Sprintf(" %d/%d", s.Number, s.Of)
	}
	if s.Part != "" {
		name += " " + s.Part
	}
	line := name + ": " + s.Phase
	if s.Elapsed == 0 {
		return line
	}
	line += ", " + size(s.Bytes)
	if s.Total > 0 {
		line += " of " + size(s.Total)
	}
	line += fmt.Sprintf(", %s/s", size(int64(s.BytesPerSecond)))
	if s.Left >= 0 {
		line += fmt.Sprintf(", %v left", s.Left.Round(time.Second))
	}
	return line
}
