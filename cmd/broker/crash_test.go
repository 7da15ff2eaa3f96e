package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/broker/brokertest"
	"millrace/diskio"
)

// crashMachine is a broker with everything that goes on at it while it is ended again and again.
type crashMachine struct {
	t       *testing.T
	ctx     context.Context
	b       *brokertest.Broker
	topic   brokertest.Topic
	writers []*numbered
	groups  []*readers
	simple  *readers // offsets without members: many changes of the cluster state
	topics  comings

	over    atomic.Bool // producers
	stop    context.CancelFunc
	writing sync.WaitGroup
	others  sync.WaitGroup
}

// dues is what a broker that was ended must have when it is back.
type dues struct {
	committed  [][]int64
	made, gone []string
}

// newCrashMachine starts it all: a producer to each partition, every third without idempotence, a group of each
// protocol with three members and one that comes and goes, commits by themselves, and topics that come and go.
func newCrashMachine(t *testing.T, ctx context.Context, b *brokertest.Broker) *crashMachine {
	const partitions, members = 9, 3
	m := &crashMachine{t: t, b: b, topic: b.NewTopic(t, partitions, map[string]string{"segment.bytes": "1048576"}), topics: comings{gone: map[string]bool{}}}
	m.ctx, m.stop = context.WithCancel(ctx)
	for p := range int32(partitions) {
		n := &numbered{partition: p, idempotent: p%3 != 0}
		m.writers = append(m.writers, n)
		m.writing.Go(func() { n.produce(t, m.ctx, b.Addr, m.topic.Name, &m.over) })
	}
	m.groups = []*readers{{name: brokertest.FreshName("classic")},
		{name: brokertest.FreshName("modern"), protocol: []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}}}
	m.simple = &readers{name: brokertest.FreshName("simple"), committed: make([]atomic.Int64, 1)}
	for _, g := range m.groups {
		g.committed, g.seen = make([]atomic.Int64, partitions), make([]offsetSet, partitions)
		for range members {
			m.others.Go(func() { g.member(t, m.ctx, b, m.topic) })
		}
		m.others.Go(func() {
			for m.ctx.Err() == nil && !m.over.Load() {
				visit, cancel := context.WithTimeout(m.ctx, rand.N(2*time.Second))
				g.member(t, visit, b, m.topic)
				cancel()
			}
		})
	}
	m.others.Go(m.commit)
	m.others.Go(func() { m.topics.run(t, m.ctx, b.Addr) })
	return m
}

// commit commits rising offsets of one partition, one after the other.
func (m *crashMachine) commit() {
	c, err := kgo.NewClient(kgo.SeedBrokers(m.b.Addr), kgo.AlwaysRetryEOF(), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		m.t.Error(err)
		return
	}
	defer c.Close()
	for offset := int64(1); m.ctx.Err() == nil; offset++ {
		var offsets kadm.Offsets
		offsets.AddOffset(m.topic.Name, 0, offset, -1)
		if kadm.NewClient(c).CommitAllOffsets(m.ctx, m.simple.name, offsets) == nil {
			m.simple.committed[0].Store(offset)
		}
	}
}

func (m *crashMachine) counts() (acked, committed int64) {
	for _, n := range m.writers {
		acked += n.acked.Load()
	}
	for _, g := range m.groups {
		for _, offset := range g.acknowledged() {
			committed += offset
		}
	}
	return acked, committed
}

// goOn waits until producers and groups have got on, and then a moment.
func (m *crashMachine) goOn() {
	m.t.Helper()
	acked, committed := m.counts()
	brokertest.Eventually(m.t, "producers and groups go on", func() bool {
		a, c := m.counts()
		return m.t.Failed() || a >= acked+500 && c > committed
	})
	<-time.After(rand.N(300 * time.Millisecond))
}

// due is called when the broker has ended: what is acknowledged by now must be there, since only a broker does that.
func (m *crashMachine) due() (d dues) {
	for _, g := range append(m.groups, m.simple) {
		d.committed = append(d.committed, g.acknowledged())
	}
	d.made, d.gone = m.topics.due()
	return d
}

func (m *crashMachine) check(d dues) {
	m.t.Helper()
	checkCommitted(m.t, m.ctx, m.b, m.topic, append(m.groups, m.simple), d.committed)
	m.topics.check(m.t, m.ctx, m.b.Addr, d.made, d.gone)
}

