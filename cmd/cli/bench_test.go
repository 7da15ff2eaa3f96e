package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench"
)

func TestBenchUsage(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		code, out, errOut := run(t, "", append([]string{"bench"}, args...)...)
		if code != 2 || !strings.Contains(errOut, want) || out != "" {
			t.Errorf("%q: code %d, out %q, err %q; want %q", args, code, out, errOut, want)
		}
	}
	f("name what to do: list, run, compare or chart")
	f("name one workload", "run")
	f(`no workload "P99"`, "run", "P99")
	f(`--bytes: "many" is not a number of bytes`, "run", "P1", "--bytes", "many")
	f(`--acks "2" is none of`, "run", "P1", "--acks", "2")
	f(`--broker ":1" is not HOST:PORT`, "run", "P1", "--broker", ":1")
	f("--broker-pid 0", "run", "P1", "--broker-pid", "0")
	f("--broker-pid: process 1073741824: the process has ended", "run", "P1", "--broker-pid", "1073741824")
	f("--rate means nothing for F1", "run", "F1", "--rate", "5")
	f("which only bench compare can", "run", "S3")
	f("needs --acks all", "run", "p1", "--idempotent", "--acks", "1")
	f("cannot be looked at from here", "run", "P1", "--broker", "192.0.2.1:9092", "--broker-pid", "1")
}

