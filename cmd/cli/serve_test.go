package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/meta/config"
)

// childVariable makes this test binary a millrace: its arguments are a command line.
const childVariable = "MILLRACE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(Main("test"))
	}
	os.Exit(m.Run())
}

// child is a broker in a process of its own.
type child struct {
	t       *testing.T
	cmd     *exec.Cmd
	mu      sync.Mutex
	log     strings.Builder
	ready   chan struct{}
	done    chan struct{} // closed when the process has ended and its log is read
	address string
}

// serve starts a broker on dir and returns when it says that it is ready.
func serve(t *testing.T, dir string, args ...string) *child {
	t.Helper()
	c := &child{t: t, ready: make(chan struct{}), done: make(chan struct{})}
	args = append([]string{"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--set", "millrace.admin.listen=127.0.0.1:0"}, args...)
	c.cmd = exec.Command(os.Args[0], args...)
	c.cmd.Env = append(os.Environ(), childVariable+"=1")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.read(bufio.NewScanner(stderr))
	select {
	case <-c.ready:
	case <-c.done:
		t.Fatalf("the broker ended:\n%s", c.text())
	case <-time.After(30 * time.Second):
		t.Fatalf("the broker is not ready:\n%s", c.text())
	}
	return c
}

func (c *child) read(lines *bufio.Scanner) {
	defer close(c.done)
	for lines.Scan() {
		c.mu.Lock()
		c.log.WriteString(lines.Text() + "\n")
		c.mu.Unlock()
		var line struct{ Msg, Listeners string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "broker ready" {
			c.address = line.Listeners
			close(c.ready)
		}
	}
}

func (c *child) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// end sends a signal and returns what the process ended with.
func (c *child) end(signal syscall.Signal) error {
	c.t.Helper()
	if err := c.cmd.Process.Signal(signal); err != nil {
		c.t.Fatal(err)
	}
	select {
	case <-c.done:
	case <-time.After(30 * time.Second):
		c.cmd.Process.Kill()
		c.t.Fatalf("the broker does not end:\n%s", c.text())
	}
	return c.cmd.Wait()
}

// TestServeKilled kills the broker while a producer runs: after the next start all that was acknowledged is
// there, once, in order and without a gap.
func TestServeKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	acknowledged := 0
	for round := range 3 {
		c := serve(t, dir)
		checkNumbers(t, c.address, acknowledged)
		total := produceUntilKilled(t, c, int64(2000*(round+1)))
		if total < acknowledged {
			t.Fatalf("round %d: the log ended at %d, %d were acknowledged", round, total, acknowledged)
		}
		acknowledged = total
	}
	c := serve(t, dir)
	checkNumbers(t, c.address, acknowledged)
	if err := c.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, c.text())
	}
	if !strings.Contains(c.text(), "leader epochs raised") {
		t.Errorf("no leader epoch was raised after a kill:\n%s", c.text())
	}
	c = serve(t, dir)
	checkNumbers(t, c.address, acknowledged)
	if strings.Contains(c.text(), "leader epochs raised") {
		t.Errorf("leader epochs were raised after a clean stop:\n%s", c.text())
	}
	if err := c.end(syscall.SIGINT); err != nil {
		t.Errorf("SIGINT: %v", err)
	}
}

// produceUntilKilled appends numbers in the order of their offsets, kills the broker after so many
// acknowledgements, and returns how many records the log is known to hold.
func produceUntilKilled(t *testing.T, c *child, kill int64) int {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.address), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("numbers"),
		kgo.ProducerLinger(0), kgo.MaxBufferedRecords(1000))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var count, last atomic.Int64
	killed := make(chan struct{})
	go func() {
		<-killed
		c.end(syscall.SIGKILL)
		cancel()
	}()
	for ctx.Err() == nil {
		client.Produce(ctx, &kgo.Record{Value: []byte("number")}, func(r *kgo.Record, err error) {
			if err != nil {
				return
			}
			if last.Load() < r.Offset+1 {
				last.Store(r.Offset + 1)
			}
			if count.Add(1) == kill {
				close(killed)
			}
		})
	}
	<-c.done
	client.Close()
	return int(last.Load())
}

// checkNumbers reads the topic up to the last acknowledged record.
func checkNumbers(t *testing.T, address string, acknowledged int) {
	t.Helper()
	if acknowledged == 0 {
		return
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"numbers": {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for next := int64(0); next < int64(acknowledged); {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %d of %d records: %v", next, acknowledged, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next || string(r.Value) != "number" {
				t.Errorf("offset %d holds %q, want offset %d", r.Offset, r.Value, next)
			}
			next++
		})
	}
}

