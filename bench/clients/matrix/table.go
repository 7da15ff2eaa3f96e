package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const intro = `# Other people's clients

Unmodified clients and the test suites of clients judge this broker. Written by ` + "`make test-clients`" + `; do not edit.

` + "`make test-clients`" + ` builds the broker and runs everything below against it on localhost:9092, which is where kafka-go's
tests look for one; it needs Go, make, gcc, g++, Python, Node, Java and Maven, fetches the rest from the package registries
once (into ~/.cache/millrace-clients), and fails when a test fails that bench/clients/reasons.txt does not explain. A test
that needs an API which the broker does not advertise is not run, and runs by itself once the broker does. A part of it, or
another broker's column:

    MILLRACE=$PWD/bin/millrace bench/clients/run.sh -match TestPooling
    BROKER="Apache Kafka 4.4" ADDR=localhost:9092 OUT=results/apache-kafka.json bench/clients/run.sh

The run takes about twenty minutes on two cores. Where port 9092 is taken it makes a network namespace of its own, if it may.
kafka-go's tests and the scripts count on num.partitions=1, the other suites on 4. Apache Kafka ran as one node with every
replication factor 1, without SASL and authorizer.

| suite | what it is |
|---|---|
| kgo | franz-go's own tests (Go), produce, fetch, metadata and admin, then groups and transactions |
| kafka-go | segmentio/kafka-go's own tests (Go), which speak old versions |
| librdkafka | librdkafka's own tests (C), the numbers that make sense against one broker |
| idempotent | the same, every producer idempotent |
| consumer | the same, every group of the consumer protocol (KIP-848) |
| scripts | bench/clients/scripts: kafkajs, confluent-kafka, kafka-python, aiokafka, kcat 1.7.1 (librdkafka 2.0.2) and Apache Kafka's command-line tools, each checking values, headers, timestamps and offsets; groups of each of them with a member killed, and ConsumerGroupCommand |

`

// results of one test, by broker.
type row struct {
	suite, test string
	by          map[string]Result
}

// table joins the reports into one markdown page: the counts, the tests that do not pass everywhere with the reason,
// and all tests. It is an error when a test of the first report fails and reasons.txt has no word on it.
func table(w io.Writer, paths []string) error {
	if len(paths) == 0 {
		return fmt.Errorf("table wants result files")
	}
	reasons, err := readReasons(filepath.Join(filepath.Dir(paths[0]), "..", "reasons.txt"))
	if err != nil {
		return err
	}
	var brokers []string
	var rows []row
	for _, path := range paths {
		report, err := readReport(path)
		if err != nil {
			return err
		}
		brokers = append(brokers, report.Broker)
		for _, r := range report.Results {
			i := slices.IndexFunc(rows, func(t row) bool { return t.suite == r.Suite && t.test == r.Test })
			if i < 0 {
				i, rows = len(rows), append(rows, row{r.Suite, r.Test, map[string]Result{}})
			}
			rows[i].by[report.Broker] = r
		}
	}
	order := []string{"kgo", "kafka-go", "librdkafka", "idempotent", "scripts"}
	slices.SortStableFunc(rows, func(a, b row) int { return slices.Index(order, a.suite) - slices.Index(order, b.suite) })
	fmt.Fprint(w, intro)
	summary(w, brokers, rows)
	fmt.Fprint(w, "\n## What does not pass everywhere\n\n")
	head(w, brokers, "reason")
	var unexplained []string
	for _, t := range rows {
		name := t.suite + " " + t.test
		if !t.passes(brokers) {
			fmt.Fprintf(w, "%s %s |\n", t.cells(brokers), strings.ReplaceAll(t.why(brokers, reasons[name]), "|", "\\|"))
		}
		if t.by[brokers[0]].Outcome == "fail" && reasons[name] == "" {
			unexplained = append(unexplained, name)
		}
		if t.passes(brokers) && reasons[name] != "" {
			fmt.Fprintf(os.Stderr, "reasons.txt explains %s, which passes\n", name)
		}
	}
	fmt.Fprint(w, "\n## Every test\n\n")
	head(w, brokers, "")
	for _, t := range rows {
		fmt.Fprintf(w, "%s\n", t.cells(brokers))
	}
	if len(unexplained) > 0 {
		return fmt.Errorf("%d tests fail without a reason in reasons.txt: %s", len(unexplained), strings.Join(unexplained, ", "))
	}
	return nil
}

func head(w io.Writer, brokers []string, last string) {
	columns := append([]string{"suite", "test"}, brokers...)
	if last != "" {
		columns = append(columns, last)
	}
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

func (t row) cells(brokers []string) string {
	text := fmt.Sprintf("| %s | %s |", t.suite, t.test)
	for _, broker := range brokers {
		outcome := t.by[broker].Outcome
		if outcome == "" {
			outcome = "-"
		}
		text += " " + outcome + " |"
	}
	return text
}

func (t row) passes(brokers []string) bool {
	for _, broker := range brokers {
		if t.by[broker].Outcome != "pass" {
			return false
		}
	}
	return true
}

// why joins what the first broker lacks and what is known; without either, the test's own last words.
func (t row) why(brokers []string, known string) string {
	var parts []string
	if first := t.by[brokers[0]]; first.Outcome == "not run" {
		parts = append(parts, first.Reason)
	}
	if known != "" {
		parts = append(parts, known)
	}
	for _, broker := range brokers {
		if r := t.by[broker]; len(parts) == 0 && r.Outcome != "pass" {
			parts = append(parts, firstLine(r.Reason))
		}
	}
	return strings.Join(parts, "; ")
}

// summary counts by suite and broker.
func summary(w io.Writer, brokers []string, rows []row) {
	fmt.Fprint(w, "| suite | tests | broker | passed | failed | skip themselves | not run |\n|---|--:|---|--:|--:|--:|--:|\n")
	for at := 0; at < len(rows); {
		suite, end := rows[at].suite, at
		counts := map[string]map[string]int{}
		for ; end < len(rows) && rows[end].suite == suite; end++ {
			for broker := range maps.Keys(rows[end].by) {
				if counts[broker] == nil {
					counts[broker] = map[string]int{}
				}
				counts[broker][rows[end].by[broker].Outcome]++
			}
		}
		for _, broker := range brokers {
			if c := counts[broker]; c != nil {
				fmt.Fprintf(w, "| %s | %d | %s | %d | %d | %d | %d |\n", suite, end-at, broker, c["pass"], c["fail"], c["skip"], c["not run"])
			}
		}
		at = end
	}
}

// readReasons reads "SUITE TEST: reason" lines; a missing file has none.
func readReasons(path string) (map[string]string, error) {
	reasons := map[string]string{}
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return reasons, nil
	}
	for line := range strings.Lines(string(raw)) {
		name, reason, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok && !strings.HasPrefix(name, "#") {
			reasons[name] = reason
		}
	}
	return reasons, err
}
