package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"millrace/bench/compare"
)

func TestBenchCompareUsage(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		code, stdout, errOut := run(t, "", append([]string{"bench", "compare", "--out", out}, args...)...)
		if code != 2 || !strings.Contains(errOut, want) || stdout != "" {
			t.Errorf("%q: code %d, out %q, err %q; want %q", args, code, stdout, errOut, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: the output directory was made", args)
		}
	}
	f("none of kafka, HOST:PORT", "--against", "redpanda")
	f(`"127.0.0.1:" is not HOST:PORT`, "--against", "127.0.0.1:")
	f("is no millrace", "--against", "./no-such-file")
	f("belongs to --against kafka", "--against", "millrace", "--against-home", "x")
	f("belongs to --against HOST:PORT", "--against", "millrace", "--against-pid", "1")
	f("cannot be placed", "--against", "127.0.0.1:9", "--pinned")
	f("S3 kills the broker", "--against", "127.0.0.1:9", "--workloads", "S3")
	f("runs already", "--against", "127.0.0.1:9", "--against-set", "a=b")
	f(`"novalue" is not KEY=VALUE`, "--against", "millrace", "--set", "novalue")
	f(`no workload "P99"`, "--against", "millrace", "--workloads", "P1,P99")
	f("named twice", "--against", "millrace", "--workloads", "P1,p1")
	f("--rounds 0", "--against", "millrace", "--rounds", "0")
	f("exclude each other", "--against", "millrace", "--pinned", "--placement", "both")
	f("none of pinned, unpinned, both", "--against", "millrace", "--placement", "x")
	f("is no directory", "--against", "millrace", "--dir", "/no/such")
	f("--bytes:", "--against", "millrace", "--bytes", "x")
	f("--out is empty", "--against", "millrace", "--out", "")
	f("--warm -1s", "--against", "millrace", "--warm", "-1s")
}

// comparing starts bench compare in a process of its own.
func comparing(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"bench", "compare", "--against", "millrace", "--warm", "0s", "--bytes", "2MB"}, args...)...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestBenchCompare compares millrace with itself: the report is whole, goes on, and nothing else is left.
func TestBenchCompare(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	do := func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		cmd := comparing(t, append([]string{"--out", out}, args...)...)
		var o, e bytes.Buffer
		cmd.Stdout, cmd.Stderr = &o, &e
		_ = cmd.Run() // the code says it
		return cmd.ProcessState.ExitCode(), o.String(), e.String()
	}
	plan := []string{"--workloads", "P1,L1,S3", "--rounds", "2", "--unpinned"}
	code, stdout, stderr := do(append(plan, "--json")...)
	var r compare.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil {
		t.Fatalf("code %d, %v\n%s", code, err, stderr)
	}
	if len(r.Starts) != 4 || !r.Complete || len(r.Latencies) != 1 || r.Host.FileSystem == "" || r.Brokers[1].Name != "millrace again" {
		t.Errorf("%d starts, %d latencies, %+v %+v", len(r.Starts), len(r.Latencies), r.Host, r.Brokers)
	}
	if sides := r.Latencies[0].Sides; sides[0].Count < 2*r.Starts[0].Results[1].Parts[0].Latencies[0].Count/2 || sides[0].P9999 == 0 || sides[1].Count == 0 {
		t.Errorf("latencies are not pooled: %+v", sides)
	}
	seen := map[string]bool{}
	for _, row := range r.Rows {
		if row.Verdict != compare.TooFew && row.Verdict != compare.NoFigures || len(row.A) != 2 || len(row.B) != 2 {
			t.Errorf("%+v", row)
		}
		seen[row.Workload+" "+row.Metric] = true
	}
	for _, want := range []string{"P1 throughput", "P1 broker CPU", "P1 memory, peak", "L1 produce p99", "S3 ready after SIGKILL", "start start to ready, empty"} {
		if !seen[want] {
			t.Errorf("no row %q in %v", want, seen)
		}
	}
	if got := names(t, out); !slices.Equal(got, []string{compare.PageFile, compare.ReportFile, compare.ChartFile}) {
		t.Errorf("left: %v", got)
	}
	if code, _, stderr = do(plan...); code != 2 || !strings.Contains(stderr, "--resume") {
		t.Errorf("over an earlier comparison: code %d, %s", code, stderr)
	}
	if code, _, stderr = do(append(plan, "--resume", "--rounds", "3")...); code != 2 || !strings.Contains(stderr, "rounds: 2 then, 3 now") {
		t.Errorf("another plan: code %d, %s", code, stderr)
	}
	// One start is taken away; it alone is done again.
	r.Starts = r.Starts[:3]
	raw, _ := json.Marshal(r)
	if err := os.WriteFile(filepath.Join(out, compare.ReportFile), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = do(append(plan, "--resume")...)
	if code != 0 || strings.Count(stderr, "starting") != 1 || !strings.Contains(stdout, "too few rounds for a verdict") || !strings.Contains(stdout, "acknowledged means") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
}

