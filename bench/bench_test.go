package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/wire"
)

func TestWorkloadsAreSound(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range Workloads() {
		if seen[w.ID] || w.Summary == "" || w.run == nil || len(w.parts) == 0 {
			t.Errorf("%s is listed twice or not whole", w.ID)
		}
		seen[w.ID] = true
		parts, err := w.partsWith(nil, Settings{})
		if err != nil || len(parts) != len(w.parts) {
			t.Errorf("%s: %d parts of %d, %v", w.ID, len(parts), len(w.parts), err)
		}
		names := map[string]bool{}
		for _, p := range parts {
			if name := w.partName(p); names[name] {
				t.Errorf("%s has two parts %q", w.ID, name)
			} else {
				names[name] = true
			}
		}
	}
	if Find("P1") == nil || Find("P99") != nil {
		t.Error("Find does not find")
	}
}

func TestSettingsRefused(t *testing.T) {
	f := func(workload, want string, given Settings, names ...string) {
		t.Helper()
		parts, err := Find(workload).partsWith(names, given)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s %v: %v, want %q (%+v)", workload, names, err, want, parts)
		}
	}
	f("P1", "", Settings{Acks: 1}, "acks")
	f("P1", "needs --acks all", Settings{Acks: 1, Idempotent: true}, "acks", "idempotent")
	f("P1", "--window 5 at most", Settings{Window: 6, Idempotent: true}, "window", "idempotent")
	f("L1", "", Settings{Idempotent: true}, "idempotent")
	f("P1", "no answers to wait for", Settings{Window: 6}, "window", "acks")
	f("P1", "no latency to measure", Settings{Rate: 6}, "rate", "acks")
	f("P7", "does not wait for the fsync", Settings{}, "acks")
	f("P1", "neither 0", Settings{Rate: 0.5}, "rate")
	f("P1", "--partitions 0", Settings{}, "partitions")
	f("P1", "--size -1", Settings{Size: -1}, "size")
	f("P1", "topics take 1048588", Settings{Size: 1 << 20}, "size")
	f("P1", "none of [none", Settings{Codec: "rar"}, "codec")
	f("P1", "would not end", Settings{}, "bytes", "duration")
	f("P1", "more than the 1 partitions", Settings{PerRequest: 2}, "per-request")
	f("P3", "has a thread to itself", Settings{Connections: 100, Partitions: 100, Rate: 5}, "connections", "partitions", "rate")
	f("P2", "--per-request 9 is more than the 8", Settings{PerRequest: 9}, "per-request")
	f("L1", "at a fixed rate", Settings{}, "rate")
	f("L2", "each partition has one producer", Settings{Connections: 5}, "connections")
	f("G1", "each member of the group has one", Settings{Connections: 101}, "connections")
	f("G1", "10m0s at most", Settings{Duration: time.Hour}, "duration")
	f("F1", "--rate means nothing for F1", Settings{Rate: 5}, "rate")
	f("S1", "every tenth", Settings{Connections: 9}, "connections")
	f("P4", "encoding all requests", Settings{Partitions: 100_000, PerRequest: 3}, "partitions", "per-request")
}

func TestOverride(t *testing.T) {
	only := func(workload string, given Settings, names ...string) Settings {
		t.Helper()
		parts, err := Find(workload).partsWith(names, given)
		if err != nil || len(parts) != 1 {
			t.Fatalf("%s %v: %d parts, %v", workload, names, len(parts), err)
		}
		return parts[0]
	}
	if s := only("P1", Settings{Duration: time.Second}, "duration"); s.Bytes != 0 || s.Duration != time.Second {
		t.Errorf("a given duration keeps the default of bytes: %+v", s)
	}
	if s := only("P3", Settings{Rate: 5}, "rate"); s.Rate != 5 || s.Window != 1000 || s.Bytes != 0 || s.Duration == 0 {
		t.Errorf("at a rate: %+v", s)
	}
	if s := only("P3", Settings{}, "rate"); s.Rate != 0 || s.Window != 4 && s.Window != 1 || s.Bytes == 0 {
		t.Errorf("saturated: %+v", s)
	}
	if s := only("P5", Settings{Codec: "gzip"}, "codec"); s.Codec != "gzip" {
		t.Errorf("%+v", s)
	}
	if s := only("P4", Settings{Partitions: 10}, "partitions"); s.PerRequest != 5 || s.Connections != 2 {
		t.Errorf("%+v", s)
	}
}

