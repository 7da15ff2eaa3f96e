package engine

import (
	"errors"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"millrace/diskio/disktest"
)

// submitTogether lets one round of the writer take an append to each shard.
func submitTogether(t *testing.T, s *testStore, all []*Shard, tag int64) {
	t.Helper()
	for _, sh := range all {
		sh.mu.Lock()
		sh.queued = true // hold the writer back
		sh.mu.Unlock()
		b := batchOf(2, 100, tag)
		if err := sh.Submit(appendOf(b), b); err != nil {
			t.Fatal(err)
		}
	}
	w := all[0].writer
	w.mu.Lock()
	w.queue = append(w.queue, all...)
	w.mu.Unlock()
	w.wake <- struct{}{}
	for _, a := range s.sink.wait(t, len(all)) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

// wantDirtyOpen checks that no segment was closed before its bytes were synced.
func wantDirtyOpen(t *testing.T, all []*Shard) {
	t.Helper()
	for _, sh := range all {
		if s := sh.list.Load().active(); s != nil && s.dirty() && s.handle.Load() == nil {
			t.Fatalf("segment %s is closed and has bytes to be synced", s.path)
		}
	}
}

// More shards with fresh bytes than files may be open, and no checkpoint for an hour: descriptors do not run
// out, and nothing is closed before it is synced.
func TestFreshShardsDoNotExhaustDescriptors(t *testing.T) {
	const most = 8
	o := testOptions(t, t.TempDir())
	o.OpenSegmentsMax, o.CheckpointInterval = most, time.Hour
	s := openTest(t, o)
	var all []*Shard
	for i := range 60 {
		all = append(all, s.shard(i, ShardConfig{SegmentBytes: 1000}))
	}
	// Beyond the bound: what is synced or read at the moment.
	check := func() {
		t.Helper()
		if n := s.metrics.SegmentsOpen.Load(); n > 2*most {
			t.Fatalf("%d segments are open, want about %d", n, most)
		}
		wantDirtyOpen(t, all)
	}
	for round := range int64(4) {
		for _, sh := range all {
			if a := s.append(sh, batchOf(2, 100, round)); a.Err != nil {
				t.Fatal(a.Err)
			}
			check()
		}
		submitTogether(t, s, all, 100+round)
		check()
	}
	if s.metrics.EarlySyncs.Load() == 0 || s.metrics.Checkpoints.Load() != 0 {
		t.Fatalf("%d early syncs, %d checkpoints", s.metrics.EarlySyncs.Load(), s.metrics.Checkpoints.Load())
	}
	for _, sh := range all {
		wantValues(t, sh, 0, 16)
	}
}

// What was closed to make room survives a power cut, although no checkpoint was taken.
func TestClosedToMakeRoomIsDurable(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, func(o *Options) { o.OpenSegmentsMax = 4 })
	var all []*Shard
	for i := range 20 {
		all = append(all, s.shard(i, ShardConfig{}))
		s.append(all[i], batchOf(3, 100, int64(i)))
	}
	wantDirtyOpen(t, all)
	closed := map[int]bool{}
	for i, sh := range all {
		closed[i] = sh.list.Load().active().handle.Load() == nil
	}
	again, _ := crashed(t, s, disk, disktest.CrashDrop)
	for i := range all {
		if closed[i] {
			wantValues(t, again.shard(i, ShardConfig{}), 0, 3)
		}
	}
}

// A sync that fails while room is made is as final as any: the store takes no more writes, and the append that
// waited is refused.
func TestSyncToMakeRoomFails(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, func(o *Options) { o.OpenSegmentsMax = 4 })
	disk.Inject(disktest.Fault{Kind: disktest.KindSync, Path: ".msg", Err: syscall.EIO})
	var err error
	for i := 0; i < 20 && err == nil; i++ {
		b := batchOf(3, 100, int64(i))
		if err = s.shard(i, ShardConfig{}).Submit(appendOf(b), b); err == nil {
			err = s.sink.wait(t, 1)[0].Err
		}
	}
	if !errors.Is(err, ErrStorage) || s.Failed() == nil {
		t.Fatalf("append: %v, store: %v", err, s.Failed())
	}
}

// After a crash all that is new waits for a sync and is not open: the first checkpoint opens it bit by bit.
func TestCheckpointAfterCrashOpensFewFiles(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t, dir)
	o.CheckpointInterval = time.Hour
	s := openTest(t, o)
	for i := range 60 {
		s.append(s.shard(i, ShardConfig{}), batchOf(2, 100, 1))
	}
	s.fail(errors.New("end without a checkpoint"))
	s.Close()
	o = testOptions(t, dir)
	o.OpenSegmentsMax, o.CheckpointInterval = 8, time.Hour
	s = openTest(t, o)
	if n := s.metrics.SegmentsOpen.Load(); n > 16 {
		t.Fatalf("recovery leaves %d segments open", n)
	}
	if err := s.keeper.checkpointAll(s.all()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "few segments are open", func() bool { return s.metrics.SegmentsOpen.Load() <= 8 })
	for i := range 60 {
		wantValues(t, s.shard(i, ShardConfig{}), 0, 2)
	}
}

// One client on a full disk causes hundreds of failed appends a second: the log tells of the first at once
// and of the others in a number.
func TestFailedAppendsDoNotFloodTheLog(t *testing.T) {
	var text logText
	disk := disktest.New(1)
	s := simStore(t, disk, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&text, nil)) })
	sh := s.shard(1, ShardConfig{})
	began := time.Now()
	for i := range 200 {
		disk.Inject(disktest.Fault{Kind: disktest.KindCreate, Path: ".msg", Err: syscall.ENOSPC})
		if a := s.append(sh, batchOf(1, 100, 1)); a.Err == nil {
			t.Fatal("the append did not fail")
		}
		if n := text.count("append failed"); i == 0 && n != 1 {
			t.Fatalf("%d lines after the first failure", n)
		}
	}
	if n, most := text.count("append failed"), 1+int(time.Since(began)/logLimitInterval); n > most {
		t.Fatalf("%d lines, want at most %d", n, most)
	}
}

func TestLogLimit(t *testing.T) {
	var l logLimit
	at := time.Unix(1000, 0)
	f := func(after time.Duration, want int64, wantOK bool) {
		t.Helper()
		at = at.Add(after)
		if got, ok := l.allow(at); got != want || ok != wantOK {
			t.Fatalf("%d %v, want %d %v", got, ok, want, wantOK)
		}
	}
	f(0, 0, true)
	f(0, 0, false)
	f(logLimitInterval-1, 0, false)
	f(1, 2, true)
	f(1, 0, false)
	f(time.Hour, 1, true)
	f(time.Hour, 0, true)
}
