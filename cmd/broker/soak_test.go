package broker_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/broker/brokertest"
)

// usage is what a broker takes.
type usage struct {
	disk, memory      int64 // bytes
	files, goroutines int
}

func (u usage) String() string {
	return fmt.Sprintf("%d MiB on disk, %d MiB of anonymous memory, %d descriptors, %d goroutines", u.disk>>20, u.memory>>20, u.files, u.goroutines)
}

func (u *usage) raise(to usage) {
	u.disk, u.memory = max(u.disk, to.disk), max(u.memory, to.memory)
	u.files, u.goroutines = max(u.files, to.files), max(u.goroutines, to.goroutines)
}

func usageOf(t *testing.T, b *brokertest.Broker) (u usage) {
	t.Helper()
	u.memory, u.files, u.goroutines = residentBytes(t, b), openFiles(t, b), goroutinesOf(t, b)
	_ = filepath.WalkDir(b.DataDir, func(_ string, d fs.DirEntry, err error) error { // files come and go meanwhile
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				u.disk += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
		}
		return nil
	})
	return u
}

const soakKeys = 200

// soakSeconds is MILLRACE_TEST_SOAK_SECONDS, or few.
func soakSeconds(t *testing.T) time.Duration {
	text := os.Getenv("MILLRACE_TEST_SOAK_SECONDS")
	if text == "" {
		return 6 * time.Second
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}

// soak is a broker with everything that goes on at it.
type soak struct {
	b       *brokertest.Broker
	trimmed brokertest.Topic // by retention
	writers []*numbered      // one to each partition of it
	groups  []*readers       // of it
	keyed   *compacted
	topics  comings

	over                atomic.Bool // producers, and members that come and go
	writing, others     sync.WaitGroup
	stopTopics, stopAll context.CancelFunc
}

func startSoak(t *testing.T, ctx context.Context, b *brokertest.Broker) *soak {
	const partitions = 4
	s := &soak{b: b, topics: comings{gone: map[string]bool{}}, writers: make([]*numbered, partitions)}
	s.trimmed = b.NewTopic(t, partitions, map[string]string{"segment.bytes": "1048576", "retention.bytes": "1048576", "segment.ms": "3000"})
	for p := range s.writers {
		s.writers[p] = &numbered{partition: int32(p), idempotent: true}
		s.writing.Go(func() { s.writers[p].produce(t, ctx, b.Addr, s.trimmed.Name, &s.over) })
	}
	clients, stopAll := context.WithCancel(ctx)
	s.groups = []*readers{{name: brokertest.FreshName("classic")}, {name: brokertest.FreshName("modern"), protocol: []kgo.Opt{kgo.ServerSideBalancer()}}}
	for _, g := range s.groups {
		g.committed, g.seen = make([]atomic.Int64, partitions), make([]offsetSet, partitions)
		s.others.Go(func() { g.member(t, clients, b, s.trimmed) })
		s.others.Go(func() {
			for clients.Err() == nil && !s.over.Load() {
				visit, cancel := context.WithTimeout(clients, 2*time.Second)
				g.member(t, visit, b, s.trimmed)
				cancel()
			}
		})
	}
	coming, stopTopics := context.WithCancel(clients)
	s.others.Go(func() { s.topics.run(t, coming, b.Addr) })
	s.stopAll, s.stopTopics = stopAll, stopTopics

	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	topic := b.NewTopic(t, 1, map[string]string{"cleanup.policy": "compact", "segment.ms": "500", "segment.bytes": "1048576",
		"min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1000"})
	s.keyed = &compacted{t: t, ctx: ctx, broker: b, topic: topic, client: client, last: map[string]*kgo.Record{}}
	return s
}

// putKeys writes some records of few keys, and deletes some.
func (s *soak) putKeys() {
	for range 50 {
		r := &kgo.Record{Key: fmt.Appendf(nil, "key-%d", rand.IntN(soakKeys)), Value: fmt.Append(nil, s.keyed.count)}
		if rand.IntN(50) == 0 {
			r.Value = nil
		}
		s.keyed.put(r)
	}
}

// trimmedAll tells that retention has taken some of each partition.
func (s *soak) trimmedAll(t *testing.T) bool {
	c := brokertest.Dial(t, s.b.Addr) // a connection from the beginning would have been idle for too long
	return !slices.ContainsFunc(s.writers, func(n *numbered) bool { return c.LogStart(s.trimmed, n.partition) == 0 })
}

// end waits until all is written and read, and stops the clients.
func (s *soak) end(t *testing.T) {
	t.Helper()
	s.over.Store(true)
	s.stopTopics()
	s.writing.Wait()
	awaitRead(t, s.groups, s.writers)
	s.stopAll()
	s.others.Wait()
}

// awaitRead waits until the groups have read all that the writers wrote, one to a partition.
func awaitRead(t *testing.T, groups []*readers, writers []*numbered) {
	t.Helper()
	for _, g := range groups {
		brokertest.Eventually(t, "group "+g.name+" has read to the end", func() bool {
			for p, offset := range g.acknowledged() {
				if offset < writers[p].acked.Load() {
					return t.Failed()
				}
			}
			return true
		})
	}
}

// check demands what was written: of the trimmed topic a part that ends with the last record, of the keyed one the last
// record of each key.
func (s *soak) check(t *testing.T) {
	t.Helper()
	c := brokertest.Dial(t, s.b.Addr)
	for _, n := range s.writers {
		n.check(t, s.b, s.trimmed)
		if end := c.LogEnd(s.trimmed, n.partition); end != n.acked.Load() {
			t.Errorf("partition %d ends at %d, %d records were acknowledged", n.partition, end, n.acked.Load())
		}
	}
	s.keyed.settled("the last record of each key", soakKeys+1)
	if errs := metricOf(t, s.b, "millrace_engine_clean_errors_total"); errs != 0 {
		t.Errorf("%v compactions failed", errs)
	}
}

// TestSoak has retention, compaction, topics that come and go, producers, and groups of both protocols go on together.
// What the broker takes stays within bounds and does not grow from the second quarter of the time to the last; in the
// end everything that must be there is, also after a restart, and what clients had is given back.
func TestSoak(t *testing.T) {
	if brokertest.Outside() != "" {
		t.Skip("looks at the disk and the memory of a broker of its own")
	}
	lasts := soakSeconds(t)
	ctx, stop := context.WithTimeout(t.Context(), lasts+5*time.Minute)
	defer stop()
	b := brokertest.Start(t, consumerSettings("log.retention.check.interval.ms", "500", "log.cleaner.backoff.ms", "100",
		"log.segment.delete.delay.ms", "500", "auto.create.topics.enable", "false"))
	brokertest.Dial(t, b.Addr).Alive()
	fresh := usageOf(t, b)
	s := startSoak(t, ctx, b)
	var quarters [4]usage
	for began := time.Now(); !t.Failed() && (time.Since(began) < lasts || !s.trimmedAll(t)); {
		s.putKeys()
		quarters[min(int(4*time.Since(began)/lasts), 3)].raise(usageOf(t, b))
	}
	s.end(t)
	s.check(t)
	b.Stop(t)
	b.Restart(t)
	s.check(t)
	made, gone := s.topics.due()
	s.topics.check(t, ctx, b.Addr, made, gone)
	s.keyed.client.Close()
	last := quarters[3]
	brokertest.Eventually(t, "clients' goroutines and descriptors are given back", func() bool {
		last = usageOf(t, b)
		return last.goroutines <= fresh.goroutines+8 && last.files <= fresh.files+64
	})
	t.Logf("fresh: %s", fresh)
	for i, u := range quarters {
		t.Logf("quarter %d: %s", i+1, u)
	}
	t.Logf("at the end: %s; %d and %d records, %d topics came and went", last, s.writers[0].acked.Load()*int64(len(s.writers)), s.keyed.count, len(gone))
	was, is := quarters[1], quarters[3]
	if is.disk > 256<<20 || is.disk > was.disk*5/4+(32<<20) {
		t.Errorf("disk grows: %s, before %s", is, was)
	}
	if is.memory > 192<<20 || is.memory > was.memory*5/4+(32<<20) {
		t.Errorf("memory grows: %s, before %s", is, was)
	}
	if is.files > was.files+64 || is.goroutines > was.goroutines+64 {
		t.Errorf("descriptors or goroutines grow: %s, before %s", is, was)
	}
}