func TestSchedule(t *testing.T) {
	s := schedule{start: 1000, rate: 2000, connections: 4}
	f := func(connection int, n, want int64) {
		t.Helper()
		if got := s.at(connection, n); got != want {
			t.Errorf("request %d of connection %d at %d, want %d", n, connection, got, want)
		}
	}
	f(0, 0, 1000)
	f(1, 0, 501_000)
	f(3, 0, 1_501_000)
	f(0, 1, 2_001_000)
	f(0, 500, 1_000_001_000)
	// A week at a high rate neither overflows nor drifts.
	s.rate = 1_000_000
	f(0, 7*86400*250_000, 7*86400*1_000_000_000+1000)
}

func TestPacer(t *testing.T) {
	c := clock{time.Now()}
	done := make(chan bool)
	wait := func(ctx context.Context, g *gate, at int64) bool {
		go func() {
			pace := newPacer(c)
			defer pace.release()
			done <- pace.until(ctx, g, at)
		}()
		return <-done
	}
	at := c.now() + int64(2*time.Millisecond)
	if !wait(t.Context(), new(gate), at) || c.now() < at {
		t.Error("it does not wait")
	}
	if !wait(t.Context(), new(gate), 0) {
		t.Error("what is late is not sent")
	}
	stopped := new(gate)
	stopped.stopped.Store(true)
	if wait(t.Context(), stopped, c.now()+int64(time.Hour)) {
		t.Error("it goes on when the gate is closed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if wait(ctx, new(gate), 0) {
		t.Error("it goes on when the context has ended")
	}
}

func TestGate(t *testing.T) {
	g := &gate{limit: 250}
	for range 10 {
		if !g.take(100) {
			t.Fatal("the warm-up is bounded")
		}
	}
	g.marked.Store(50)
	var got []bool
	for range 5 {
		got = append(got, g.take(100))
	}
	if !slices.Equal(got, []bool{true, true, true, false, false}) {
		t.Errorf("%v", got)
	}
	if g.measures(49) || !g.measures(50) {
		t.Error("what began before the mark counts")
	}
}

func TestLatency(t *testing.T) {
	h := newHistogram()
	for i := range int64(10_000) {
		record(h, (i+1)*100_000, 1) // 0.1 ms to 1 s
	}
	record(h, int64(time.Hour), 1) // beyond the bound
	record(h, -5, 1)
	l := newLatency("x", h)
	near := func(got, want float64) bool { return got > want*0.998 && got < want*1.002 }
	if l.Count != 10_002 || !near(l.P50, 500) || !near(l.P90, 900) || !near(l.P99, 990) || !near(l.P999, 999) || !near(l.Max, 120_000) {
		t.Errorf("%+v", l)
	}
}

func TestUsagePer(t *testing.T) {
	u := Usage{CPUSeconds: 3}
	u.per(counts{requests: 1000, records: 100_000, payloadBytes: 1_500_000_000})
	if u.CPUSecondsPerGB != 2 || u.CPUNanosPerRec != 30_000 || u.CPUMicrosPerReq != 3000 {
		t.Errorf("%+v", u)
	}
	u.per(counts{})
	if u.CPUSecondsPerGB != 0 {
		t.Error("nothing done is not JSON")
	}
}

// TestChecker holds that each way in which records can be wrong is found.
func TestChecker(t *testing.T) {
	for _, codec := range Codecs() {
		c, err := newContent(10, 100, codec)
		if err != nil {
			t.Fatal(err)
		}
		if codec != "none" && len(c.batch) >= c.plain {
			t.Errorf("%s: %d bytes of %d", codec, len(c.batch), c.plain)
		}
		k := checker{content: c, unpack: kgo.DefaultDecompressor(), whole: true}
		at := func(base int64) []byte {
			b := slices.Clone(c.batch)
			binary.BigEndian.PutUint64(b, uint64(base))
			return b
		}
		f := func(src []byte, next, want int64, wantErr string) {
			t.Helper()
			size, fresh, plain, err := k.batch(src, next)
			if wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), wantErr) {
					t.Errorf("%s: %v, want %q", codec, err, wantErr)
				}
				return
			}
			if err != nil || fresh != want || size != len(src) || plain != c.plain {
				t.Errorf("%s: size %d of %d, %d new, %d plain, %v", codec, size, len(src), fresh, plain, err)
			}
		}
		f(at(20), 20, 10, "")
		f(at(20), 25, 5, "")
		f(at(20), 30, 0, "")
		f(at(20), 19, 0, "offset 20 comes where 19 is due")
		f(at(21), 21, 0, "is not what was produced")
		broken := at(20)
		broken[len(broken)-1] ^= 1
		f(broken, 20, 0, "checksum")
	}
	c, _ := newContent(3, 50, "none")
	k := checker{content: c, unpack: kgo.DefaultDecompressor(), whole: true}
	changed := slices.Clone(c.values[2])
	changed[49] ^= 1
	b, _ := wire.AppendBatch(nil, [][]byte{c.values[0], c.values[1], changed}, 1, nil)
	if _, _, _, err := k.batch(b, 0); err == nil {
		t.Error("the last byte of the last value is not looked at")
	}
	b, _ = wire.AppendBatch(nil, [][]byte{c.values[0], c.values[1][:49]}, 1, nil)
	if _, _, _, err := k.batch(b, 0); err == nil {
		t.Error("a short value is not noticed")
	}
	lies := slices.Clone(c.batch)
	binary.BigEndian.PutUint32(lies[57:], 2) // a count of one less
	wire.Stamp(lies, -1, -1, -1)
	if _, _, _, err := k.batch(lies, 0); err == nil {
		t.Error("a record beyond the count is not noticed")
	}
}

