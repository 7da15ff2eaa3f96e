// Command matrix runs other people's test suites and client scripts against one broker and writes what came out.
//
//	matrix run   -broker NAME -addr HOST:PORT [-suites kgo,kafka-go,librdkafka,idempotent,scripts] -out FILE.json
//	matrix join  FILE.json... > FILE.json          reports of one broker as one; of two results of a test the later stands
//	matrix table FILE.json... > docs/clients.md    exits 1 when a test of the first report fails without a reason
//
// run wants the broker up, with num.partitions=4 and an advertised address that is ADDR, and runs what the APIs that the
// broker advertises allow. reasons.txt explains what does not pass, one line each: "SUITE TEST: reason".
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Result is the outcome of one test against one broker.
type Result struct {
	Suite, Test string
	Outcome     string // pass, fail, skip, not run
	Reason      string
	Needs       string // what the broker must have for it (see abilities), or ""
	Seconds     float64
}

// Report is what one run leaves.
type Report struct {
	Broker  string
	Results []Result
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "matrix run|join|table, see the command's comment")
		os.Exit(2)
	}
	var err error
	switch os.Args[1] {
	case "run":
		err = run(os.Args[2:])
	case "join":
		err = join(os.Args[2:])
	case "table":
		err = table(os.Stdout, os.Args[2:])
	default:
		err = fmt.Errorf("no command %q", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	name := flags.String("broker", "millrace", "name of the broker's column")
	addr := flags.String("addr", "localhost:9092", "its address")
	only := flags.String("suites", "", "comma-separated suites, all if empty")
	with := flags.String("with", "", "comma-separated abilities of the broker that its ApiVersions does not tell: sasl, acls")
	match := flags.String("match", "", "only tests whose name matches this regular expression")
	out := flags.String("out", "", "file for the results")
	dir := flags.String("dir", ".", "this module's directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*match)
	if err != nil {
		return err
	}
	have, err := abilities(*addr)
	if err != nil {
		return err
	}
	have = append(have, strings.Split(*with, ",")...)
	report := Report{Broker: *name}
	for _, suite := range suites(*dir, *addr) {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), suite.name) {
			continue
		}
		for _, test := range suite.tests() {
			if !wanted.MatchString(test.name) {
				continue
			}
			began := time.Now()
			r := Result{Suite: suite.name, Test: test.name, Needs: test.needs}
			if test.needs != "" && !slices.Contains(have, test.needs) {
				r.Outcome, r.Reason = "not run", "needs "+test.needs
			} else {
				r.Outcome, r.Reason = test.run()
			}
			r.Seconds = float64(time.Since(began).Round(10*time.Millisecond)) / 1e9
			report.Results = append(report.Results, r)
			fmt.Printf("%-8s %-10s %-50s %6.2f s  %s\n", r.Outcome, r.Suite, r.Test, r.Seconds, firstLine(r.Reason))
		}
	}
	return finish(report, *out)
}

// abilities tells by the APIs that the broker advertises what tests may ask of it.
func abilities(addr string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	versions, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return nil, err
	}
	of := map[int16]string{11: "groups", 24: "transactions", 43: "elections", 45: "reassignments", 49: "quotas", 51: "scram", 68: "consumer groups"}
	var have []string
	for key, ability := range of {
		for _, broker := range versions {
			if _, _, ok := broker.KeyVersions(key); ok {
				have = append(have, ability)
			}
		}
	}
	return have, nil
}

// finish writes the report, and prints the counts by suite.
func finish(report Report, path string) error {
	failed := 0
	counts := map[string]map[string]int{}
	var order []string
	for _, r := range report.Results {
		if counts[r.Suite] == nil {
			counts[r.Suite] = map[string]int{}
			order = append(order, r.Suite)
		}
		counts[r.Suite][r.Outcome]++
		if r.Outcome == "fail" {
			failed++
		}
	}
	for _, suite := range order {
		c := counts[suite]
		fmt.Printf("%s: %d passed, %d failed, %d skipped, %d not run\n", suite, c["pass"], c["fail"], c["skip"], c["not run"])
	}
	if path == "" {
		return nil
	}
	raw, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// join writes the reports as one to standard output, with the name of the first.
func join(paths []string) error {
	var all Report
	for _, path := range paths {
		report, err := readReport(path)
		if err != nil {
			return err
		}
		if all.Broker == "" {
			all.Broker = report.Broker
		}
		for _, r := range report.Results {
			same := func(s Result) bool { return s.Suite == r.Suite && s.Test == r.Test }
			if i := slices.IndexFunc(all.Results, same); i >= 0 {
				all.Results[i] = r
			} else {
				all.Results = append(all.Results, r)
			}
		}
	}
	raw, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(raw))
	return err
}

func readReport(path string) (Report, error) {
	var report Report
	raw, err := os.ReadFile(path)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return report, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line[:min(len(line), 120)]
}
