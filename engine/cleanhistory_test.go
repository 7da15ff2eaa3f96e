package engine

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/diskio/disktest"
	"millrace/engine/model"
)

var (
	cleanSeed = flag.Uint64("clean.seed", 0, "seed of TestCleanHistory; 0 tries several")
	cleanRuns = flag.Int("clean.runs", 8, "histories of compaction")
)

// written is a record as it was appended.
type written struct {
	key, value string
	tombstone  bool
	timestamp  int64
}

// cleanHistory drives a compacted shard over a disk that fails, and a model of it: every record that was ever
// appended, by offset.
type cleanHistory struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	disk   *disktest.Disk
	store  *testStore
	sh     *Shard
	now    time.Time
	config ShardConfig
	// loses: the index store is lost now and then. No records are deleted then, since the log start is kept twice
	// only as long as no power cut comes in between.
	loses bool

	records  map[int64]written // what may be there
	replaced map[int64]bool    // what a compaction may have removed, though a truncation took its successor since
	durable  int64             // the log reaches at least there after any crash
	end      int64
	start    int64
	value    int
	sequence [3]int32
	sent     [3]*Append // the last of each producer that was acknowledged
	sentAs   [3][]string

	mu  sync.Mutex
	log []string
}

func TestCleanHistory(t *testing.T) {
	seeds := []uint64{*cleanSeed}
	if *cleanSeed == 0 {
		seeds = seeds[:0]
		for range *cleanRuns {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			h := &cleanHistory{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 3)), disk: disktest.New(seed),
				now: time.UnixMilli(1_000_000), records: map[int64]written{}, replaced: map[int64]bool{}}
			h.loses = h.random.IntN(2) == 0
			h.config = ShardConfig{Compact: true, DeleteRetention: time.Minute, RetentionAge: Forever, FileDeleteDelay: -1,
				SegmentBytes: int64(600 + h.random.IntN(3000))}
			defer func() {
				if t.Failed() {
					t.Logf("repeat: go test ./engine -run TestCleanHistory -clean.seed %d\n%s", seed, strings.Join(h.log, "\n"))
				}
			}()
			h.run()
		})
	}
}

func (h *cleanHistory) note(format string, args ...any) { fmt.Fprintf(h, format, args...) }

// Write takes the store's log.
func (h *cleanHistory) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, string(bytes.TrimSpace(b)))
	return len(b), nil
}

func (h *cleanHistory) open() {
	h.t.Helper()
	h.store = simStore(h.t, h.disk, func(o *Options) {
		o.CleanInterval, o.Now, o.OpenSegmentsMax = time.Hour, func() time.Time { return h.now }, 4
		o.Logger = slog.New(slog.NewTextHandler(h, nil))
	})
	h.sh = h.store.shard(1, h.config)
}

func (h *cleanHistory) run() {
	h.open()
	for range 150 {
		if h.disk.IsCut() {
			h.restart(false)
		}
		h.step()
		if h.t.Failed() {
			return
		}
	}
	h.restart(true)
	h.store.Close()
	h.inspect()
}

func (h *cleanHistory) step() {
	switch p := h.random.IntN(100); {
	case p < 45:
		h.put()
	case p < 52:
		h.resend()
	case p < 57:
		h.note("roll")
		h.sh.rollAndWait()
	case p < 75:
		h.clean()
	case p < 80:
		h.now = h.now.Add(time.Duration(h.random.IntN(90)) * time.Second)
		h.note("clock %d", h.now.UnixMilli())
	case p < 83:
		h.store.indexer.flush()
	case p < 86 && !h.loses:
		before := h.start + h.random.Int64N(h.end-h.start+1)
		h.note("delete below %d", before)
		if start, err := h.sh.DeleteRecords(before); err == nil {
			h.start = start
		} else if !h.disk.IsCut() {
			h.t.Errorf("delete records: %v", err)
		}
	case p < 88 && !h.loses:
		h.truncate()
	case p < 93:
		h.disk.CutAfter(h.random.Int64N(60))
	case p < 95:
		h.restart(false)
	case p < 97:
		h.restart(true)
	default:
		h.compare(-1)
	}
}

