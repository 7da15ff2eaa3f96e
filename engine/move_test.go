package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"millrace/diskio/disktest"
)

// movePair are two stores on one simulated disk.
type movePair struct{ a, b *testStore }

func openPair(t *testing.T, disk *disktest.Disk) (p movePair, err error) {
	open := func(dir string) (*testStore, error) {
		sink := newTestSink()
		o := Options{Dir: dir, FS: disk, IndexFS: disk.PebbleFS(), ReserveBytes: 1, Sinks: []Sink{sink}, CheckpointInterval: time.Hour}
		s, err := Open(context.Background(), o)
		return &testStore{Store: s, t: t, dir: dir, fs: disk, sink: sink, opts: o}, err
	}
	if p.a, err = open("/a"); err != nil {
		return p, err
	}
	if p.b, err = open("/b"); err != nil {
		p.a.Close()
		return p, err
	}
	return p, SettleMoves([]*Store{p.a.Store, p.b.Store})
}

func (p movePair) close() {
	p.a.Close()
	p.b.Close()
}

// filled makes a shard of three segments in the first store, with a producer and a log start, all of it durable.
func (p movePair) filled(t *testing.T) *Shard {
	sh := p.a.shard(1, ShardConfig{SegmentBytes: 600})
	for i := range 4 {
		a := appendOf(batchOf(2, 100, int64(i)))
		a.Header.ProducerID, a.Header.ProducerEpoch, a.Header.BaseSequence, a.Header.LastSequence = 7, 0, int32(2*i), int32(2*i+1)
		if err := sh.Submit(a, batchOf(2, 100, int64(i))); err != nil {
			t.Fatal(err)
		}
		if done := p.a.sink.wait(t, 1); done[0].Err != nil {
			t.Fatal(done[0].Err)
		}
	}
	if _, err := sh.DeleteRecords(1); err != nil {
		t.Fatal(err)
	}
	if err := p.a.keeper.checkpointAll([]*Shard{sh}); err != nil {
		t.Fatal(err)
	}
	return sh
}

// found returns the shard from whichever store has it, which must be one.
func (p movePair) found(t *testing.T) (*testStore, *Shard) {
	t.Helper()
	for i, s := range []*testStore{p.a, p.b} {
		if other := []*testStore{p.b, p.a}[i]; s.Holds(testID(1)) {
			if other.Holds(testID(1)) {
				t.Fatal("the shard is in both stores")
			}
			return s, s.shard(1, ShardConfig{SegmentBytes: 600})
		}
	}
	t.Fatal("the shard is in no store")
	return nil, nil
}

// wantMoved checks the log of filled, and that it goes on where it was.
func wantMoved(t *testing.T, s *testStore, sh *Shard, want map[int64][]byte) {
	t.Helper()
	st := sh.State()
	if st.LogStart != 1 || st.LogEnd != 8 || st.Quarantined {
		t.Fatalf("%s: %+v", s.dir, st)
	}
	if got := readAll(t, sh, 1, 1<<20); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: %d records, want %d", s.dir, len(got), len(want))
	}
	if producers := sh.Producers(); len(producers) != 1 || producers[0].LastSequence != 7 {
		t.Fatalf("%s: producers %+v", s.dir, producers)
	}
	if a := s.append(sh, batchOf(1, 10, 9)); a.BaseOffset != 8 {
		t.Fatalf("%s: next append at %d", s.dir, a.BaseOffset)
	}
}

func TestMove(t *testing.T) {
	disk := disktest.New(1)
	p, err := openPair(t, disk)
	if err != nil {
		t.Fatal(err)
	}
	sh := p.filled(t)
	want := readAll(t, sh, 1, 1<<20)
	var progress MoveProgress
	if err := sh.Move(t.Context(), p.b.Store, nil, &progress); err != nil {
		t.Fatal(err)
	}
	if progress.Next.Load() != 8 || progress.Bytes.Load() < sh.Size() || !sh.Gone() {
		t.Errorf("progress %d bytes, next %d, gone %v", progress.Bytes.Load(), progress.Next.Load(), sh.Gone())
	}
	if err := sh.Submit(appendOf(batchOf(1, 10, 1)), batchOf(1, 10, 1)); !errors.Is(err, ErrShardDeleted) {
		t.Errorf("an append where it was: %v", err)
	}
	s, moved := p.found(t)
	if s != p.b {
		t.Fatal("it is where it was")
	}
	wantMoved(t, s, moved, want)
	// And back, without a record in it, and when it was dropped.
	empty := p.a.shard(2, ShardConfig{})
	if err := empty.Move(t.Context(), p.b.Store, nil, &progress); err != nil {
		t.Fatal(err)
	}
	there := p.b.Shard(testID(2))
	if there == nil || p.b.append(there, batchOf(1, 10, 1)).BaseOffset != 0 {
		t.Error("a shard without records")
	}
	if err := p.b.DropShards(testID(2)); err != nil {
		t.Fatal(err)
	}
	if err := there.Move(t.Context(), p.a.Store, nil, &progress); !errors.Is(err, ErrShardDeleted) {
		t.Errorf("move of a dropped shard: %v", err)
	}
	p.close()
	if p, err = openPair(t, disk); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if s, moved = p.found(t); s != nil && moved.State().LogEnd != 9 {
		t.Errorf("after a stop: %+v", moved.State())
	}
}