// finish waits until all is written and read, and checks every record.
func (m *crashMachine) finish() {
	m.t.Helper()
	m.over.Store(true)
	m.writing.Wait()
	missing := func() int64 { return m.groups[0].missing(m.writers) + m.groups[1].missing(m.writers) }
	for left := missing(); left > 0 && !m.t.Failed(); left = missing() {
		brokertest.Eventually(m.t, fmt.Sprint("groups get on with the last ", left, " records"), func() bool { return missing() < left })
	}
	m.stop()
	m.others.Wait()
	for _, n := range m.writers {
		n.check(m.t, m.b, m.topic)
	}
	acked, committed := m.counts()
	m.t.Logf("%d records, offsets up to %d committed by groups and %d times alone, %d topics made and deleted",
		acked, committed, m.simple.committed[0].Load(), len(m.topics.gone))
}

// signal sends the broker one.
func (m *crashMachine) signal(s syscall.Signal) {
	if err := syscall.Kill(m.b.Pid, s); err != nil {
		m.t.Error(err)
	}
}

// freeze stops the broker's threads; what the kernel does for them goes on.
func (m *crashMachine) freeze() {
	m.t.Helper()
	m.signal(syscall.SIGSTOP)
	brokertest.Eventually(m.t, "threads stand still", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.b.Pid))
		for _, thread := range threads {
			var raw []byte
			if raw, err = os.ReadFile(thread); err != nil {
				break
			}
			// Behind the name in brackets; D waits in the kernel, and stops before it gets back.
			if at := bytes.LastIndexByte(raw, ')'); !strings.Contains("TD", string(raw[at+2:at+3])) {
				return false
			}
		}
		return err == nil
	})
}

// end ends the broker in the round's way.
func (m *crashMachine) end(round int) {
	switch round % 4 {
	case 1: // asleep for a while, then killed while its clients make up for it
		m.signal(syscall.SIGSTOP)
		<-time.After(rand.N(500 * time.Millisecond))
		m.signal(syscall.SIGCONT)
		<-time.After(rand.N(50 * time.Millisecond))
		m.b.Kill(m.t)
	case 2: // killed, and again as soon as it is back
		m.b.Kill(m.t)
		m.b.Restart(m.t)
		<-time.After(rand.N(50 * time.Millisecond))
		m.b.Kill(m.t)
	case 3:
		m.b.Stop(m.t)
	default:
		m.b.Kill(m.t)
	}
}

// crashSettings are those of a broker that a machine runs on. A member that left while the broker was away is missed for
// as long as its session lasts.
func crashSettings(name, value string) map[string]string {
	return consumerSettings("group.consumer.session.timeout.ms", "6000", "auto.create.topics.enable", "false", name, value)
}

// crashRounds is MILLRACE_TEST_CRASH_ROUNDS, or few.
func crashRounds(t *testing.T, few int) int {
	text := os.Getenv("MILLRACE_TEST_CRASH_ROUNDS")
	if text == "" {
		return few
	}
	rounds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return rounds
}

// TestCrashes ends a broker of each backend again and again under producers, groups and changes of topics: no record
// that was acknowledged is lost or wrong, of idempotent producers none comes twice or out of order, each group reads
// all of them, and committed offsets and topics never fall behind what was acknowledged.
func TestCrashes(t *testing.T) {
	backends := []string{diskio.BackendPosix, diskio.BackendRing}
	if backend := os.Getenv("MILLRACE_TEST_BACKEND"); backend != "" {
		backends = []string{backend}
	}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			if fs, err := diskio.Open(t.TempDir(), diskio.Options{Backend: backend}); err != nil {
				t.Skip(err)
			} else {
				fs.Close()
			}
			rounds := crashRounds(t, 4)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds)*time.Minute+2*time.Minute)
			defer cancel()
			m := newCrashMachine(t, ctx, brokertest.Start(t, crashSettings("millrace.io.backend", backend)))
			defer m.stop()
			snapshots := 0.0
			for round := range rounds {
				m.goOn()
				snapshots += metricOf(t, m.b, "millrace_meta_snapshots_total")
				m.end(round)
				due := m.due()
				m.b.Restart(t)
				m.check(due)
			}
			m.finish()
			t.Logf("%d rounds, %.0f snapshots", rounds, snapshots)
		})
	}
}