// put appends a few records.
func (h *cleanHistory) put() {
	var texts []string
	for range 1 + h.random.IntN(5) {
		key := fmt.Sprintf("k%d", h.random.IntN(12))
		if h.random.IntN(6) == 0 {
			texts = append(texts, key)
			continue
		}
		h.value++
		texts = append(texts, fmt.Sprintf("%s=%d%s", key, h.value, strings.Repeat("v", h.random.IntN(100))))
	}
	producer := h.random.IntN(4) - 1
	sequence := int32(0)
	if producer >= 0 {
		sequence = h.sequence[producer]
	}
	a, err := h.send(producer, sequence, texts)
	h.note("put %v by %d/%d: %v", texts, producer, sequence, err)
	if err != nil {
		if !h.disk.IsCut() {
			h.t.Errorf("append: %v", err)
		}
		return
	}
	if a.BaseOffset != h.end || a.Duplicate {
		h.t.Errorf("append at %d (duplicate %t), want %d", a.BaseOffset, a.Duplicate, h.end)
	}
	h.end = a.LastOffset + 1
	if producer >= 0 {
		h.sequence[producer] += int32(len(texts))
		h.sent[producer], h.sentAs[producer] = a, texts
	}
}

// send appends and notes what may be in the log from then on.
func (h *cleanHistory) send(producer int, sequence int32, texts []string) (*Append, error) {
	timestamp := h.store.nowMillis()
	b := &keyed{timestamp: timestamp}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		r := keyedRecord{key: []byte(key)}
		if ok {
			r.value = []byte(value)
		}
		b.records = append(b.records, r)
	}
	a := &Append{ExpectedEpoch: -1}
	a.Header = model.AppendHeader{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}
	if producer >= 0 {
		a.Header.ProducerID, a.Header.ProducerEpoch, a.Header.BaseSequence = int64(producer), 0, sequence
		a.Header.LastSequence = sequence + int32(len(texts)) - 1
	}
	a.Header.LastOffset = int64(len(texts) - 1)
	for i, r := range b.records {
		delete(h.replaced, h.end+int64(i))
		h.records[h.end+int64(i)] = written{string(r.key), string(r.value), r.value == nil, timestamp + int64(i)}
	}
	if err := h.sh.Submit(a, b); err != nil {
		return nil, err
	}
	a = h.store.sink.wait(h.t, 1)[0]
	return a, a.Err
}

// resend repeats a producer's last append, which must be known.
func (h *cleanHistory) resend() {
	producer := h.random.IntN(3)
	first := h.sent[producer]
	if first == nil {
		return
	}
	kept := make(map[int64]written)
	for i := range len(h.sentAs[producer]) {
		kept[h.end+int64(i)] = h.records[h.end+int64(i)]
	}
	a, err := h.send(producer, first.Header.BaseSequence, h.sentAs[producer])
	h.note("resend by %d/%d: %v", producer, first.Header.BaseSequence, err)
	for offset, r := range kept {
		h.records[offset] = r
	}
	if err == nil && (!a.Duplicate || a.BaseOffset != first.BaseOffset) {
		h.t.Errorf("producer %d repeats %d: duplicate %t at %d, want %d", producer, first.Header.BaseSequence,
			a.Duplicate, a.BaseOffset, first.BaseOffset)
	} else if err != nil && !h.disk.IsCut() {
		h.t.Errorf("producer %d repeats %d: %v", producer, first.Header.BaseSequence, err)
	}
}

func (h *cleanHistory) clean() {
	plan, due := h.sh.planClean(h.store.nowMillis())
	if plan.shard == nil || len(plan.segments) == 0 {
		return
	}
	last := map[string]int64{}
	for offset := h.start; offset < plan.segments[len(plan.segments)-1].next.Load(); offset++ {
		if before, ok := last[h.records[offset].key]; ok {
			h.replaced[before] = true
		}
		last[h.records[offset].key] = offset
	}
	var err error
	if h.random.IntN(4) == 0 {
		// The keys fill their memory again and again.
		before := *h.store.upkeep.Load()
		few := before
		few.CleanMemoryBytes = keySlotSize * (1 + h.random.Int64N(12))
		h.store.SetUpkeep(few)
		err = h.store.cleaner.clean(&plan)
		h.store.SetUpkeep(before)
	} else {
		err = h.store.cleaner.clean(&plan)
	}
	h.note("clean of %d segments from %d (due %t) up to %d: %v", len(plan.segments), plan.from, due, h.sh.cleaned.upTo.Load(), err)
	if err != nil {
		if !h.disk.IsCut() && !errors.Is(err, errCleanStopped) {
			h.t.Errorf("clean: %v", err)
		}
		return
	}
	h.durable = max(h.durable, plan.segments[len(plan.segments)-1].next.Load())
	h.compare(h.sh.cleaned.upTo.Load())
}