// TestMoveCut cuts the power at each change that a move makes, and fails each: the log is whole in one store.
func TestMoveCut(t *testing.T) {
	modes := disktest.CrashModes()
	for n := int64(0); ; n++ {
		disk := disktest.New(uint64(n) + 1)
		p, err := openPair(t, disk)
		if err != nil {
			t.Fatal(err)
		}
		sh := p.filled(t)
		want := readAll(t, sh, 1, 1<<20)
		disk.CutAfter(n)
		var progress MoveProgress
		moveErr := sh.Move(t.Context(), p.b.Store, nil, &progress)
		cut := disk.IsCut()
		disk.Cut()
		p.close()
		disk = disk.Crash(modes[n%int64(len(modes))])
		if p, err = openPair(t, disk); err != nil {
			t.Fatalf("cut %d: %v", n, err)
		}
		s, found := p.found(t)
		t.Run(fmt.Sprint("cut ", n), func(t *testing.T) { wantMoved(t, s, found, want) })
		p.close()
		if !cut || t.Failed() {
			if moveErr != nil {
				t.Errorf("cut %d: %v", n, moveErr)
			}
			t.Logf("%d changes", n)
			return
		}
	}
}

// TestMoveFails fails what a move does in the other store: the shard stays where it was and serves.
func TestMoveFails(t *testing.T) {
	for _, kind := range []disktest.Kind{disktest.KindCreate, disktest.KindMkdir, disktest.KindWrite, disktest.KindRename, disktest.KindSync} {
		disk := disktest.New(1)
		p, err := openPair(t, disk)
		if err != nil {
			t.Fatal(err)
		}
		sh := p.filled(t)
		want := readAll(t, sh, 1, 1<<20)
		disk.Inject(disktest.Fault{Kind: kind, Path: futureSuffix})
		var progress MoveProgress
		if err := sh.Move(t.Context(), p.b.Store, nil, &progress); err == nil {
			t.Errorf("kind %d: no error", kind)
		}
		disk.ClearFaults()
		s, found := p.found(t)
		if s != p.a || found != sh {
			t.Errorf("kind %d: it moved", kind)
		}
		wantMoved(t, s, sh, want)
		names, err := disk.List("/b")
		if err != nil || len(names) != 2 {
			t.Errorf("kind %d: left %v, %v", kind, names, err)
		}
		p.close()
	}
}

// TestMoveKeepsToItsRate: a move copies no faster than it may, and ends at once while it waits.
func TestMoveKeepsToItsRate(t *testing.T) {
	p, err := openPair(t, disktest.New(1))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	sh := p.filled(t)
	want := readAll(t, sh, 1, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	var progress MoveProgress
	err = sh.Move(ctx, p.b.Store, func() int64 {
		if asked++; asked > 2 { // beyond the first bytes
			cancel()
		}
		return 1
	}, &progress)
	if !errors.Is(err, context.Canceled) || sh.Gone() {
		t.Errorf("%v, gone %v", err, sh.Gone())
	}
	const rate = 2000
	var again MoveProgress
	began := time.Now()
	if err := sh.Move(t.Context(), p.b.Store, func() int64 { return rate }, &again); err != nil {
		t.Fatal(err)
	}
	// The last of the three segments, of 600 bytes at most, is not waited for.
	least := time.Duration(float64(again.Bytes.Load()-600) / rate * 0.9 * float64(time.Second))
	if took := time.Since(began); took < least {
		t.Errorf("%d bytes in %v at %d a second", again.Bytes.Load(), took, rate)
	}
	s, moved := p.found(t)
	wantMoved(t, s, moved, want)
}
