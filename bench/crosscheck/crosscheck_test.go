package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		if _, err := parse(args); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	f("")
	f("", "-records", "1000", "-rounds", "1", "-dir", "x")
	f("takes no argument", "x")
	f("-records 5", "-records", "5")
	f("-rounds 0", "-rounds", "0")
}

// TestExternal takes the last rate that a program tells, and says what it said where it fails.
func TestExternal(t *testing.T) {
	f := func(rate *regexp.Regexp, script string, want float64, failure string) {
		t.Helper()
		got, _, err := external(t.Context(), rate, "/bin/sh", "-c", script)
		if got != want || (err == nil) != (failure == "") || err != nil && !strings.Contains(err.Error(), failure) {
			t.Errorf("%s: %v, %v; want %v, %q", script, got, err, want, failure)
		}
	}
	f(javaProduced(), `echo "81 records sent, 16 records/sec (0.02 MB/sec)"; echo "200000 records sent, 28769.4 records/sec (28.10 MB/sec), 900 ms avg latency"`, 28769.4, "")
	f(javaConsumed(), `echo "2026-11-30 08:20:01:100, 2026-11-30 08:20:05:100, 195.3125, 48.8, 200000, 50000.0, 800, 3200, 61.0, 62500.5"`, 62500.5, "")
	f(rdkafkaRate(), `echo "% 200000 messages consumed in 349ms: 573447 msgs/s (587.21 MB/s)"`, 573447, "")
	f(rdkafkaRate(), "echo nothing", 0, "does not tell a rate:\nnothing")
	f(rdkafkaRate(), "echo broken; exit 3", 0, "exit status 3\nbroken")
}

func TestTable(t *testing.T) {
	table := newTable([]client{{name: "one"}, {name: "two"}})
	for i, brokerCPU := range []float64{1.5, 1, 2} {
		table.add(0, figures{float64(100_000 * (i + 1)), brokerCPU, 0.5}, figures{300_000, 0.25, 0.125})
		table.add(1, figures{50_000, brokerCPU * 2, 5}, figures{100_000, 0.5, 2})
	}
	var b strings.Builder
	if err := table.print(&b); err != nil {
		t.Fatal(err)
	}
	want := `CLIENT  DOES     RECORDS/S  MB/S  BROKER CPU S/GB (RANGE)  CLIENT CPU S/GB
one     produce  200000     205   1.5 (1-2)                0.5
two     produce  50000      51    3 (2-4)                  5
one     fetch    300000     307   0.25 (0.25-0.25)         0.125
two     fetch    100000     102   0.5 (0.5-0.5)            2
`
	if b.String() != want {
		t.Errorf("\n%s", b.String())
	}
}

func TestFindProgram(t *testing.T) {
	if _, err := findProgram("no-such-program"); err == nil || !strings.Contains(err.Error(), "there is no no-such-program") {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := findProgram(file); err != nil || got != file {
		t.Errorf("%s %v", got, err)
	}
}