// TestCommands runs the commands one after the other against one broker.
func TestCommands(t *testing.T) {
	c := serve(t, filepath.Join(t.TempDir(), "data"))
	f := func(code int, in, out, errOut string, args ...string) {
		t.Helper()
		gotCode, gotOut, gotErr := run(t, in, append(args, "--broker", c.address)...)
		if gotCode != code || gotOut != out || !strings.Contains(gotErr, errOut) {
			t.Errorf("%q: code %d, want %d\nout  %q\nwant %q\nerr  %q, want %q", args, gotCode, code, gotOut, out, gotErr, errOut)
		}
	}
	f(0, "", "TOPIC  PARTITIONS  REPLICAS\n", "", "topic", "list")
	f(0, "", "created a, 3 partitions\n", "", "topic", "create", "a", "-p", "3", "-c", "retention.ms=60000")
	f(1, "", "", "TOPIC_ALREADY_EXISTS", "topic", "create", "a")
	f(0, "", "kept a\n", "", "topic", "create", "a", "--if-not-exists")
	f(1, "", "", "topic b: INVALID_CONFIG", "topic", "create", "b", "-c", "retention.ms=soon")
	f(1, "", "", "a name has 1 to 249", "topic", "create", "no/slash")
	f(0, "", "would create b, 1 partition\n", "", "topic", "create", "b", "--validate-only")
	f(0, "", "altered a\n", "", "topic", "alter", "a", "-p", "4", "-c", "flush.messages=1", "--delete-config", "retention.ms")
	f(1, "", "", "the number of partitions", "topic", "alter", "a", "-p", "2")
	f(1, "", "", "no such topic", "topic", "alter", "none", "-p", "2")
	f(0, "", "TOPIC  PARTITIONS  REPLICAS\na      4           1\n", "", "topic", "list")

	f(0, "one\ntwo\n", "", "produced 2 records", "produce", "a", "-p", "1")
	f(0, "k:three\n", "", "produced 1 record", "produce", "a", "-p", "1", "-K", ":", "-H", "h=x", "-H", "h=", "--timestamp", "1700000000123", "--codec", "zstd")
	f(1, "x\n", "", "topic a has no partition 9: it has 4 partitions", "produce", "a", "-p", "9")
	f(0, `{"key":null,"value":"","partition":2,"timestamp":5}{"key":"","value_base64":"/w==","partition":2,"timestamp":6}`, "", "produced 2", "produce", "a", "-f", "json", "--acks", "1")
	f(1, `{"value":"x","partition":3}{"value":`, "", "input record 2, line 1", "produce", "a", "-f", "json")
	f(0, "", "one\ntwo\nthree\n", "", "consume", "a", "-p", "1")
	f(0, "", "|two\n", "", "consume", "a", "-p", "1", "--from", "1", "-n", "1", "-K", "|")
	f(0, "", "k|three\n", "", "consume", "a", "-p", "1", "--from", "-1", "-K", "|")
	f(0, "", "", "", "consume", "a", "-p", "1", "--from", "end")
	f(0, "", "", "", "consume", "a", "-p", "0")
	f(1, "", "", "topic a partition 1 has offsets 0 to 3, not 4", "consume", "a", "-p", "1", "--from", "4")
	f(1, "", "", "topic a has no partition 7", "consume", "a", "-p", "7")
	f(1, "", "", "topic none: UNKNOWN_TOPIC_OR_PARTITION", "consume", "none")
	f(0, "", `{"topic":"a","partition":1,"offset":2,"leader_epoch":0,"timestamp":1700000000123,"timestamp_type":"create","key":"k","value":"three","headers":[{"key":"h","value":"x"},{"key":"h","value":""}]}`+"\n",
		"", "consume", "a", "-p", "1", "--from", "2", "-f", "json")
	f(0, "", `{"topic":"a","partition":2,"offset":1,"leader_epoch":0,"timestamp":6,"timestamp_type":"create","key":"","value_base64":"/w=="}`+"\n",
		"", "consume", "a", "-p", "2", "--from", "time:6", "-f", "json")

	f(0, "", "deleted a\n", "", "topic", "delete", "a")
	f(1, "", "", "topic a: UNKNOWN_TOPIC_OR_PARTITION", "topic", "delete", "a")
	f(0, "", "absent a\n", "", "topic", "delete", "a", "--if-exists")
	if err := c.end(syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v\n%s", err, c.text())
	}
}

