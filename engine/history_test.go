package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"millrace/diskio"
	"millrace/diskio/disktest"
	"millrace/engine/model"
)

var (
	historySeed  = flag.Uint64("history.seed", 0, "seed of TestHistory; 0 tries many")
	historySteps = flag.Int("history.steps", 200, "steps of a history")
)

// historyCutsDefault is how many power cuts and kills a test run survives; a fifth under the race detector.
// MILLRACE_TEST_CUTS asks for others, and MILLRACE_TEST_TIME ends the run after so long.
const historyCutsDefault = 600

// modelShard is what a simple mind expects of a shard.
type modelShard struct {
	id       model.ShardID
	config   ShardConfig
	values   map[int64][]byte // published
	times    map[int64]int64
	start    int64
	end      int64
	durable  int64              // the log reaches at least there after any crash
	startMin int64              // the log start is at least there after any crash
	maybe    map[int64][][]byte // answered with an error, or not at all: may be there after a crash
	appends  []modelAppend
	epochs   map[epochOffset][]byte // ever published: within an epoch no offset is used twice
	replaced map[int64]bool         // compaction may have removed it
}

type epochOffset struct {
	epoch  int32
	offset int64
}

type modelAppend struct {
	base, last int64
	producer   int
	sequence   int32
	epoch      int16
	n          int32
}

// history drives a store and its model.
type history struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	disk   *disktest.Disk
	store  *testStore
	shards []*modelShard
	clock  time.Time
	tag    int64
	next   [3][4]int32 // shard, producer: next sequence
	epochs [3][4]int16
	epoch  int32
	cuts   int64
	made   int // shards
	log    []string
}

