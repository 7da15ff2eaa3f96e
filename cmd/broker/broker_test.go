package broker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"millrace/meta/config"
)

// logBuffer is a log that a test reads.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func parse(t *testing.T, dir string, extra ...string) *config.Broker {
	t.Helper()
	s := config.Settings{}
	put := func(name, value string) { s[name] = config.Setting{Value: value, Origin: "test"} }
	put("log.dirs", dir)
	put("listeners", "PLAINTEXT://127.0.0.1:0")
	put("millrace.admin.listen", "127.0.0.1:0")
	for i := 0; i < len(extra); i += 2 {
		put(extra[i], extra[i+1])
	}
	settings, err := config.ParseBroker(s)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func start(t *testing.T, settings *config.Broker) (*Broker, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	b, err := Open(t.Context(), settings, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatalf("open: %v\n%s", err, log)
	}
	return b, log
}

func stop(t *testing.T, b *Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

func client(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addresses()...), kgo.AllowAutoTopicCreation()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func produce(t *testing.T, b *Broker, topic string, from, to int) {
	t.Helper()
	c := client(t, b, kgo.DefaultProduceTopic(topic))
	defer c.Close()
	for i := from; i < to; i++ {
		c.Produce(t.Context(), &kgo.Record{Key: fmt.Append(nil, "key ", i), Value: fmt.Append(nil, "value ", i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// consume reads count records of a topic of one partition and checks that they are those of produce.
func consume(t *testing.T, b *Broker, topic string, count int) {
	t.Helper()
	c := client(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for next := 0; next < count; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %d records: %v", next, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != int64(next) || string(r.Value) != fmt.Sprint("value ", next) || string(r.Key) != fmt.Sprint("key ", next) {
				t.Errorf("offset %d holds %q = %q, want number %d", r.Offset, r.Key, r.Value, next)
			}
			next++
		})
	}
}

func TestOpenCloseReopen(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := filepath.Join(t.TempDir(), "data")
	const count = 10_000
	var cluster string
	for round := range 3 {
		b, _ := start(t, parse(t, dir))
		if cluster == "" {
			cluster = b.ClusterID()
		}
		if b.ClusterID() != cluster {
			t.Errorf("round %d: cluster id %q, want %q", round, b.ClusterID(), cluster)
		}
		produce(t, b, "numbers", round*count, (round+1)*count)
		consume(t, b, "numbers", (round+1)*count)
		stop(t, b)
	}
}

// TestDeletedTopic holds that a topic made again under the old name is empty, and that what belonged to the
// old one leaves the disk.
func TestDeletedTopic(t *testing.T) {
	dir := t.TempDir()
	b, _ := start(t, parse(t, dir, "log.segment.delete.delay.ms", "0"))
	produce(t, b, "again", 0, 100)
	c := client(t, b)
	adm := kadm.NewClient(c)
	if _, err := adm.DeleteTopic(t.Context(), "again"); err != nil {
		t.Fatal(err)
	}
	produce(t, b, "again", 0, 10)
	ends, err := adm.ListEndOffsets(t.Context(), "again")
	if o, _ := ends.Lookup("again", 0); err != nil || o.Offset != 10 {
		t.Errorf("end offset %+v, %v, want 10", o, err)
	}
	c.Close()
	consume(t, b, "again", 10)
	stop(t, b)
	b, log := start(t, parse(t, dir))
	consume(t, b, "again", 10)
	stop(t, b)
	t.Log(log)
}

func TestAdmin(t *testing.T) {
	b, _ := start(t, parse(t, t.TempDir()))
	defer stop(t, b)
	produce(t, b, "counted", 0, 10)
	f := func(path, want string) {
		t.Helper()
		resp, err := http.Get("http://" + b.AdminAddress() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, does not hold %q:\n%s", path, resp.Status, want, body)
		}
	}
	f("/readyz", "ok")
	f("/healthz", "ok")
	f("/metrics", "millrace_engine_records_total 10")
	f("/metrics", `millrace_kafka_request_seconds_count{api="Produce"}`)
	f("/metrics", "millrace_cluster_topics 1")
	http.DefaultClient.CloseIdleConnections()
}

func TestOpenRefusals(t *testing.T) {
	f := func(name string, want string, prepare func(t *testing.T) *config.Broker) {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			log := &logBuffer{}
			b, err := Open(t.Context(), prepare(t), slog.New(slog.NewTextHandler(log, nil)))
			if err == nil {
				stop(t, b)
				t.Fatal("it starts")
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, want)
			}
		})
	}
	used := t.TempDir()
	running, _ := start(t, parse(t, used, "node.id", "3"))
	produce(t, running, "kept", 0, 10)
	f("directory in use", "in use by another broker", func(t *testing.T) *config.Broker { return parse(t, used, "node.id", "3") })
	f("port in use", "--listen HOST:PORT", func(t *testing.T) *config.Broker {
		return parse(t, t.TempDir(), "listeners", "PLAINTEXT://"+running.Addresses()[0])
	})
	f("admin port in use", "millrace.admin.listen", func(t *testing.T) *config.Broker {
		return parse(t, t.TempDir(), "millrace.admin.listen", running.AdminAddress())
	})
	consume(t, running, "kept", 10) // the first is undisturbed
	stop(t, running)

	f("another node", "node 3", func(t *testing.T) *config.Broker { return parse(t, used, "node.id", "4") })
	f("not a directory", "--data-dir", func(t *testing.T) *config.Broker {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return parse(t, file)
	})
	without := func(name string) func(*testing.T) *config.Broker {
		return func(t *testing.T) *config.Broker {
			if err := os.RemoveAll(filepath.Join(used, name)); err != nil {
				t.Fatal(err)
			}
			return parse(t, used, "node.id", "3")
		}
	}
	f("cluster state removed", "inspect --repair --data-dir "+used, without(metaName))
	f("records without cluster state", "no cluster state says which topics", without(metaName+".copy"))
}

