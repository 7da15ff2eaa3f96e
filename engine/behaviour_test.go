package engine

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"millrace/diskio"
	"millrace/engine/model"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("does not happen: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// fakeClock is a clock that tests move.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) add(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
}

func clocked(t *testing.T) (*testStore, *fakeClock) {
	t.Helper()
	clock := &fakeClock{now: time.UnixMilli(1_800_000_000_000)}
	o := testOptions(t, t.TempDir())
	o.Now = clock.Now
	o.RetentionCheckInterval = time.Hour
	return openTest(t, o), clock
}

func (b *testBatch) at(ts int64) *testBatch { b.timestamp = ts; return b }

// Segments that began at once are sealed at different times within the jitter, each at the same time whenever it is
// asked.
func TestJitterOfSegments(t *testing.T) {
	s, clock := clocked(t)
	config := ShardConfig{SegmentAge: time.Hour, SegmentJitter: 30 * time.Minute}
	begun := clock.Now().UnixMilli()
	due := map[int]bool{}
	for n := range 20 {
		sh := s.shard(n, config)
		s.append(sh, batchOf(1, 10, 1).at(begun))
		segment, minute := sh.list.Load().active(), 0
		for !sh.tooOld(segment, &config, begun+int64(minute)*time.Minute.Milliseconds()) {
			minute++
		}
		if minute < 30 || minute > 60 {
			t.Errorf("sealed after %d minutes", minute)
		}
		due[minute] = true
	}
	if len(due) < 5 {
		t.Errorf("all within %d minutes", len(due))
	}
}

func TestRetentionByAge(t *testing.T) {
	s, clock := clocked(t)
	sh := s.shard(1, ShardConfig{SegmentBytes: 2500, RetentionAge: time.Hour, FileDeleteDelay: -1})
	for range 10 {
		s.append(sh, batchOf(10, 100, 1).at(clock.Now().UnixMilli()))
		clock.add(10 * time.Minute)
	}
	if err := sh.retain(clock.Now().UnixMilli(), true); err != nil {
		t.Fatal(err)
	}
	st := sh.State()
	if st.LogStart != 40 || st.LogEnd != 100 {
		t.Fatalf("state %+v", st)
	}
	// An idle topic: the active segment is sealed and goes too, and no offset comes again.
	clock.add(2 * time.Hour)
	if err := sh.retain(clock.Now().UnixMilli(), false); err != nil || sh.State() != st {
		t.Fatalf("deleted by age although the clock is not trusted: %v", err)
	}
	if err := sh.retain(clock.Now().UnixMilli(), true); err != nil {
		t.Fatal(err)
	}
	if st := sh.State(); st.LogStart != 100 || st.LogEnd != 100 {
		t.Fatalf("state %+v", st)
	}
	eventually(t, "files are removed", func() bool {
		files, _ := filepath.Glob(filepath.Join(sh.dir, "*.msg*"))
		return len(files) == 1
	})
	if a := s.append(sh, batchOf(1, 10, 1)); a.BaseOffset != 100 {
		t.Fatalf("append: %+v", a)
	}
	kill(s)
	again := openTest(t, s.opts)
	if st := again.shard(1, ShardConfig{}).State(); st.LogStart != 100 || st.LogEnd != 101 {
		t.Fatalf("after a kill: %+v", st)
	}
}

