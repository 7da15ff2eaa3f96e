package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/diskio/disktest"
)

// simStore opens a store on a simulated disk.
func simStore(t testing.TB, disk *disktest.Disk, change func(*Options)) *testStore {
	t.Helper()
	o := Options{
		Dir: "/data", FS: disk, IndexFS: disk.PebbleFS(), ReserveBytes: 1, CheckpointInterval: time.Hour,
		RetentionCheckInterval: time.Hour, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	return openTest(t, o)
}

// logText collects log lines.
type logText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logText) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

func (l *logText) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// crashed cuts the power and opens what is left.
func crashed(t *testing.T, s *testStore, disk *disktest.Disk, mode disktest.CrashMode) (*testStore, *disktest.Disk) {
	t.Helper()
	disk.Cut()
	s.Close()
	after := disk.Crash(mode)
	return simStore(t, after, nil), after
}

func segmentPath(n int, number uint64) string {
	return filepath.Join("/data", testID(n).String(), segmentName(number))
}

func wantValues(t *testing.T, sh *Shard, from, end int64) {
	t.Helper()
	if got := readAll(t, sh, from, 1<<20); int64(len(got)) != end-from || sh.State().LogEnd != end {
		t.Fatalf("%d records from %d and log end %d, want end %d", len(got), from, sh.State().LogEnd, end)
	}
}

// A write that fails costs its appends, nothing else: sequences and offsets stay, half-written bytes are
// never seen, also not after a crash, and the next append works.
func TestD10K09WriteFails(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		t.Run(cause.Error(), func(t *testing.T) {
			disk := disktest.New(1)
			s := simStore(t, disk, nil)
			sh, other := s.shard(1, ShardConfig{}), s.shard(2, ShardConfig{})
			s.append(sh, batchOf(5, 100, 1))
			s.append(other, batchOf(5, 100, 1))
			disk.Inject(disktest.Fault{Kind: disktest.KindWrite, Path: segmentPath(1, 1), Err: cause, WrittenBytes: 700})
			b := batchOf(10, 100, 2)
			a := appendOf(b)
			a.Header.ProducerID, a.Header.ProducerEpoch, a.Header.BaseSequence, a.Header.LastSequence = 9, 0, 0, 9
			if err := sh.Submit(a, b); err != nil {
				t.Fatal(err)
			}
			if a = s.sink.wait(t, 1)[0]; !errors.Is(a.Err, ErrStorage) || a.BaseOffset != -1 {
				t.Fatalf("append: %+v", a)
			}
			if st := sh.State(); st.LogEnd != 5 {
				t.Fatalf("state %+v", st)
			}
			wantValues(t, sh, 0, 5)
			if got := s.append(other, batchOf(1, 10, 3)); got.Err != nil {
				t.Fatal(got.Err)
			}
			small := batchOf(1, 100, 4)
			if got := s.append(sh, small); got.Err != nil || got.BaseOffset != 5 {
				t.Fatalf("append after the failure: %+v", got)
			}
			// The same sequence is taken as new.
			a.Header.ProducerID, a.Header.ProducerEpoch, a.Header.BaseSequence, a.Header.LastSequence = 9, 0, 0, 9
			a.Header.LastOffset = a.Header.BaseOffset + 9
			if err := sh.Submit(a, b); err != nil {
				t.Fatal(err)
			}
			if a = s.sink.wait(t, 1)[0]; a.Err != nil || a.Duplicate || a.BaseOffset != 6 {
				t.Fatalf("append again: %+v", a)
			}
			again, _ := crashed(t, s, disk, disktest.CrashKeep)
			wantValues(t, again.shard(1, ShardConfig{}), 0, 16)
		})
	}
}