func TestDescribeJSON(t *testing.T) {
	c := serve(t, filepath.Join(t.TempDir(), "data"))
	run(t, "", "topic", "create", "a", "-c", "retention.ms=5", "--broker", c.address)
	run(t, "x\n", "produce", "a", "--broker", c.address)
	_, out, errOut := run(t, "", "topic", "describe", "a", "--json", "--broker", c.address)
	var topics []topicDescription
	if err := json.Unmarshal([]byte(out), &topics); err != nil || len(topics) != 1 {
		t.Fatalf("%v: %s%s", err, out, errOut)
	}
	d := topics[0]
	if d.Topic != "a" || len(d.ID) != 22 || len(d.Partitions) != 1 || d.Partitions[0].EndOffset != 1 || len(d.Configs) != 1 || *d.Configs[0].Value != "5" {
		t.Errorf("%s", out)
	}
	c.end(syscall.SIGTERM)
}

// TestFollow holds that an interrupt ends following as done, after records that came later were printed.
func TestFollow(t *testing.T) {
	c := serve(t, filepath.Join(t.TempDir(), "data"))
	run(t, "first\n", "produce", "a", "--broker", c.address)
	cmd := exec.Command(os.Args[0], "consume", "a", "--follow", "--broker", c.address)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"first", "second"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q: %s", lines.Text(), want, errOut.String())
		}
		if want == "first" {
			run(t, "second\n", "produce", "a", "--broker", c.address)
		}
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v: %s", err, errOut.String())
	}
	c.end(syscall.SIGTERM)
}

// TestServeSignalledTwice holds that a signal that comes twice at once is one stop, and a clean one.
func TestServeSignalledTwice(t *testing.T) {
	c := serve(t, t.TempDir())
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.end(syscall.SIGTERM); err != nil || !strings.Contains(c.text(), "broker stopped") {
		t.Errorf("%v\n%s", err, c.text())
	}
}

func TestServeRefusals(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, dir)
	f := func(code int, want string, args ...string) {
		t.Helper()
		got, out, errOut := run(t, "", append([]string{"serve"}, args...)...)
		if got != code || !strings.Contains(errOut, want) || out != "" {
			t.Errorf("%q: code %d, want %d, err %q, want %q", args, got, code, errOut, want)
		}
	}
	f(2, "did you mean log.retention.ms?", "--set", "log.retentoin.ms=1")
	f(2, "num.partitions", "--set", "num.partitions=x")
	f(2, "--advertise HOST:PORT", "--listen", "0.0.0.0:9092")
	f(2, "--data-dir is empty", "--data-dir", "")
	f(2, "log.dirs", "--set", "log.dirs=")
	f(2, "settings file", "--config", "/does/not/exist")
	f(2, "--json belongs to --print-config", "--json")
	f(1, "in use by another broker", "--data-dir", dir, "--listen", "127.0.0.1:0", "--set", "millrace.admin.listen=")
	f(1, "--listen HOST:PORT", "--data-dir", t.TempDir(), "--listen", c.address, "--set", "millrace.admin.listen=")
	c.end(syscall.SIGTERM)
}

func TestPrintConfig(t *testing.T) {
	code, out, errOut := run(t, "", "serve", "--print-config", "--json", "--data-dir", "/d", "--set", "num.partitions=7")
	var rows []map[string]string
	if err := json.Unmarshal([]byte(out), &rows); code != 0 || err != nil {
		t.Fatalf("code %d, %v, %s", code, err, errOut)
	}
	found := map[string]string{}
	for _, r := range rows {
		found[r["name"]] = fmt.Sprintf("%s %s %s", r["value"], r["default"], r["source"])
		if r["effect"] == "" || r["meaning"] == "" {
			t.Errorf("%s has no meaning", r["name"])
		}
	}
	if found["num.partitions"] != "7 1 --set" || found["log.dirs"] != "/d  --data-dir" || found["auto.create.topics.enable"] != "true true default" {
		t.Errorf("%v", found)
	}
	if code, out, _ := run(t, "", "serve", "--print-config"); code != 0 || !strings.HasPrefix(out, "SETTING ") {
		t.Errorf("code %d, %.100s", code, out)
	}
}

// TestConfigurationPage holds that the committed page is the one that the table makes.
func TestConfigurationPage(t *testing.T) {
	var want bytes.Buffer
	if err := config.WriteDocumentation(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/configuration.md is not what the table of settings says: run make docs")
	}
}
