package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// table joins the reports into one markdown table: suite, test, a column a broker, and the reason for what does not pass.
func table(w io.Writer, paths []string) error {
	if len(paths) == 0 {
		return fmt.Errorf("table wants result files")
	}
	reasons, err := readReasons(filepath.Join(filepath.Dir(paths[0]), "..", "reasons.txt"))
	if err != nil {
		return err
	}
	type key struct{ suite, test string }
	var brokers []string
	var order []key
	results := map[key]map[string]Result{}
	for _, path := range paths {
		report, err := readReport(path)
		if err != nil {
			return err
		}
		brokers = append(brokers, report.Broker)
		for _, r := range report.Results {
			k := key{r.Suite, r.Test}
			if results[k] == nil {
				results[k] = map[string]Result{}
				order = append(order, k)
			}
			results[k][report.Broker] = r
		}
	}
	fmt.Fprint(w, "# Other people's clients\n\nWritten by `make test-clients` (`bench/clients/matrix table`); do not edit.\n\n")
	summary(w, brokers, func(yield func(Result, string)) {
		for _, k := range order {
			for _, broker := range brokers {
				yield(results[k][broker], broker)
			}
		}
	})
	fmt.Fprintf(w, "\n## Every test\n\n| suite | test | %s | reason |\n|---|---|%s---|\n", strings.Join(brokers, " | "), strings.Repeat("---|", len(brokers)))
	for _, k := range order {
		var cells []string
		reason := reasons[k.suite+" "+k.test]
		for _, broker := range brokers {
			r, ok := results[k][broker]
			if !ok {
				r.Outcome = "-"
			}
			cells = append(cells, r.Outcome)
			if reason == "" && r.Outcome != "pass" {
				reason = firstLine(r.Reason)
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", k.suite, k.test, strings.Join(cells, " | "), strings.ReplaceAll(reason, "|", "\\|"))
	}
	return nil
}

// summary counts by suite and broker.
func summary(w io.Writer, brokers []string, each func(yield func(Result, string))) {
	type key struct{ suite, broker string }
	counts := map[key]map[string]int{}
	var order []string
	each(func(r Result, broker string) {
		if r.Suite == "" {
			return
		}
		k := key{r.Suite, broker}
		if counts[k] == nil {
			counts[k] = map[string]int{}
		}
		counts[k][r.Outcome]++
		if len(order) == 0 || order[len(order)-1] != r.Suite {
			order = append(order, r.Suite)
		}
	})
	fmt.Fprint(w, "| suite | broker | passed | failed | skip themselves | not run |\n|---|---|--:|--:|--:|--:|\n")
	for _, suite := range order {
		for _, broker := range brokers {
			if c := counts[key{suite, broker}]; c != nil {
				fmt.Fprintf(w, "| %s | %s | %d | %d | %d | %d |\n", suite, broker, c["pass"], c["fail"], c["skip"], c["not run"])
			}
		}
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