// What a failed write left behind a shorter append is not taken for an append after a crash.
func TestFailedWriteIsNotRevived(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, nil)
	sh := s.shard(1, ShardConfig{})
	s.append(sh, batchOf(1, 100, 1))
	disk.Inject(disktest.Fault{Kind: disktest.KindWrite, Path: segmentPath(1, 1), WrittenBytes: 1 << 20})
	var sent []*Append
	sh.mu.Lock()
	sh.queued = true // hold the writer back, so that both go in one write
	sh.mu.Unlock()
	for i := range 2 {
		b := batchOf(1, 100, int64(10+i))
		sent = append(sent, appendOf(b))
		if err := sh.Submit(sent[i], b); err != nil {
			t.Fatal(err)
		}
	}
	sh.writer.enqueue(sh)
	for _, a := range s.sink.wait(t, 2) {
		if a.Err == nil {
			t.Fatal("the write did not fail")
		}
	}
	// Of the same size as the first of the two: what follows would fit.
	s.append(sh, batchOf(1, 100, 20))
	again, _ := crashed(t, s, disk, disktest.CrashKeep)
	wantValues(t, again.shard(1, ShardConfig{}), 0, 2)
}

// A failed fsync is final: the append is not acknowledged, no later one is, and reads go on.
func TestK11SyncFailsOnce(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, nil)
	sh, other := s.shard(1, ShardConfig{FlushMessages: 1}), s.shard(2, ShardConfig{})
	if a := s.append(sh, batchOf(3, 100, 1)); a.Err != nil {
		t.Fatal(a.Err)
	}
	disk.Inject(disktest.Fault{Kind: disktest.KindSync, Path: segmentPath(1, 1)})
	if a := s.append(sh, batchOf(3, 100, 2)); !errors.Is(a.Err, ErrStorage) {
		t.Fatalf("append: %+v", a)
	}
	if s.Failed() == nil {
		t.Fatal("the store goes on")
	}
	for _, each := range []*Shard{sh, other} {
		b := batchOf(1, 10, 3)
		if err := each.Submit(appendOf(b), b); !errors.Is(err, ErrStorage) {
			t.Fatalf("submit: %v", err)
		}
	}
	wantValues(t, sh, 0, 3)
	if _, err := sh.DeleteRecords(2); !errors.Is(err, ErrStorage) {
		t.Fatalf("delete records: %v", err)
	}
	if err := s.Close(); err == nil {
		t.Fatal("close is silent about the failure")
	}
}

func TestFailedSegmentCreation(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, nil)
	sh := s.shard(1, ShardConfig{SegmentBytes: 2000})
	for i := range 3 {
		disk.Inject(disktest.Fault{Kind: disktest.KindCreate, Path: ".msg", Err: syscall.ENOSPC})
		base := sh.State().LogEnd
		if a := s.append(sh, batchOf(10, 100, 1)); !errors.Is(a.Err, ErrStorage) {
			t.Fatalf("append %d: %+v", i, a)
		}
		if a := s.append(sh, batchOf(10, 100, 1)); a.Err != nil || a.BaseOffset != base {
			t.Fatalf("append %d again: %+v", i, a)
		}
	}
	wantValues(t, sh, 0, 30)
	again, _ := crashed(t, s, disk, disktest.CrashKeep)
	wantValues(t, again.shard(1, ShardConfig{}), 0, 30)
}

// One write is spread over several segments, and a later one fails: what came before is acknowledged.
func TestPartOfChunkFails(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, nil)
	sh := s.shard(1, ShardConfig{SegmentBytes: 1500})
	sh.mu.Lock()
	sh.queued = true
	sh.mu.Unlock()
	disk.Inject(disktest.Fault{Kind: disktest.KindWrite, Path: segmentName(2), After: 1}) // 0 is the header
	for i := range 5 {
		b := batchOf(10, 100, int64(i))
		if err := sh.Submit(appendOf(b), b); err != nil {
			t.Fatal(err)
		}
	}
	sh.writer.enqueue(sh)
	good := 0
	for _, a := range s.sink.wait(t, 5) {
		if a.Err == nil {
			good++
		}
	}
	if good != 1 || sh.State().LogEnd != 10 {
		t.Fatalf("%d appends are good, %+v", good, sh.State())
	}
	for i := range 3 {
		if a := s.append(sh, batchOf(10, 100, 9)); a.Err != nil || a.BaseOffset != int64(10+10*i) {
			t.Fatalf("append: %+v", a)
		}
	}
	wantValues(t, sh, 0, 40)
	again, _ := crashed(t, s, disk, disktest.CrashKeep)
	wantValues(t, again.shard(1, ShardConfig{}), 0, 40)
}