func (h *cleanHistory) truncate() {
	if h.end == h.start {
		return
	}
	at := h.start + h.random.Int64N(h.end-h.start)
	err := h.sh.Truncate(at)
	end := h.sh.State().LogEnd
	h.note("truncate to %d: %v, end %d", at, err, end)
	if err != nil {
		if !h.disk.IsCut() {
			h.t.Errorf("truncate: %v", err)
		}
		h.durable = min(h.durable, h.start)
		return
	}
	if end > at {
		h.t.Errorf("truncated to %d instead of %d", end, at)
	}
	h.cut(end)
	h.durable = min(h.durable, end)
}

// cut forgets what lies at and above an offset.
func (h *cleanHistory) cut(end int64) {
	h.end = end
	for i, a := range h.sent {
		if a != nil && a.LastOffset >= end {
			h.sent[i] = nil
		}
	}
	for i, p := range h.sequence {
		h.sequence[i] = p
		h.sh.mu.Lock()
		if state := h.sh.producers.byID[int64(i)]; state != nil && len(state.batches) > 0 {
			h.sequence[i] = nextSequence(state.batches[len(state.batches)-1].lastSequence, 1)
		}
		h.sh.mu.Unlock()
	}
}

// compare reads the log: offsets rise, every record is one that was written, and of each key the last is there
// unless it is a tombstone that may be gone. Below compacted nothing else is.
func (h *cleanHistory) compare(compacted int64) {
	h.t.Helper()
	if h.disk.IsCut() {
		return
	}
	st := h.sh.State()
	if st.LogStart != h.start || st.LogEnd != h.end {
		h.t.Errorf("log %d to %d, want %d to %d", st.LogStart, st.LogEnd, h.start, h.end)
		return
	}
	last, lastBelow := map[string]int64{}, map[string]int64{}
	for offset := h.start; offset < h.end; offset++ {
		last[h.records[offset].key] = offset
		if offset < compacted {
			lastBelow[h.records[offset].key] = offset
		}
	}
	found := map[int64]bool{}
	var newest int64 = -1
	err := eachRecord(h.sh, func(r *model.Record) {
		want, ok := h.records[r.Offset]
		if r.Offset >= h.end || !ok || want.key != string(r.Key) || want.value != string(r.Value) || want.tombstone != (r.Value == nil) {
			h.t.Errorf("offset %d holds %s=%s, want %+v", r.Offset, r.Key, r.Value, want)
		}
		if r.Offset < compacted && lastBelow[string(r.Key)] != r.Offset {
			h.t.Errorf("offset %d of %s is left, %d is its last below %d", r.Offset, r.Key, lastBelow[string(r.Key)], compacted)
		}
		found[r.Offset] = true
		newest = max(newest, want.timestamp)
	})
	if err != nil {
		if !h.disk.IsCut() {
			h.t.Error(err)
		}
		return
	}
	for key, offset := range last {
		r := h.records[offset]
		if !found[offset] && !h.replaced[offset] && !(r.tombstone && r.timestamp+h.config.DeleteRetention.Milliseconds() <= h.now.UnixMilli()+10) {
			h.t.Errorf("key %s: its last record at %d is gone", key, offset)
		}
	}
	h.compareTimes(found)
}

// compareTimes looks for a record by time.
func (h *cleanHistory) compareTimes(found map[int64]bool) {
	h.t.Helper()
	ts := h.now.UnixMilli() - h.random.Int64N(100_000)
	want := int64(-1)
	for offset := h.start; offset < h.end && want < 0; offset++ {
		if found[offset] && h.records[offset].timestamp >= ts {
			want = offset
		}
	}
	got, _, _, ok, err := h.sh.OffsetForTimestamp(ts)
	if err != nil || ok != (want >= 0) || ok && got != want {
		h.t.Errorf("offset for %d: %d %t %v, want %d", ts, got, ok, err, want)
	}
}

