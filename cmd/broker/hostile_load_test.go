package broker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"millrace/cmd/broker/brokertest"
)

// bystanders is a producer of 200 records a second and a consumer that waits for them, each on its own connection.
type bystanders struct {
	mu    sync.Mutex
	took  []time.Duration // from when a record was due to be sent until it was received
	late  atomic.Bool     // what is overdue is forgotten
	over  atomic.Bool
	ended sync.WaitGroup
}

// watchBystanders starts a pair; its stop ends it.
func watchBystanders(t *testing.T, b *brokertest.Broker) *bystanders {
	const every = 5 * time.Millisecond
	p, topic := &bystanders{}, b.NewTopic(t, 1, nil)
	in, out := brokertest.Dial(t, b.Addr), brokertest.Dial(t, b.Addr)
	p.ended.Go(func() {
		for due := time.Now().Add(every); !p.over.Load(); due = due.Add(every) {
			if p.late.Swap(false) {
				due = time.Now()
			}
			<-time.After(time.Until(due))
			in.MustProduce(topic, 0, batchOf(strconv.FormatInt(due.UnixNano(), 10)))
		}
	})
	p.ended.Go(func() {
		for next := int64(0); !p.over.Load(); {
			answer := out.FetchParts(brokertest.FetchRequest(12, 100, topic, brokertest.FetchFrom{Offset: next}))[0]
			batches, err := brokertest.DecodeBatches(answer.RecordBatches)
			if err != nil || answer.ErrorCode != errNone {
				t.Errorf("the consumer beside: code %d, %v", answer.ErrorCode, err)
				return
			}
			now := time.Now()
			p.mu.Lock()
			for _, batch := range batches {
				for _, r := range batch.Records {
					sent, _ := strconv.ParseInt(string(r.Value), 10, 64)
					p.took = append(p.took, now.Sub(time.Unix(0, sent)))
					next = r.Offset + 1
				}
			}
			p.mu.Unlock()
		}
	})
	return p
}

// p99 returns the 99th percentile since it was last asked; 0: there was no record.
func (p *bystanders) p99() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.took)
	defer func() { p.took = nil }()
	if len(p.took) == 0 {
		return 0
	}
	return p.took[len(p.took)*99/100]
}

// settle forgets what the pair has waited for, and waits until it is in time again.
func (p *bystanders) settle(t *testing.T) {
	p.late.Store(true)
	brokertest.Eventually(t, "the pair is in time again", func() bool {
		return !p.late.Load() && p.p99() > 0
	})
}

func (p *bystanders) stop() {
	p.over.Store(true)
	p.ended.Wait()
}

// pin leaves every thread of a process one core, the first or the second.
func pin(t *testing.T, pid, core int) {
	t.Helper()
	var set unix.CPUSet
	set.Set(core)
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if id, err := strconv.Atoi(filepath.Base(task)); err == nil {
			_ = unix.SchedSetaffinity(id, &set) // of a thread that has ended meanwhile
		}
	}
}

// idleSlack is how much more memory a broker may have a minute after hostile loads.
const idleSlack = 96 << 20

// TestHostileLoad runs each kind of hostile load for a while, then well-formed requests at the same rate, and at last
// all hostile loads at once. The memory they cost is bounded, a producer and a consumer beside them go on, and when
// they are gone, nothing of them is left. MILLRACE_TEST_HOSTILE_SECONDS makes each part so long, with the broker on one
// core and its clients on the other: what the pair waits for in both is printed. Without it each part is short.
func TestHostileLoad(t *testing.T) {
	if brokertest.Outside() != "" {
		t.Skip("measures a broker of its own")
	}
	span, calm := 200*time.Millisecond, time.Duration(0)
	b := brokertest.Start(t, map[string]string{"auto.create.topics.enable": "false"})
	if text := os.Getenv("MILLRACE_TEST_HOSTILE_SECONDS"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		span, calm = time.Duration(seconds)*time.Second, time.Minute
		if runtime.NumCPU() > 1 {
			pin(t, b.Pid, 0)
			pin(t, os.Getpid(), 1)
		}
	}
	const nothing = "0 goroutines, 0 sockets, 0 files, 0 bytes in flight, 0 outbound, 0 leased"
	began := time.Now()
	loads := hostileLoads(t, b)
	pair := watchBystanders(t, b)
	defer pair.stop()
	goroutines, sockets, files := goroutinesOf(t, b), socketsOf(t, b), openFiles(t, b)
	before := residentBytes(t, b)
	for _, l := range loads {
		pair.settle(t)
		w := watchMemory(t, b)
		rate := l.run(t, b, l.bad, span)
		w.grown(l.name, l.allowed)
		hostile := pair.p99()
		pair.settle(t)
		wellFormed := l.run(t, b, l.good, span)
		good := pair.p99()
		t.Logf("%s: %.0f a second, p99 beside it %v; well-formed %.0f a second, %v: %.1f times", l.name, rate,
			hostile.Round(10*time.Microsecond), wellFormed, good.Round(10*time.Microsecond), float64(hostile)/float64(max(good, time.Millisecond)))
		if hostile > 10*time.Second {
			t.Errorf("%s: p99 of a good pair %v", l.name, hostile)
		}
	}
	w := watchMemory(t, b)
	var all sync.WaitGroup
	for _, l := range loads {
		all.Go(func() { l.run(t, b, l.bad, span) })
	}
	all.Wait()
	t.Logf("all at once: p99 beside them %v", pair.p99())
	w.grown("all hostile loads at once", 2<<30)
	pair.stop()
	<-time.After(calm)
	left := func() string {
		return fmt.Sprintf("%d goroutines, %d sockets, %d files, %.0f bytes in flight, %.0f outbound, %.0f leased",
			max(goroutinesOf(t, b)-goroutines-4, 0), max(socketsOf(t, b)-sockets-2, 0), max(openFiles(t, b)-files-16, 0),
			metricOf(t, b, "millrace_net_inflight_bytes"), metricOf(t, b, "millrace_net_outbound_bytes"), metricOf(t, b, "millrace_pool_leased_bytes"))
	}
	deadline := time.Now().Add(brokertest.Patience)
	for left() != nothing && time.Now().Before(deadline) {
		<-time.After(10 * time.Millisecond)
	}
	want(t, "left of them", left(), nothing)
	after := residentBytes(t, b)
	t.Logf("memory: %d MiB before, %d MiB afterwards", before>>20, after>>20)
	if calm > 0 && after > before+idleSlack {
		t.Errorf("an idle minute later %d MiB more than before", (after-before)>>20)
	}
	checkLogRate(t, b, time.Since(began))
}

// checkLogRate: whatever clients do is logged at most once a second, and is no fault of the broker's.
func checkLogRate(t *testing.T, b *brokertest.Broker, span time.Duration) {
	t.Helper()
	lines := map[string]int{}
	for line := range strings.Lines(b.LogTail(16 << 20)) {
		if strings.Contains(line, "panic") || strings.Contains(line, `"level":"ERROR"`) {
			t.Errorf("the log tells of a fault: %s", line)
		}
		if _, rest, ok := strings.Cut(line, `"msg":"`); ok {
			message, _, _ := strings.Cut(rest, `"`)
			lines[message]++
		}
	}
	for message, n := range lines {
		if n > int(span/time.Second)+5 {
			t.Errorf("%q is logged %d times in %v", message, n, span)
		}
	}
}