func TestParseSize(t *testing.T) {
	f := func(text string, want int64) {
		t.Helper()
		if got, err := parseSize(text); got != want || (err != nil) != (want == 0) {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	f("1", 1)
	f("4GB", 4_000_000_000)
	f("1.5MB", 1_500_000)
	f("64 KiB", 65536)
	f("7B", 7)
	f("", 0)
	f("-1", 0)
	f("0", 0)
	f("1e300", 0)
	f("5XB", 0)
}

func TestBenchList(t *testing.T) {
	code, out, _ := run(t, "", "bench", "list")
	if code != 0 || strings.Count(out, "\n") != len(bench.Workloads()) || !strings.HasPrefix(out, "P1  produce, saturated") {
		t.Errorf("code %d, %s", code, out)
	}
	var rows []map[string]string
	if code, out, _ = run(t, "", "bench", "list", "--json"); code != 0 || json.Unmarshal([]byte(out), &rows) != nil || rows[0]["workload"] != "P1" {
		t.Errorf("code %d, %s", code, out)
	}
}

// TestBenchRun runs every workload small, and holds that nothing is left.
func TestBenchRun(t *testing.T) {
	c := serve(t, filepath.Join(t.TempDir(), "data"), "--set", "group.initial.rebalance.delay.ms=0")
	saturated := []string{"--bytes", "2MB", "--warmup", "20ms"}
	rated := []string{"--duration", "200ms", "--warmup", "20ms"}
	f := func(workload string, parts int, args ...string) []*bench.Figures {
		t.Helper()
		args = append([]string{"bench", "run", workload, "--json", "--broker", c.address, "--broker-pid", strconv.Itoa(c.cmd.Process.Pid)}, args...)
		code, out, errOut := run(t, "", args...)
		var r bench.Result
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || errOut != "" {
			t.Fatalf("%q: code %d, %v, %s", args, code, err, errOut)
		}
		if r.Workload != workload || len(r.Parts) != parts || r.Host.Kernel == "" || r.Host.BrokerCPUs == "" {
			t.Errorf("%s: %d parts, want %d; %+v", workload, len(r.Parts), parts, r.Host)
		}
		for _, p := range r.Parts {
			if p.Seconds <= 0 || p.Broker == nil || p.Broker.MemoryPeakBytes == 0 || len(p.Latencies) == 0 && p.Settings.Readers == 0 && p.Settings.Acks != 0 {
				t.Errorf("%s %s: %+v", workload, p.Part, p)
			}
			if p.Produced != nil && (p.Produced.Records == 0 || p.Verified == 0 || p.Durability == "") {
				t.Errorf("%s %s: produced %+v, %d verified", workload, p.Part, p.Produced, p.Verified)
			}
		}
		return r.Parts
	}
	for _, workload := range []string{"P1", "P2", "P4", "P6"} {
		if p := f(workload, 1, saturated...)[0]; p.Produced.PayloadBytes < 2_000_000 {
			t.Errorf("%s: %d bytes", workload, p.Produced.PayloadBytes)
		}
	}
	f("P1", 1, append(saturated, "--acks", "0")...)
	f("P1", 1, append(saturated, "--connections", "3", "--acks", "1")...)
	for _, p := range f("P5", 2, saturated...) {
		if p.Produced.SentBytes > p.Produced.PayloadBytes/2 {
			t.Errorf("%s: %d bytes sent of %d", p.Part, p.Produced.SentBytes, p.Produced.PayloadBytes)
		}
	}
	f("P5", 1, append(saturated, "--codec", "snappy")...)
	f("P5", 1, append(saturated, "--codec", "gzip")...)
	f("P7", 2, "--bytes", "200kB", "--warmup", "20ms")
	f("P3", 2, rated...)
	if p := f("L1", 1, rated...)[0]; p.Produced.Requests == 0 || len(p.Latencies) != 2 {
		t.Errorf("L1: %+v", p.Produced)
	}
	for _, p := range f("L2", 2, rated...) {
		if p.Latencies[2].Of != "due to received" || p.Latencies[2].Count == 0 || p.Fetched.Records == 0 {
			t.Errorf("L2: %+v %+v", p.Fetched, p.Latencies)
		}
	}
	for _, p := range f("F1", 4, saturated...) {
		if p.Fetched.PayloadBytes < 2_000_000 || p.Fetched.ReceivedBytes < p.Fetched.PayloadBytes {
			t.Errorf("F1 %s: %+v", p.Part, p.Fetched)
		}
	}
	f("F1", 2, append(saturated, "--size", "100", "--batch", "100", "--partitions", "3", "--codec", "lz4")...)
	f("F3", 1, saturated...)
	if p := f("M1", 2, saturated...); p[1].Fetched == nil || p[0].Fetched != nil {
		t.Errorf("M1: %+v", p)
	}
	if p := f("S1", 1, append(rated, "--connections", "50", "--idle", "100")...)[0]; len(p.Extras) != 3 || p.Extras[0].Value != 100 {
		t.Errorf("S1: %+v", p.Extras)
	}
	if p := f("S2", 2, append(saturated, "--partitions", "1100")...)[0]; len(p.Extras) != 4 {
		t.Errorf("S2: %+v", p.Extras)
	}
	if p := f("G1", 1, append(rated, "--connections", "5", "--partitions", "6")...)[0]; len(p.Extras) != 4 || p.Extras[1].Value <= 0 || p.Extras[3].Value <= 0 || p.Fetched != nil {
		t.Errorf("G1: %+v", p)
	}
	if left := topicsOf(t, c.address); len(left) != 0 {
		t.Errorf("topics %v are left", left)
	}
	if left := groupsOf(t, c.address); len(left) != 0 {
		t.Errorf("groups %v are left", left)
	}
	code, out, errOut := run(t, "", append([]string{"bench", "run", "P3", "--broker", c.address}, rated...)...)
	if code != 0 || !strings.Contains(out, "sent after due p99") || strings.Contains(out, "broker CPU") || !strings.Contains(out, "\nacknowledged means: written") {
		t.Errorf("code %d, %s%s", code, out, errOut)
	}
	benchCold(t, c)
	c.end(syscall.SIGTERM)
}

// benchCold runs F2 without emptying the page cache of the host that the tests run on.
func benchCold(t *testing.T, c *child) {
	t.Helper()
	drops := 0
	r, err := bench.Run(t.Context(), bench.Options{Workload: "F2", Broker: c.address, BrokerPID: c.cmd.Process.Pid,
		Given: []string{"bytes", "warmup"}, Settings: bench.Settings{Bytes: 2_000_000},
		DropCaches: func() error { drops++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if drops != 2 || len(r.Parts) != 3 || r.Parts[0].Fetched.PayloadBytes < 2_000_000 || r.Parts[2].Produced == nil || r.Parts[2].Fetched == nil {
		t.Errorf("%d drops, %d parts: %+v", drops, len(r.Parts), r.Parts)
	}
	if !strings.Contains(strings.Join(r.Parts[0].Notes, "\n"), "not cold") {
		t.Errorf("a fetch from the page cache passes for a cold one: %v", r.Parts[0].Notes)
	}
}

func topicsOf(t *testing.T, address string) []string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return listed.Names()
}

func groupsOf(t *testing.T, address string) []string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return listed.Groups()
}

// benchProcess runs bench in a process of its own, and ends it or the broker by do once a topic is there.
func benchProcess(t *testing.T, c *child, do func(cmd *exec.Cmd), args ...string) (code int, errOut string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"bench", "run", "--broker", c.address, "--broker-pid", strconv.Itoa(c.cmd.Process.Pid)}, args...)...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	var e bytes.Buffer
	cmd.Stderr = &e
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	for len(topicsOf(t, c.address)) == 0 {
		select {
		case <-ended:
			t.Fatalf("bench ended: %s", e.String())
		default:
		}
	}
	do(cmd)
	<-ended
	return cmd.ProcessState.ExitCode(), e.String()
}

// TestBenchInterrupted holds that Ctrl-C leaves no topic.
func TestBenchInterrupted(t *testing.T) {
	c := serve(t, filepath.Join(t.TempDir(), "data"))
	for _, workload := range []string{"L1", "P1", "F3", "G1"} {
		code, errOut := benchProcess(t, c, func(cmd *exec.Cmd) { cmd.Process.Signal(os.Interrupt) }, workload, "--duration", "5m")
		if code != 1 || !strings.Contains(errOut, workload+": interrupted") {
			t.Errorf("%s: code %d, %s", workload, code, errOut)
		}
		if left := topicsOf(t, c.address); len(left) != 0 {
			t.Errorf("%s: topics %v are left", workload, left)
		}
	}
	c.end(syscall.SIGTERM)
}

// TestBenchBrokerDies holds that a broker which dies under load is said to have.
func TestBenchBrokerDies(t *testing.T) {
	c := serve(t, filepath.Join(t.TempDir(), "data"))
	code, errOut := benchProcess(t, c, func(*exec.Cmd) { c.end(syscall.SIGKILL) }, "L1", "--duration", "5m")
	if code != 1 || !strings.Contains(errOut, "the broker has died") && !strings.Contains(errOut, "the process has ended") {
		t.Errorf("code %d, %s", code, errOut)
	}
}