func TestK15K16RetentionTimes(t *testing.T) {
	s, clock := clocked(t)
	c := ShardConfig{SegmentBytes: 1200, RetentionAge: 7 * 24 * time.Hour, FileDeleteDelay: -1}
	for i, ts := range []int64{500, -1, clock.Now().AddDate(10, 0, 0).UnixMilli()} {
		sh := s.shard(i, c)
		for range 3 {
			s.append(sh, batchOf(10, 100, 1).at(ts))
		}
		if err := sh.retain(clock.Now().UnixMilli(), true); err != nil {
			t.Fatal(err)
		}
		want := []int64{30, 0, 0}[i] // 1970 goes at once; -1 counts as when it was written; the future stays
		if st := sh.State(); st.LogStart != want {
			t.Errorf("timestamp %d: %+v, want log start %d", ts, st, want)
		}
	}
	clock.add(8 * 24 * time.Hour)
	for i, want := range []int64{30, 30, 0} {
		if err := s.shard(i, c).retain(clock.Now().UnixMilli(), true); err != nil {
			t.Fatal(err)
		}
		if st := s.shard(i, c).State(); st.LogStart != want {
			t.Errorf("shard %d later: %+v, want log start %d", i, st, want)
		}
	}
	c.RetentionBytes = 1300
	sh := s.shard(2, c)
	if err := sh.retain(clock.Now().UnixMilli(), true); err != nil || sh.State().LogStart != 20 {
		t.Errorf("retention by bytes: %+v, %v", sh.State(), err)
	}
}

func TestSegmentAge(t *testing.T) {
	s, clock := clocked(t)
	sh := s.shard(1, ShardConfig{SegmentAge: time.Hour})
	for i := range 6 {
		s.append(sh, batchOf(1, 10, 1))
		clock.add(25 * time.Minute)
		if want := 1 + i/3; len(sh.list.Load().segments) != want {
			t.Fatalf("append %d: %d segments, want %d", i, len(sh.list.Load().segments), want)
		}
	}
}

// A reader holds bytes of a segment while DeleteRecords removes it: they stay, the file's space is given back
// when the reader lets go, and new reads are out of range.
func TestK13ReaderKeepsItsBytes(t *testing.T) {
	s := openTest(t, testOptions(t, t.TempDir()))
	sh := s.shard(1, ShardConfig{SegmentBytes: 3000, FileDeleteDelay: -1})
	for i := range 10 {
		s.append(sh, batchOf(10, 100, int64(i)))
	}
	var sp Span
	if err := sh.ReadBlocking(&sp, 3, math.MaxInt64, 1<<20); err != nil {
		t.Fatal(err)
	}
	held := sp.handle
	if start, err := sh.DeleteRecords(100); err != nil || start != 100 {
		t.Fatal(start, err)
	}
	eventually(t, "files are removed", func() bool {
		files, _ := filepath.Glob(filepath.Join(sh.dir, "*.msg*"))
		return len(files) == 1
	})
	count := 0
	parseSpan(t, sh, &sp, func(*model.Record) { count++ })
	if count != 20 || held.refs.Load() != 1 {
		t.Fatalf("%d records, %d references", count, held.refs.Load())
	}
	open := s.metrics.SegmentsOpen.Load()
	sp.Release()
	eventually(t, "the segment is closed", func() bool { return s.metrics.SegmentsOpen.Load() == open-1 })
	if err := sh.ReadBlocking(&sp, 3, math.MaxInt64, 1<<20); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("read: %v", err)
	}
	if _, err := sh.DeleteRecords(101); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("delete above the high watermark: %v", err)
	}
	kill(s)
	if st := openTest(t, s.opts).shard(1, ShardConfig{}).State(); st.LogStart != 100 || st.LogEnd != 100 {
		t.Fatalf("after a kill: %+v", st)
	}
}