func TestWarnsOfOpenListener(t *testing.T) {
	f := func(host string, warned bool) {
		t.Helper()
		log := &logBuffer{}
		settings := &config.Broker{Listeners: []config.Listener{{Name: "PLAINTEXT", Host: host, Port: 9092}, {Name: "B", Host: host, Port: 9093}}}
		if err := checkListeners(settings, slog.New(slog.NewTextHandler(log, nil))); err != nil {
			t.Fatal(err)
		}
		want := 0
		if warned {
			want = 1
		}
		if got := strings.Count(log.String(), "without authentication"); got != want {
			t.Errorf("host %q: %d warnings, want %d", host, got, want)
		}
	}
	f("127.0.0.1", false)
	f("::1", false)
	f("localhost", false)
	f("", true)
	f("0.0.0.0", true)
	f("192.0.2.1", true)
}

func TestShardConfig(t *testing.T) {
	got := shardConfig(&config.Topic{CleanupDelete: true, RetentionBytes: -1, SegmentBytes: 5, FlushMessages: 1})
	if got.RetentionAge != 1 || got.RetentionBytes != -1 || got.FileDeleteDelay != -1 || got.FlushInterval != 1 {
		t.Errorf("zero settings give %+v", got)
	}
	got = shardConfig(&config.Topic{RetentionAge: time.Hour, RetentionBytes: 7})
	if got.RetentionAge >= 0 || got.RetentionBytes != -1 {
		t.Errorf("without delete in cleanup.policy: %+v", got)
	}
}

func TestResolvePorts(t *testing.T) {
	settings := &config.Broker{Listeners: []config.Listener{
		{Name: "A", Host: "127.0.0.1", Port: 0, AdvertisedHost: "127.0.0.1"},
		{Name: "B", Host: "127.0.0.1", Port: 9093, AdvertisedHost: "b.example.org"},
		{Name: "C", Host: "127.0.0.1", Port: 9094, AdvertisedHost: "c.example.org", AdvertisedPort: 19094},
	}}
	endpoints, err := resolvePorts(settings)
	if err != nil {
		t.Fatal(err)
	}
	if endpoints[0].Port == 0 || endpoints[1].Port != 9093 || endpoints[1].Host != "b.example.org" || endpoints[2].Port != 19094 {
		t.Errorf("%+v", endpoints)
	}
	listeners := netListeners(settings, endpoints)
	if want := net.JoinHostPort("127.0.0.1", fmt.Sprint(endpoints[0].Port)); listeners[0].Address != want {
		t.Errorf("%+v, want %s", listeners[0], want)
	}
}