// TestAcknowledged holds that an answer which does not fit makes the run fail.
func TestAcknowledged(t *testing.T) {
	c, err := newContent(10, 100, "none")
	if err != nil {
		t.Fatal(err)
	}
	topic := &topic{name: "t", partitions: 2, leaders: []string{"a:1", "a:1"}}
	p := newProducer(topic, lane{partitions: []int32{0, 1}, sole: true}, c, Settings{Batch: 10, PerRequest: 1, Window: 1})
	f := func(a wire.Ack, want string) {
		t.Helper()
		err := p.acknowledged(a)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", a, err, want)
		}
	}
	f(wire.Ack{Partition: 1, BaseOffset: 0}, "")
	f(wire.Ack{Partition: 1, BaseOffset: 10}, "")
	f(wire.Ack{Partition: 1, BaseOffset: 30}, "base offset 30 where 20 is due")
	f(wire.Ack{Partition: 1, BaseOffset: 10}, "base offset 10 where 20 is due")
	f(wire.Ack{Partition: 2}, "does not have")
	f(wire.Ack{Partition: 0, Code: 3}, "UNKNOWN_TOPIC_OR_PARTITION")
	p.lane.sole = false
	f(wire.Ack{Partition: 1, BaseOffset: 30}, "")
	if !slices.Equal(p.acked, []int64{0, 30}) {
		t.Errorf("acknowledged %v", p.acked)
	}
}

func TestRequestsGoRoundThePartitions(t *testing.T) {
	f := func(partitions, per int, want string) {
		t.Helper()
		c, _ := newContent(1, 10, "none")
		l := lane{}
		for i := range partitions {
			l.partitions = append(l.partitions, int32(i))
		}
		p := newProducer(&topic{name: "t", partitions: partitions}, l, c, Settings{PerRequest: per, Batch: 1, Size: 10})
		var got [][]int32
		for _, e := range p.encoded {
			got = append(got, e.Partitions)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%d by %d: %v, want %s", partitions, per, got, want)
		}
	}
	f(1, 1, "[[0]]")
	f(3, 1, "[[0] [1] [2]]")
	f(4, 2, "[[0 1] [2 3]]")
	f(3, 2, "[[0 1] [2 0] [1 2]]")
	f(3, 3, "[[0 1 2]]")
}

func TestLanes(t *testing.T) {
	f := func(connections int, want string, leaders ...string) {
		t.Helper()
		got, err := (&topic{partitions: len(leaders), leaders: leaders}).lanes(connections)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, want) {
			t.Errorf("%v over %d: %s, want %s", leaders, connections, text, want)
		}
	}
	f(1, "[{a [0 1 2] true}]", "a", "a", "a")
	f(2, "[{a [0 2] true} {a [1] true}]", "a", "a", "a")
	f(3, "[{a [0] false} {a [0] false} {a [0] false}]", "a")
	f(2, "[{a [0 2] true} {b [1] true}]", "a", "b", "a")
	f(1, "led by 2 brokers", "a", "b")
}

func TestRunRefusesWithoutABroker(t *testing.T) {
	f := func(o Options, want string) {
		t.Helper()
		o.Broker = "127.0.0.1:1"
		_, err := Run(t.Context(), o)
		_, usage := err.(*UsageError)
		if err == nil || !strings.Contains(err.Error(), want) || usage == strings.Contains(want, "no broker answers") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f(Options{Workload: "X"}, "no workload")
	f(Options{Workload: "P1", BrokerPID: 1 << 30}, "the process has ended")
	f(Options{Workload: "P1", Given: []string{"idle"}}, "means nothing")
	f(Options{Workload: "P1"}, "no broker answers")
}