func TestSubmitRefusals(t *testing.T) {
	s := openTest(t, testOptions(t, t.TempDir()))
	sh := s.shard(1, ShardConfig{})
	sh.SetLeaderEpoch(5)
	submit := func(change func(*Append, *testBatch)) error {
		b := batchOf(2, 10, 1)
		a := appendOf(b)
		change(a, b)
		err := sh.Submit(a, b)
		if err == nil {
			err = s.sink.wait(t, 1)[0].Err
		}
		return err
	}
	check := func(want error, change func(*Append, *testBatch)) {
		t.Helper()
		if err := submit(change); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	own := errors.New("the encoder's own")
	check(ErrFencedEpoch, func(a *Append, _ *testBatch) { a.ExpectedEpoch = 4 })
	check(ErrUnknownEpoch, func(a *Append, _ *testBatch) { a.ExpectedEpoch = 6 })
	check(own, func(_ *Append, b *testBatch) { b.err = own })
	check(nil, func(a *Append, _ *testBatch) { a.ExpectedEpoch = 5 })
	sh.SetLeaderEpoch(3)
	if st := sh.State(); st.LeaderEpoch != 5 || st.LogEnd != 2 {
		t.Errorf("state %+v", st)
	}
	s.Store.opts.GatherBytesMax = -1
	check(ErrBackpressure, func(*Append, *testBatch) {})
	s.Store.opts.GatherBytesMax = 1 << 30
	if err := s.DropShards(sh.ID()); err != nil {
		t.Fatal(err)
	}
	check(ErrShardDeleted, func(*Append, *testBatch) {})
	var sp Span
	if err := sh.Read(&sp, 0, math.MaxInt64, 1); !errors.Is(err, ErrShardDeleted) {
		t.Errorf("read: %v", err)
	}
	if s.Shard(sh.ID()) != nil || !sh.State().Deleted {
		t.Error("the shard is still there")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(ErrClosed, func(*Append, *testBatch) {})
}

// A batch is sent again while the first is still on its way: both are answered with the same offset, in order.
func TestD15DuplicateInFlight(t *testing.T) {
	s := openTest(t, testOptions(t, t.TempDir()))
	sh := s.shard(1, ShardConfig{FlushMessages: 1})
	for i := range int32(50) {
		b := batchOf(2, 10, int64(i))
		for range 3 {
			a := appendOf(b)
			a.RequireHighWatermark = true
			a.Header.ProducerID, a.Header.ProducerEpoch = 1, 0
			a.Header.BaseSequence, a.Header.LastSequence = 2*i, 2*i+1
			if err := sh.Submit(a, b); err != nil {
				t.Fatal(err)
			}
		}
		for k, a := range s.sink.wait(t, 3) {
			if a.Err != nil || a.Duplicate != (k > 0) || a.BaseOffset != int64(2*i) || a.LastOffset != int64(2*i+1) || a.MaxTimestamp != b.timestamp {
				t.Fatalf("batch %d, sent %d: %+v", i, k, a)
			}
			if sh.State().HighWatermark <= a.LastOffset {
				t.Fatal("acknowledged before the high watermark passed it")
			}
		}
	}
	if st := sh.State(); st.LogEnd != 100 {
		t.Fatalf("state %+v", st)
	}
	if p := sh.Producers(); len(p) != 1 || p[0].LastSequence != 99 || p[0].LastOffset != 99 || p[0].Epoch != 0 {
		t.Errorf("producers %+v", p)
	}
}

// All five last batches are known again after a clean stop and after a kill.
func TestD08DuplicatesAfterRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		o := testOptions(t, t.TempDir())
		s := openTest(t, o)
		sh := s.shard(1, ShardConfig{})
		send := func(s *testStore, sh *Shard, i int32) *Append {
			b := batchOf(3, 10, int64(i))
			a := appendOf(b)
			a.Header.ProducerID, a.Header.ProducerEpoch = 1, 2
			a.Header.BaseSequence, a.Header.LastSequence = 3*i, 3*i+2
			if err := sh.Submit(a, b); err != nil {
				t.Fatal(err)
			}
			return s.sink.wait(t, 1)[0]
		}
		for i := range int32(4) {
			send(s, sh, i)
		}
		if err := s.keeper.checkpointAll(s.all()); err != nil {
			t.Fatal(err)
		}
		for i := int32(4); i < 8; i++ {
			send(s, sh, i)
		}
		if clean {
			s.Close()
		} else {
			kill(s)
		}
		s = openTest(t, o)
		if s.Clean() != clean {
			t.Fatalf("clean %v", s.Clean())
		}
		sh = s.shard(1, ShardConfig{})
		for i := int32(3); i < 8; i++ {
			if a := send(s, sh, i); !a.Duplicate || a.BaseOffset != int64(3*i) {
				t.Errorf("clean %v, batch %d: %+v", clean, i, a)
			}
		}
		if a := send(s, sh, 8); a.Duplicate || a.BaseOffset != 24 {
			t.Errorf("clean %v: next batch %+v", clean, a)
		}
	}
}