func TestHistory(t *testing.T) {
	cuts, err := strconv.ParseInt(cmp.Or(os.Getenv("MILLRACE_TEST_CUTS"), strconv.Itoa(historyCutsDefault)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	span, err := time.ParseDuration(cmp.Or(os.Getenv("MILLRACE_TEST_TIME"), "1000h"))
	if err != nil {
		t.Fatal(err)
	}
	if raceEnabled && os.Getenv("MILLRACE_TEST_CUTS") == "" {
		cuts /= 5
	}
	if *historySeed != 0 {
		runHistory(t, *historySeed)
		return
	}
	began := time.Now()
	var done atomic.Int64
	for worker := range 2 {
		t.Run(fmt.Sprint("worker=", worker), func(t *testing.T) {
			t.Parallel()
			for done.Load() < cuts && !t.Failed() && time.Since(began) < span {
				done.Add(runHistory(t, rand.Uint64()))
			}
		})
	}
	t.Cleanup(func() { t.Logf("%d power cuts and kills in %v", done.Load(), time.Since(began)) })
}

func runHistory(t *testing.T, seed uint64) int64 {
	h := &history{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), disk: disktest.New(seed),
		clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	defer func() {
		if t.Failed() {
			t.Logf("repeat: go test -run TestHistory ./engine -history.seed=%d -history.steps=%d", seed, *historySteps)
			for _, line := range h.log[max(0, len(h.log)-80):] {
				t.Log(line)
			}
		}
	}()
	for i := range h.next {
		h.shards = append(h.shards, h.newModel(i))
	}
	h.open()
	for range *historySteps {
		h.step()
		if t.Failed() {
			return h.cuts
		}
	}
	h.restart(true)
	h.store.Close()
	return h.cuts
}

// newModel begins a shard of its own identity.
func (h *history) newModel(i int) *modelShard {
	m := &modelShard{values: map[int64][]byte{}, times: map[int64]int64{}, maybe: map[int64][][]byte{}, epochs: map[epochOffset][]byte{},
		replaced: map[int64]bool{}}
	h.made++
	m.id = testID(h.made)
	m.config = ShardConfig{SegmentBytes: 4 << 10 << (2 * i), RetentionAge: Forever, FileDeleteDelay: -1}
	if i == 1 {
		m.config.FlushMessages = 1
	}
	m.config.Compact = i == 0
	return m
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *history) options() Options {
	return Options{
		Dir: "/data", FS: h.disk, IndexFS: h.disk.PebbleFS(), ReserveBytes: 1, Now: func() time.Time { return h.clock },
		CheckpointInterval: time.Hour, RetentionCheckInterval: time.Hour, Logger: slog.New(slog.DiscardHandler),
		OpenSegmentsMax: 4,
	}
}

func (h *history) open() {
	h.t.Helper()
	o := h.options()
	if testing.Verbose() && *historySeed != 0 {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	sink := newTestSink()
	o.Sinks = []Sink{sink}
	s, err := Open(context.Background(), o)
	if err != nil {
		h.t.Fatalf("open: %v", err)
	}
	h.store = &testStore{Store: s, t: h.t, dir: o.Dir, fs: o.FS, sink: sink, opts: o}
	if !s.Clean() {
		h.epoch++
	}
	for i := range h.shards {
		h.shard(i)
	}
}

func (h *history) shard(i int) *Shard {
	h.t.Helper()
	sh, err := h.store.EnsureShard(h.shards[i].id, ShardSpec{TopicName: "t", LeaderEpoch: h.epoch, Config: h.shards[i].config})
	if err != nil {
		h.t.Fatal(err)
	}
	return sh
}

func (h *history) step() {
	i := h.random.IntN(len(h.shards))
	if h.disk.IsCut() {
		h.restart(false)
		return
	}
	switch p := h.random.IntN(100); {
	case p < 42:
		h.appendSome(i)
	case p < 50:
		h.resend(i)
	case p < 57:
		h.read(i)
	case p < 62:
		h.deleteRecords(i)
	case p < 66:
		h.truncate(i)
	case p < 70:
		h.note("checkpoint")
		if err := h.store.keeper.checkpointAll(h.store.all()); err != nil && !h.disk.IsCut() {
			h.t.Errorf("checkpoint: %v", err)
		}
	case p < 73:
		h.store.indexer.flush()
	case p < 75:
		h.retain(i)
	case p < 78:
		h.times(i)
	case p < 80:
		h.clock = h.clock.Add(time.Duration(h.random.IntN(3600)) * time.Second)
	case p < 82:
		h.epoch++ // a new leader
	case p < 83:
		h.recreate(i)
	case p < 86:
		h.flip(i)
	case p < 90:
		h.compact(i)
	case p < 94:
		h.disk.CutAfter(int64(h.random.IntN(40)))
	case p < 95:
		h.restart(true)
	default:
		h.restart(false)
	}
}

// appendSome submits a few appends at once and looks at what became of them.
func (h *history) appendSome(i int) {
	sh, m := h.shard(i), h.shards[i]
	n := 1 + h.random.IntN(4)
	var sent []*Append
	for range n {
		h.tag++
		b := batchOf(1+h.random.IntN(8), 16+h.random.IntN(300), h.tag)
		if h.random.IntN(20) == 0 {
			b = batchOf(3, 90_000, h.tag)
		}
		b.timestamp, b.keyed = h.clock.UnixMilli()+int64(h.random.IntN(1000)), m.config.Compact
		a := appendOf(b)
		a.User = b
		if p := h.random.IntN(6); p < 4 {
			a.Header.ProducerID, a.Header.ProducerEpoch = int64(100+p), h.epochs[i][p]
			a.Header.BaseSequence = h.next[i][p]
			a.Header.LastSequence = h.next[i][p] + int32(len(b.values)) - 1
			h.next[i][p] += int32(len(b.values))
			a.Slot = int32(p)
		} else {
			a.Slot = -1
		}
		if err := sh.Submit(a, b); err != nil {
			if !h.disk.IsCut() && !errors.Is(err, ErrOutOfOrderSequence) {
				h.t.Errorf("submit: %v", err)
			}
			h.forget(i)
			continue
		}
		sent = append(sent, a)
	}
	for _, a := range h.store.sink.wait(h.t, len(sent)) {
		h.settle(m, i, a)
	}
}

// settle notes what became of an append.
func (h *history) settle(m *modelShard, i int, a *Append) {
	b := a.User.(*testBatch)
	if a.Err != nil {
		h.note("append to %d failed: %v", i, a.Err)
		if !h.disk.IsCut() {
			h.t.Errorf("append: %v", a.Err)
		}
		for k, v := range b.values {
			at := a.Header.BaseOffset + int64(k)
			m.maybe[at] = append(m.maybe[at], v)
		}
		h.forget(i)
		return
	}
	if a.BaseOffset != m.end {
		h.t.Errorf("shard %d: append at %d, want %d", i, a.BaseOffset, m.end)
	}
	for k, v := range b.values {
		m.values[a.BaseOffset+int64(k)] = v
		m.times[a.BaseOffset+int64(k)] = b.timestamp
		h.publish(i, a.Header.LeaderEpoch, a.BaseOffset+int64(k), v)
	}
	m.end = a.LastOffset + 1
	if m.config.FlushMessages == 1 {
		m.durable = m.end
	}
	m.appends = append(m.appends, modelAppend{
		a.BaseOffset, a.LastOffset, int(a.Slot), a.Header.BaseSequence, a.Header.ProducerEpoch, int32(len(b.values)),
	})
}

// forget lets every producer of a shard begin a new epoch, as a client does that does not know what became
// of its appends.
func (h *history) forget(i int) {
	for p := range h.next[i] {
		h.next[i][p] = 0
		h.epochs[i][p]++
	}
}

// resend repeats one of a producer's last five batches.
func (h *history) resend(i int) {
	sh, m := h.shard(i), h.shards[i]
	p := h.random.IntN(4)
	var last []modelAppend
	for k := len(m.appends) - 1; k >= 0 && len(last) < 5; k-- {
		if a := m.appends[k]; a.producer == p && a.epoch == h.epochs[i][p] {
			last = append(last, a)
		}
	}
	if len(last) == 0 {
		return
	}
	want := last[h.random.IntN(len(last))]
	b := batchOf(int(want.n), 20, 1)
	a := appendOf(b)
	a.User, a.Slot = b, int32(p)
	a.Header.ProducerID, a.Header.ProducerEpoch = int64(100+p), want.epoch
	a.Header.BaseSequence, a.Header.LastSequence = want.sequence, want.sequence+want.n-1
	err := sh.Submit(a, b)
	if err == nil {
		a = h.store.sink.wait(h.t, 1)[0]
		err = a.Err
	}
	if h.disk.IsCut() {
		return
	}
	if err != nil || !a.Duplicate || a.BaseOffset != want.base || a.LastOffset != want.last {
		h.t.Errorf("shard %d: resent %+v is answered %v, %+v", i, want, err, a)
	}
}

func (h *history) read(i int) {
	sh, m := h.shard(i), h.shards[i]
	from := m.start
	if m.end > m.start {
		from += h.random.Int64N(m.end - m.start)
	}
	h.compare(i, sh, from, 1<<h.random.IntN(20))
}

// compare reads from an offset to the end and compares all values.
func (h *history) compare(i int, sh *Shard, from int64, maxBytes int) {
	m := h.shards[i]
	got, err := tryReadAll(h.t, sh, from, maxBytes)
	if h.disk.IsCut() {
		return
	}
	if err != nil {
		h.t.Error(err)
		return
	}
	for offset := from; offset < m.end; offset++ {
		if !m.right(offset, got[offset]) {
			h.t.Errorf("shard %d offset %d: got %x, want %x", i, offset, head(got[offset]), head(m.values[offset]))
			return
		}
	}
	if int64(len(got)) != m.end-from && len(m.replaced) == 0 {
		h.t.Errorf("shard %d from %d: %d records, want %d", i, from, len(got), m.end-from)
	}
}

// right tells whether a value is the one that an offset has to have, or none where compaction may have taken it.
func (m *modelShard) right(offset int64, got []byte) bool {
	return bytes.Equal(got, m.values[offset]) || got == nil && m.replaced[offset]
}

func head(b []byte) []byte { return b[:min(len(b), 16)] }

func (h *history) deleteRecords(i int) {
	sh, m := h.shard(i), h.shards[i]
	before := m.start + h.random.Int64N(m.end-m.start+1)
	h.note("delete records of %d below %d (%d to %d)", i, before, m.start, m.end)
	start, err := sh.DeleteRecords(before)
	if err != nil {
		if !h.disk.IsCut() {
			h.t.Errorf("delete records: %v", err)
		}
		// It may or may not have happened.
		return
	}
	if start != before {
		h.t.Errorf("shard %d: log start %d, want %d", i, start, before)
	}
	m.start, m.startMin = before, before
	for o := range m.values {
		if o < m.start {
			delete(m.values, o)
		}
	}
}

func (h *history) truncate(i int) {
	sh, m := h.shard(i), h.shards[i]
	if m.end == m.start || h.random.IntN(3) > 0 {
		return
	}
	at := m.start + h.random.Int64N(m.end-m.start)
	h.note("truncate %d to %d (%d to %d)", i, at, m.start, m.end)
	err := sh.Truncate(at)
	h.epoch++ // it is a new leader that asks for it
	if err != nil && !h.disk.IsCut() {
		h.t.Errorf("truncate to %d: %v", at, err)
		return
	}
	cut := at
	if st := sh.State(); err == nil && st.LogEnd < at {
		cut = st.LogEnd // of an append that nobody answered before a restart the model knows no base
	}
	for _, a := range m.appends {
		if a.base <= at && at <= a.last && !m.config.Compact {
			cut = max(a.base, m.start)
		}
	}
	if m.config.Compact && err != nil {
		cut = m.start // of what compaction removed before it nothing tells where it ended
	}
	if err != nil {
		m.durable = min(m.durable, cut) // it may have happened
		for o, v := range m.values {
			if o >= cut {
				m.maybe[o] = append(m.maybe[o], v)
			}
		}
		return
	}
	if st := sh.State(); st.LogEnd != max(cut, 0) && cut >= m.start || st.LogStart > st.LogEnd {
		h.t.Errorf("shard %d truncated to %d: %+v, want log end %d", i, at, st, cut)
	}
	h.cut(i, cut)
	m.durable = cut
	for k := range m.appends {
		m.appends[k].producer = -1 // of a producer whose last five batches were cut nothing is known
	}
	h.forget(i)
}

// cut ends the model's log.
func (h *history) cut(i int, end int64) {
	m := h.shards[i]
	m.end = end
	for o := range m.values {
		if o >= end {
			delete(m.values, o)
		}
	}
	maps.DeleteFunc(m.replaced, func(o int64, _ bool) bool { return o >= end })
	for len(m.appends) > 0 && m.appends[len(m.appends)-1].last >= end {
		m.appends = m.appends[:len(m.appends)-1]
	}
}

// retain lets everything that is older than half an hour go.
func (h *history) retain(i int) {
	sh, m := h.shard(i), h.shards[i]
	c := m.config
	c.RetentionAge = 30 * time.Minute
	c.EnsureDefaults()
	sh.SetConfig(c)
	err := sh.retain(h.clock.UnixMilli(), true)
	sh.SetConfig(m.config)
	if err != nil && !h.disk.IsCut() {
		h.t.Errorf("retention: %v", err)
	}
	st := sh.State()
	for o := m.start; o < st.LogStart; o++ {
		if h.clock.UnixMilli()-m.times[o] < 29*60*1000 && !m.replaced[o] {
			h.t.Errorf("shard %d: retention took offset %d of age %d ms", i, o, h.clock.UnixMilli()-m.times[o])
		}
		delete(m.values, o)
	}
	if err == nil {
		m.startMin = st.LogStart
	}
	h.note("retention of %d: %d to %d, end %d", i, m.start, st.LogStart, st.LogEnd)
	m.start = st.LogStart
	if st.LogEnd != m.end {
		h.t.Errorf("shard %d: retention moved the log end to %d from %d", i, st.LogEnd, m.end)
	}
}

// times compares time look-ups.
func (h *history) times(i int) {
	sh, m := h.shard(i), h.shards[i]
	if len(m.replaced) > 0 {
		return // of which it is not known whether they are there
	}
	ts := h.clock.UnixMilli() - int64(h.random.IntN(3_000_000)) + 1000
	want := int64(-1)
	for o := m.start; o < m.end; o++ {
		if m.times[o] >= ts {
			want = o
			break
		}
	}
	offset, timestamp, _, found, err := sh.OffsetForTimestamp(ts)
	if h.disk.IsCut() {
		return
	}
	if err != nil || found != (want >= 0) || found && (offset != want || timestamp != m.times[want]) {
		h.t.Errorf("shard %d: offset for %d is %d (%d, %v, %v), want %d", i, ts, offset, timestamp, found, err, want)
	}
	most, at := int64(noTimestamp), int64(-1)
	for o := m.start; o < m.end; o++ {
		if m.times[o] > most {
			most, at = m.times[o], o
		}
	}
	offset, timestamp, _, found, err = sh.MaxTimestamp()
	if h.disk.IsCut() {
		return
	}
	if err != nil || found != (at >= 0) || found && (offset != at || timestamp != most) {
		h.t.Errorf("shard %d: largest timestamp %d at %d (%v, %v), want %d at %d", i, timestamp, offset, found, err, most, at)
	}
}

// restart stops the store, cleanly or by a power cut, and compares what the next one finds.
func (h *history) restart(clean bool) {
	mode := disktest.CrashKeep
	if h.disk.IsCut() {
		clean = false
	}
	if clean {
		err := h.store.Close()
		if clean = !h.disk.IsCut(); clean {
			if err != nil {
				h.t.Fatalf("close: %v", err)
			}
			for _, m := range h.shards {
				m.durable = m.end
			}
		}
	}
	if !clean {
		modes := disktest.CrashModes()
		mode = modes[h.random.IntN(len(modes))]
		h.disk.Cut()
		h.store.Close()
	}
	h.note("restart, clean %v, mode %v", clean, mode)
	h.disk = h.disk.Crash(mode)
	if !clean {
		h.cuts++
	}
	bare := h.disk.Crash(disktest.CrashKeep)
	h.open()
	h.removeOrphans()
	if clean && !h.store.Clean() {
		h.t.Errorf("a clean stop is not seen as one")
	}
	for i, m := range h.shards {
		h.found(i, m, clean, mode)
	}
	if clean && !h.t.Failed() && os.Getenv("MILLRACE_TEST_WITHOUT_INDEX") != "" {
		h.withoutIndex(bare)
	}
}

// found compares a recovered shard and takes over what it lost or kept.
func (h *history) found(i int, m *modelShard, clean bool, mode disktest.CrashMode) {
	sh := h.shard(i)
	st := sh.State()
	h.note("shard %d found: %+v, model %d to %d, durable %d", i, st, m.start, m.end, m.durable)
	least := m.durable
	if mode == disktest.CrashKeep && len(m.maybe) == 0 {
		least = m.end
	}
	if st.LogStart < m.startMin || st.LogStart > st.LogEnd || clean && st.LogStart != m.start {
		h.t.Errorf("shard %d: log start %d, want %d (log end %d)", i, st.LogStart, m.start, st.LogEnd)
	}
	if st.LogEnd < least {
		h.t.Errorf("shard %d: log end %d, want at least %d (mode %v)", i, st.LogEnd, least, mode)
	}
	got := readAll(h.t, sh, st.LogStart, 1<<20)
	for o := st.LogStart; o < st.LogEnd; o++ {
		if got[o] == nil && m.replaced[o] {
			continue
		}
		ok := bytes.Equal(got[o], m.values[o]) && m.values[o] != nil
		for _, v := range m.maybe[o] {
			ok = ok || bytes.Equal(got[o], v)
		}
		if !ok && o >= m.start {
			h.t.Errorf("shard %d offset %d: got %x, want %x", i, o, head(got[o]), head(m.values[o]))
			return
		}
		if got[o] == nil {
			h.t.Errorf("shard %d offset %d is missing", i, o)
			return
		}
		if !bytes.Equal(got[o], m.values[o]) {
			m.values[o] = got[o]
			m.times[o] = h.timeOf(sh, o)
		}
		h.publish(i, sh.EpochAt(o), o, got[o])
	}
	if len(m.maybe) == 0 {
		h.stillKnown(i, m, st)
	}
	if st.LogEnd != m.end || len(m.maybe) > 0 {
		if st.LogEnd < m.end {
			h.cut(i, st.LogEnd)
		}
		h.forget(i)
	}
	if !clean {
		// What was in front may have been lost before it was durable, and what only it told of producers with it.
		m.appends = slices.DeleteFunc(m.appends, func(a modelAppend) bool { return a.base < st.LogStart })
	}
	m.start, m.end, m.durable = st.LogStart, st.LogEnd, st.LogEnd
	m.startMin = st.LogStart
	m.maybe = map[int64][][]byte{}
}

// timeOf reads the timestamp of a record.
func (h *history) timeOf(sh *Shard, offset int64) int64 {
	var sp Span
	defer sp.Release()
	if err := sh.ReadBlocking(&sp, offset, 1<<62, 1); err != nil {
		h.t.Fatal(err)
	}
	out := int64(0)
	parseSpan(h.t, sh, &sp, func(r *model.Record) {
		if r.Offset == offset {
			out = sp.Header.BaseTimestamp + r.TimestampDelta
		}
	})
	return out
}

var _ diskio.FS = (*disktest.Disk)(nil)
