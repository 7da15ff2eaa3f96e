package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/clients/broker"
)

const (
	// Bounds that only something broken reaches, also where others keep the machine busy.
	clientWithin = 10 * time.Minute
	setUpWithin  = 15 * time.Minute
	halfWithin   = 5 * time.Minute

	slowLines = 100_000 // lines of the source tree for a client that is not Whole
)

// run is what the tests share: the clients that are here, the inputs, the broker.
type run struct {
	addr    string
	broker  *broker.Process // nil for a broker from outside
	clients []Client
	missing map[string]string
	inputs  map[string]Input
	admin   *kadm.Client
}

// TestEndToEnd is one run: inputs, then every client with its defaults and with each codec, then the kill.
func TestEndToEnd(t *testing.T) {
	r := newRun(t)
	for i, producer := range r.clients {
		consumer := r.clients[(i+1)%len(r.clients)]
		t.Run("defaults/"+producer.Name, func(t *testing.T) {
			r.need(t, producer)
			input := r.inputFor(producer)
			r.pass(t, producer, r.consumer(producer, consumer, input == r.inputs["whole"]), "default", input)
		})
	}
	for c, codec := range codecs() {
		for i, producer := range r.clients {
			t.Run(codec+"/"+producer.Name, func(t *testing.T) {
				r.need(t, producer)
				if producer.Lacks[codec] {
					t.Skipf("%s has no encoder for %s", producer.Name, codec)
				}
				r.pass(t, producer, r.consumer(producer, r.clients[(i+1+c%(len(r.clients)-1))%len(r.clients)], false), codec, r.inputs["small"])
			})
		}
	}
	t.Run("kill", func(t *testing.T) { r.kill(t) })
	for name, why := range r.missing {
		if os.Getenv("MILLRACE_TEST_E2E_ALL") != "" {
			t.Errorf("NOT RUN %s: %s", name, why)
		} else {
			t.Logf("NOT RUN %s: %s", name, why)
		}
	}
}

func newRun(t *testing.T) *run {
	t.Helper()
	r := &run{missing: map[string]string{}, inputs: map[string]Input{}, addr: os.Getenv("MILLRACE_TEST_BROKER")}
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	franz := filepath.Join(dir, "franz")
	if out, err := exec.Command("go", "build", "-o", franz, "./franz").CombinedOutput(); err != nil {
		t.Fatalf("build franz: %v\n%s", err, out)
	}
	r.clients = Clients(here, franz)
	r.setUp(t, here)
	r.buildInputs(t, dir)
	if r.addr == "" {
		binary := os.Getenv("MILLRACE")
		if binary == "" {
			t.Skip("MILLRACE does not name the broker's binary, nor MILLRACE_TEST_BROKER a running broker")
		}
		r.broker, err = broker.New(binary, dir, "")
		if err == nil {
			err = r.broker.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			r.broker.Kill()
			if t.Failed() {
				log, _ := os.ReadFile(r.broker.LogFile())
				t.Logf("end of the broker's log:\n%s", log[max(0, len(log)-4000):])
			}
		})
		r.addr = r.broker.Addr
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r.admin = kadm.NewClient(client)
	return r
}

// setUp installs what the clients need, all parts at once, and notes what cannot be had.
func (r *run) setUp(t *testing.T, here string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setUpWithin)
	defer cancel()
	why := map[string]chan string{}
	for _, part := range []string{"python", "node", "java"} {
		answer := make(chan string, 1)
		why[part] = answer
		go func() { // ends with the script
			cmd := exec.CommandContext(ctx, filepath.Join(here, "..", "setup", "setup.sh"), part)
			cmd.WaitDelay = 5 * time.Second
			out, err := cmd.CombinedOutput()
			if err != nil {
				answer <- strings.TrimSpace(fmt.Sprintf("%s (%v)", out, err))
			}
			close(answer)
		}()
	}
	for part, answer := range why {
		text, gone := <-answer
		for _, client := range r.clients {
			if gone && client.Part == part {
				r.missing[client.Name] = text
			}
		}
	}
}

func (r *run) need(t *testing.T, client Client) {
	t.Helper()
	if why, ok := r.missing[client.Name]; ok {
		t.Skipf("NOT RUN %s: %s", client.Name, why)
	}
}

// consumer returns the wanted consumer, or another one that is here, is not the producer, and for the whole input is fast.
func (r *run) consumer(producer, wanted Client, whole bool) Client {
	fits := func(c Client) bool { _, gone := r.missing[c.Name]; return !gone && (c.Fast || !whole) }
	if fits(wanted) {
		return wanted
	}
	for _, c := range r.clients {
		if fits(c) && c.Name != producer.Name {
			return c
		}
	}
	return r.clients[0]
}