func TestF02F03F07TimeLookups(t *testing.T) {
	s := openTest(t, testOptions(t, t.TempDir()))
	sh := s.shard(1, ShardConfig{})
	if _, _, _, found, err := sh.OffsetForTimestamp(0); found || err != nil {
		t.Fatal(found, err)
	}
	if _, _, _, found, err := sh.MaxTimestamp(); found || err != nil {
		t.Fatal(found, err)
	}
	for _, ts := range []int64{2, 4, 6, 8} {
		s.append(sh, batchOf(1, 10, 1).at(ts))
	}
	for i, want := range []int64{0, 0, 1, 1, 2, 2, 3, 3, -1} {
		offset, _, epoch, found, err := sh.OffsetForTimestamp(int64(i + 1))
		if err != nil || found != (want >= 0) || offset != want || found && epoch != 0 {
			t.Errorf("F02 %d: got %d, %v, %v, want %d", i+1, offset, found, err, want)
		}
	}
	b := batchOf(3, 10, 1).at(10)
	b.deltas = []int64{0, 10, 20}
	s.append(sh, b)
	if offset, ts, _, _, _ := sh.OffsetForTimestamp(15); offset != 5 || ts != 20 {
		t.Errorf("F03: %d at %d", offset, ts)
	}
	s.append(sh, batchOf(1, 10, 1).at(25))
	if offset, ts, _, _, _ := sh.MaxTimestamp(); offset != 6 || ts != 30 {
		t.Errorf("largest: %d at %d", offset, ts)
	}
	if _, err := sh.DeleteRecords(7); err != nil {
		t.Fatal(err)
	}
	if offset, ts, _, _, _ := sh.OffsetForTimestamp(1); offset != 7 || ts != 25 {
		t.Errorf("F07: %d at %d", offset, ts)
	}
	if offset, ts, _, _, _ := sh.MaxTimestamp(); offset != 7 || ts != 25 {
		t.Errorf("largest behind the log start: %d at %d", offset, ts)
	}
}

func TestWatchersAreTold(t *testing.T) {
	s := openTest(t, testOptions(t, t.TempDir()))
	sh, silent := s.shard(1, ShardConfig{}), s.shard(2, ShardConfig{})
	told := func(sh *Shard) int {
		s.sink.mu.Lock()
		defer s.sink.mu.Unlock()
		return s.sink.advanced[sh]
	}
	sh.Watch(0)
	s.append(sh, batchOf(3, 10, 1))
	s.append(silent, batchOf(3, 10, 1))
	if told(sh) != 1 || told(silent) != 0 {
		t.Fatalf("told %d and %d times", told(sh), told(silent))
	}
	if _, err := sh.DeleteRecords(2); err != nil || told(sh) != 2 {
		t.Fatalf("log start: %v, told %d times", err, told(sh))
	}
	if sh.SetLeaderEpoch(9); told(sh) != 3 {
		t.Fatal("epoch")
	}
	if err := s.DropShards(sh.ID()); err != nil || told(sh) != 4 {
		t.Fatalf("drop: %v, told %d times", err, told(sh))
	}
}

func TestTimedFlush(t *testing.T) {
	s := openTest(t, testOptions(t, t.TempDir()))
	sh := s.shard(1, ShardConfig{FlushInterval: 5 * time.Millisecond})
	s.append(sh, batchOf(3, 10, 1))
	eventually(t, "the segment is synced", func() bool { return !sh.list.Load().active().dirty() })
}