// The disk fills up: appends are refused, also before the index store would suffer, reads go on, and when
// there is space again appends are taken without a restart.
func TestK09DiskFull(t *testing.T) {
	disk := disktest.New(1)
	disk.SetCapacity(8 << 20)
	s := simStore(t, disk, func(o *Options) { o.ReserveBytes = 1 << 20 })
	sh := s.shard(1, ShardConfig{SegmentBytes: 1 << 20, FileDeleteDelay: -1})
	refused := 0
	for i := 0; refused < 3; i++ {
		b := batchOf(50, 1000, int64(i))
		a := appendOf(b)
		err := sh.Submit(a, b)
		if err == nil {
			err = s.sink.wait(t, 1)[0].Err
		}
		if err != nil {
			if !errors.Is(err, ErrStorage) {
				t.Fatal(err)
			}
			refused++
		}
		if i > 1000 {
			t.Fatal("the disk does not fill up")
		}
	}
	end := sh.State().LogEnd
	wantValues(t, sh, 0, end)
	if _, err := sh.DeleteRecords(end / 2); err != nil {
		t.Fatalf("making room: %v", err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		b := batchOf(1, 100, 1)
		a := appendOf(b)
		err := sh.Submit(a, b)
		if err == nil {
			err = s.sink.wait(t, 1)[0].Err
		}
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("appends are still refused: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A disk without any space left stops the index store too, which waits.
func TestK09IndexStoreWaitsForSpace(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, nil)
	sh := s.shard(1, ShardConfig{})
	s.append(sh, batchOf(10, 100, 1))
	disk.SetCapacity(disk.Used())
	done := make(chan error, 1)
	go func() { _, err := sh.DeleteRecords(5); done <- err }()
	for !s.index.fence.full.Load() {
		select {
		case err := <-done:
			t.Fatalf("not waiting: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	wantValues(t, sh, 0, 10)
	disk.SetCapacity(0)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantValues(t, sh, 5, 10)
}

// The index store's own write errors stop the store like a failed fsync.
func TestIndexStoreSyncFails(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, nil)
	sh := s.shard(1, ShardConfig{})
	s.append(sh, batchOf(10, 100, 1))
	disk.Inject(disktest.Fault{Kind: disktest.KindSync, Path: "/data/index", Times: -1})
	if _, err := sh.DeleteRecords(5); !errors.Is(err, ErrStorage) {
		t.Fatalf("delete records: %v", err)
	}
	if s.Failed() == nil {
		t.Fatal("the store goes on")
	}
	wantValues(t, sh, 0, 10)
	disk.ClearFaults()
	if err := s.Close(); err == nil {
		t.Fatal("close is silent about the failure")
	}
	again := simStore(t, disk.Crash(disktest.CrashKeep), nil)
	if again.Clean() {
		t.Fatal("a clean stop")
	}
	wantValues(t, again.shard(1, ShardConfig{}), again.shard(1, ShardConfig{}).State().LogStart, 10)
}

func TestK23SecondStore(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openTest(t, o)
	if _, err := Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("second store: %v", err)
	}
	if a := s.append(s.shard(1, ShardConfig{}), batchOf(1, 10, 1)); a.Err != nil {
		t.Fatal(a.Err)
	}
}

var _ = fmt.Sprint