func (r *run) buildInputs(t *testing.T, dir string) {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	whole := bounds{everyFile: 1, linesMax: -1}
	if text := os.Getenv("MILLRACE_TEST_E2E_LINES"); text != "" {
		if whole.linesMax, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	part := bounds{1, slowLines}
	if whole.linesMax >= 0 {
		part.linesMax = min(part.linesMax, whole.linesMax)
	}
	for name, b := range map[string]bounds{"whole": whole, "files": part, "small": {20, 5_000}} {
		input, err := BuildInput(filepath.Join(dir, name), root, b)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("input %s: %d records", name, input.Count)
		r.inputs[name] = input
	}
}

func (r *run) inputFor(producer Client) Input {
	if producer.Whole || os.Getenv("MILLRACE_TEST_E2E_WHOLE") != "" {
		return r.inputs["whole"]
	}
	return r.inputs["files"]
}

// topic creates a topic of one partition that keeps everything, and takes the largest file.
func (r *run) topic(t *testing.T, name string) string {
	t.Helper()
	name = fmt.Sprintf("e2e-%s-%d", strings.ReplaceAll(name, "/", "-"), time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	configs := map[string]*string{"retention.ms": kadm.StringPtr("-1"), "max.message.bytes": kadm.StringPtr("20000000")}
	if _, err := r.admin.CreateTopic(ctx, 1, 1, configs, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		r.admin.DeleteTopics(ctx, name) // only to save disk
	})
	return name
}

// pass produces input with one client and compares what another one consumes.
func (r *run) pass(t *testing.T, producer, consumer Client, codec string, input Input) {
	t.Helper()
	topic := r.topic(t, codec+"-"+producer.Name)
	began := time.Now()
	out, err := r.call(producer, "produce", topic, input.Path, codec)
	if err != nil {
		t.Fatalf("%s produce: %v", producer.Name, err)
	}
	if want := fmt.Sprint(input.Count); out != want {
		t.Fatalf("%s: %s records acknowledged, want %s", producer.Name, out, want)
	}
	produced := time.Since(began)
	r.compare(t, consumer, topic, input)
	t.Logf("%s -> %s, %s: %d records, produced in %v, consumed in %v", producer.Name, consumer.Name, codec, input.Count,
		produced.Round(time.Millisecond), (time.Since(began) - produced).Round(time.Millisecond))
}

// compare consumes the topic and demands the input's digest and no record after it.
func (r *run) compare(t *testing.T, consumer Client, topic string, input Input) {
	t.Helper()
	out, err := r.call(consumer, "consume", topic, fmt.Sprint(input.Count), "-")
	if err != nil {
		t.Fatalf("%s consume: %v", consumer.Name, err)
	}
	if want := fmt.Sprintf("%d %s", input.Count, input.Digest); out != want {
		t.Fatalf("%s consumed %s, want %s", consumer.Name, out, want)
	}
	if end := r.logEnd(topic); end != input.Count {
		t.Fatalf("log end %d, want %d", end, input.Count)
	}
}

func (r *run) logEnd(topic string) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	listed, err := r.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return -1
	}
	offset, ok := listed.Lookup(topic, 0)
	if !ok || offset.Err != nil {
		return -1
	}
	return offset.Offset
}

// call runs a client and returns what it printed.
func (r *run) call(client Client, what, topic string, rest ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clientWithin)
	defer cancel()
	args := append(append(append([]string{}, client.Command[1:]...), what, r.addr, topic), rest...)
	cmd := exec.CommandContext(ctx, client.Command[0], args...)
	cmd.Env = append(os.Environ(), client.Env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		text := stderr.Bytes()
		return "", fmt.Errorf("%w: %s", err, text[max(0, len(text)-2000):])
	}
	return strings.TrimSpace(stdout.String()), nil
}

// kill lets every client produce to a topic of its own, kills the broker in the middle and starts it again, and demands
// that all was stored once.
func (r *run) kill(t *testing.T) {
	if r.broker == nil {
		t.Skip("needs a kill, and the broker is from outside")
	}
	input := r.inputs["files"]
	topics := map[string]string{}
	done := make(chan error, len(r.clients))
	for _, client := range r.clients {
		if _, gone := r.missing[client.Name]; gone {
			continue
		}
		topic := r.topic(t, "kill-"+client.Name)
		topics[client.Name] = topic
		go func() {
			out, err := r.call(client, "produce", topic, input.Path, "default")
			if err == nil && out != fmt.Sprint(input.Count) {
				err = fmt.Errorf("%s of %d acknowledged", out, input.Count)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", client.Name, err)
			}
			done <- err
		}()
	}
	// Once in the middle of the fastest client, once in that of the slowest.
	for _, enough := range []int{1, len(topics)} {
		r.awaitHalf(t, topics, input.Count, enough, done)
		r.broker.Kill()
		if err := r.broker.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for range topics {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for name, topic := range topics {
		t.Run(name, func(t *testing.T) { r.compare(t, r.clients[0], topic, input) })
	}
}

// awaitHalf returns when so many topics are half full; a client that failed ends the test.
func (r *run) awaitHalf(t *testing.T, topics map[string]string, count int64, enough int, done chan error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(halfWithin); time.Now().Before(deadline); <-tick.C {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			done <- nil // for who counts the ends; it has room for all
		default:
		}
		half := 0
		for _, topic := range topics {
			if r.logEnd(topic) >= count/2 {
				half++
			}
		}
		if half >= enough {
			return
		}
	}
	t.Fatalf("fewer than %d clients produced half of their records within %v", enough, halfWithin)
}