func TestOrphans(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openTest(t, o)
	for i := range 3 {
		s.append(s.shard(i, ShardConfig{}), batchOf(3, 10, 1))
	}
	s.Close()
	s = openTest(t, o)
	if s.Shard(testID(1)) != nil {
		t.Error("a shard is there that was not ensured")
	}
	s.shard(1, ShardConfig{})
	if n := len(s.Orphans()); n != 2 {
		t.Fatalf("%d orphans", n)
	}
	for _, id := range s.Orphans() {
		if err := s.DropShards(id); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = openTest(t, o)
	if n := len(s.Orphans()); n != 1 {
		t.Fatalf("%d orphans", n)
	}
	// The same topic id comes again: nothing of the old one is read.
	if st := s.shard(2, ShardConfig{}).State(); st.LogEnd != 0 {
		t.Errorf("state %+v", st)
	}
	eventually(t, "directories are removed", func() bool {
		names, _ := os.ReadDir(o.Dir)
		return len(names) == 3 // LOCK, index, one shard
	})
}

// More segments than may be open: readers and writers get theirs all the same.
func TestOpenSegmentsAreBounded(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.OpenSegmentsMax = 5
	s := openTest(t, o)
	var all []*Shard
	for i := range 30 {
		all = append(all, s.shard(i, ShardConfig{SegmentBytes: 3000}))
	}
	for range 5 {
		for i, sh := range all {
			s.append(sh, batchOf(10, 100, int64(i)))
		}
		if err := s.keeper.checkpointAll(s.all()); err != nil {
			t.Fatal(err)
		}
		for _, sh := range all {
			wantValues(t, sh, 0, sh.State().LogEnd)
		}
	}
	eventually(t, "few segments are open", func() bool { return s.metrics.SegmentsOpen.Load() <= 5 })
	if s.metrics.SegmentEvictions.Load() == 0 {
		t.Error("none was closed")
	}
}

// Many loops append to many shards, with readers beside, on each backend.
func TestConcurrentAppends(t *testing.T) {
	for _, backend := range []string{diskio.BackendPosix, diskio.BackendRing} {
		t.Run(backend, func(t *testing.T) {
			dir := t.TempDir()
			fsys, err := diskio.Open(dir, diskio.Options{Backend: backend})
			if errors.Is(err, diskio.ErrRingRefused) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { fsys.Close() })
			s := openTest(t, Options{Dir: filepath.Join(dir, "data"), FS: fsys, Writers: 2, ReserveBytes: 1})
			var sinks []Sink
			for range 4 {
				sinks = append(sinks, &plainSink{done: make(chan *Append, 1000)})
			}
			s.SetSinks(sinks)
			const appends = 150
			var all []*Shard
			for i := range 6 {
				c := ShardConfig{SegmentBytes: 64 << 10}
				if i%3 == 0 {
					c.FlushMessages = 10
				}
				all = append(all, s.shard(i, c))
			}
			var group sync.WaitGroup
			for loop := range sinks {
				group.Go(func() {
					for i := range appends {
						b := batchOf(5, 100, int64(loop))
						a := appendOf(b)
						a.Loop = loop
						if err := all[(loop+i)%len(all)].Submit(a, b); err != nil {
							t.Error(err)
							return
						}
						if a = <-sinks[loop].(*plainSink).done; a.Err != nil || a.Loop != loop {
							t.Error(a.Err)
						}
					}
				})
			}
			group.Go(func() {
				for _, sh := range all {
					readAll(t, sh, 0, 10_000)
				}
			})
			group.Wait()
			total := int64(0)
			for _, sh := range all {
				end := sh.State().LogEnd
				wantValues(t, sh, 0, end)
				total += end
			}
			if total != int64(len(sinks))*appends*5 {
				t.Errorf("%d records", total)
			}
			kill(s)
		})
	}
}