// TestBenchCompareRunning compares with a broker that runs already, and leaves it as it was.
func TestBenchCompareRunning(t *testing.T) {
	c := serve(t, filepath.Join(t.TempDir(), "data"))
	out := filepath.Join(t.TempDir(), "out")
	cmd := comparing(t, "--against", c.address, "--against-pid", strconv.Itoa(c.cmd.Process.Pid), "--workloads", "P1", "--rounds", "2", "--warm", "60ms", "--bytes", "20MB", "--out", out, "--json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the code says it
	var r compare.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); cmd.ProcessState.ExitCode() != 0 || err != nil {
		t.Fatalf("code %d, %v\n%s", cmd.ProcessState.ExitCode(), err, stderr.String())
	}
	if r.Brokers[1].Owned || r.Brokers[1].Name != c.address || r.Plan.Placements[0] != compare.Unpinned {
		t.Errorf("%+v %+v", r.Brokers[1], r.Plan)
	}
	for _, row := range r.Rows {
		if row.Workload == "start" && row.Verdict != compare.NoFigures || row.Metric == compare.MetricMemory && len(row.B) != 2 {
			t.Errorf("%+v", row)
		}
	}
	if left := topicsOf(t, c.address); len(left) != 0 {
		t.Errorf("topics %v are left", left)
	}
	if err := c.end(syscall.SIGTERM); err != nil {
		t.Errorf("the broker was not left alone: %v", err)
	}
}

// processesOf returns the brokers whose command line names a directory.
func processesOf(t *testing.T, dir string) []int {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var all []int
	for _, file := range files {
		raw, _ := os.ReadFile(file) // it may have ended
		if bytes.Contains(raw, []byte("serve\x00")) && bytes.Contains(raw, []byte(dir)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			all = append(all, pid)
		}
	}
	return all
}

// TestBenchCompareEnds holds that nothing is left of brokers and files after Ctrl-C and after a broker died.
func TestBenchCompareEnds(t *testing.T) {
	f := func(want string, do func(cmd *exec.Cmd, brokers []int)) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		cmd := comparing(t, "--out", out, "--workloads", "L1", "--rounds", "1", "--bytes", "4GB")
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			stderr.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "millrace L1") {
				do(cmd, processesOf(t, out))
			}
		}
		_ = cmd.Wait() // the code says it
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stderr.String(), want) {
			t.Errorf("code %d, want %q, got %s", code, want, stderr.String())
		}
		if left := processesOf(t, out); len(left) != 0 {
			t.Errorf("processes %v are left", left)
		}
		if left := names(t, out); len(left) != 0 {
			t.Errorf("files %v are left", left)
		}
	}
	f("round 1, pinned, millrace: interrupted", func(cmd *exec.Cmd, brokers []int) {
		if len(brokers) != 1 {
			t.Errorf("brokers %v", brokers)
		}
		cmd.Process.Signal(os.Interrupt)
	})
	f("the end of millrace's log", func(_ *exec.Cmd, brokers []int) {
		for _, pid := range brokers {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// TestBenchChart draws from a report, and says what is none.
func TestBenchChart(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "compare.json"), filepath.Join(dir, "x.svg")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := func(want int, say string, args ...string) {
		t.Helper()
		if code, stdout, errOut := run(t, "", append([]string{"bench", "chart"}, args...)...); code != want || !strings.Contains(stdout+errOut, say) {
			t.Errorf("%q: code %d, %s%s; want %d, %q", args, code, stdout, errOut, want, say)
		}
	}
	f(2, "name the JSON of one comparison")
	f(1, "no such file", file)
	write(`{"format": 1}`)
	f(1, "is no comparison of two brokers", file)
	write(`{"format": 1, "plan": {"placements": ["pinned"], "rounds": 3}, "brokers": [{"name": "one"}, {"name": "two"}],
		"rows": [{"workload": "P1", "placement": "pinned", "metric": "throughput", "unit": "MB/s", "median_a": 2, "median_b": 1, "ratio": 2, "ratio_low": 1, "ratio_high": 3}]}`)
	f(0, "2 (1-3)", file)
	f(0, "", file, "--out", out)
	if raw, err := os.ReadFile(out); err != nil || !strings.HasPrefix(string(raw), "<svg") {
		t.Errorf("%s %v", raw, err)
	}
}