// restart stops the store, cleanly or by a power cut, and looks at what is there afterwards.
func (h *cleanHistory) restart(clean bool) {
	mode := disktest.CrashMode(h.random.IntN(len(disktest.CrashModes())))
	before := h.end
	if clean && !h.disk.IsCut() {
		h.note("stop")
		if err := h.store.Close(); err != nil && !h.disk.IsCut() {
			h.t.Errorf("close: %v", err)
		}
		if clean = !h.disk.IsCut(); clean {
			h.disk.CutAfter(-1) // not any more
		}
	} else {
		clean = false
		h.disk.Cut()
		h.store.Close()
	}
	if !clean {
		h.note("power cut, %v", mode)
		h.disk = h.disk.Crash(mode)
	}
	if h.loses && h.random.IntN(4) == 0 {
		h.note("index store lost")
		if err := h.disk.RemoveAll("/data/index"); err != nil {
			h.t.Fatal(err)
		}
	}
	h.inspect()
	h.open()
	st := h.sh.State()
	h.note("log %d to %d", st.LogStart, st.LogEnd)
	if st.Quarantined {
		h.t.Error("quarantined")
		return
	}
	if clean && st.LogEnd != before || st.LogEnd < h.durable {
		h.t.Errorf("log end %d, want %d, at least %d", st.LogEnd, before, h.durable)
	}
	if st.LogStart < h.start {
		h.t.Errorf("log start %d, want %d", st.LogStart, h.start)
	}
	h.start = st.LogStart
	h.cut(st.LogEnd)
	h.durable = h.end
	if !clean {
		// What an append that was not answered left is as good as any.
		h.sent = [3]*Append{}
	}
	h.compare(-1)
}

// inspect looks for damage in the files of a store that is stopped.
func (h *cleanHistory) inspect() {
	err := Inspect("/data", h.disk, &Visitor{Damage: func(d *Damage) error {
		if !bytes.Contains([]byte(d.Error()), []byte("shard.json")) {
			h.note("inspect: %v", d)
		}
		return nil
	}})
	if err != nil {
		h.note("inspect: %v", err)
	}
}

// The power goes at every operation of a compaction: what is found afterwards is the log from before or after, and
// it can be compacted again.
func TestCleanOverPowerCuts(t *testing.T) {
	const keys = 5
	config := ShardConfig{Compact: true, FileDeleteDelay: -1, SegmentBytes: 700}
	now := time.UnixMilli(1_000_000)
	build := func() (*disktest.Disk, *testStore, *Shard) {
		disk := disktest.New(1)
		s := cleanStore(t, disk, &now)
		sh := s.shard(1, config)
		for i := range 12 {
			put(t, s, sh, int64(i%2), int32(i/2*2), fmt.Sprintf("k%d=%d", i%keys, i), fmt.Sprintf("k%d=%d", (i+2)%keys, 100+i))
		}
		roll(sh)
		put(t, s, sh, -1, 0, "active=1")
		if err := s.keeper.checkpointAll(s.all()); err != nil {
			t.Fatal(err)
		}
		return disk, s, sh
	}
	disk, s, sh := build()
	before := disk.Changes()
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	operations := disk.Changes() - before
	want := keyedLog(t, sh)
	s.Close()
	t.Logf("%d operations", operations)
	for n := range operations {
		for _, mode := range []disktest.CrashMode{disktest.CrashDrop, disktest.CrashKeep, disktest.CrashMix} {
			disk, s, sh := build()
			disk.CutAfter(n)
			cleanNow(t, s, sh)
			disk.Cut()
			s.Close()
			after := disk.Crash(mode)
			if n%3 == 2 {
				if err := after.RemoveAll("/data/index"); err != nil {
					t.Fatal(err)
				}
			}
			s = cleanStore(t, after, &now)
			sh = s.shard(1, config)
			if err := eachRecord(sh, func(*model.Record) {}); err != nil || sh.State().LogEnd != 25 || sh.State().Quarantined {
				t.Fatalf("cut at %d, %v: %+v, %v", n, mode, sh.State(), err)
			}
			if err := cleanNow(t, s, sh); err != nil {
				t.Fatalf("cut at %d, %v: compaction: %v", n, mode, err)
			}
			if got := keyedLog(t, sh); got != want {
				t.Fatalf("cut at %d, %v:\nlog:  %s\nwant: %s", n, mode, got, want)
			}
			again := put(t, s, sh, 1, 10, "k0=105", "k3=111")
			if !again.Duplicate {
				t.Fatalf("cut at %d, %v: repetition is taken as new", n, mode)
			}
			s.Close()
		}
	}
}
