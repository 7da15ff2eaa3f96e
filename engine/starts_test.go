package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/diskio/disktest"
	"millrace/engine/model"
	"millrace/perf"
)

// A power cut that took the only shard's directory, with records that were read, was taken for a clean stop: their
// offsets came again in the same leader epoch.
func TestOnlyShardLostIsNoCleanStop(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, nil)
	if !s.Clean() {
		t.Error("a new directory is not clean")
	}
	if a := s.append(s.shard(1, ShardConfig{}), batchOf(3, 100, 1)); a.Err != nil {
		t.Fatal(a.Err)
	}
	again, _ := crashed(t, s, disk, disktest.CrashDrop)
	if len(again.Orphans()) != 0 {
		t.Fatal("the shard is there: nothing is tested")
	}
	if again.Clean() {
		t.Error("taken for a clean stop")
	}
}

// A power cut took records that were deleted already, so that the segment ended below the log start. The checkpoint of
// the next stop named the log start as the segment's end, appends went on there behind a gap, and without the index
// store the log ended at it (found by TestHistory, seed 4912648331303972305).
func TestAppendsDoNotGoOnBehindAGap(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, nil)
	sh := s.shard(1, ShardConfig{})
	s.append(sh, batchOf(5, 100, 1))
	if err := s.keeper.checkpointAll(s.all()); err != nil {
		t.Fatal(err)
	}
	s.append(sh, batchOf(5, 100, 2))
	if _, err := sh.DeleteRecords(10); err != nil {
		t.Fatal(err)
	}
	s, disk = crashed(t, s, disk, disktest.CrashDrop)
	s.Close()
	s = simStore(t, disk, nil)
	sh = s.shard(1, ShardConfig{})
	s.append(sh, batchOf(5, 100, 3))
	wantValues(t, sh, 10, 15)
	s.Close()
	if err := disk.RemoveAll("/data/index"); err != nil {
		t.Fatal(err)
	}
	wantValues(t, simStore(t, disk, nil).shard(1, ShardConfig{}), 10, 15)
}

// A start on a disk on which operations fail ended the process: a compaction of the index store ran on while the
// store was closed again, and a store that could not be set aside was closed twice. It ends with an error, or goes
// well, and the next start on a good disk finds everything.
func TestStartOnFailingDisk(t *testing.T) {
	disk := disktest.New(1)
	end := int64(0)
	for range 5 { // each leaves a table in the index store, which the next ones compact
		s := simStore(t, disk, nil)
		sh := s.shard(1, ShardConfig{SegmentBytes: 5000, FlushMessages: 1})
		for range 5 {
			s.append(sh, batchOf(10, 100, end))
			end += 10
		}
		disk.Cut()
		s.Close()
		disk = disk.Crash(disktest.CrashDrop)
	}
	kinds := []disktest.Kind{disktest.KindOpen, disktest.KindCreate, disktest.KindRemove, disktest.KindRename, disktest.KindList,
		disktest.KindRead, disktest.KindWrite, disktest.KindSync, disktest.KindSyncDir}
	refused, step := 0, int64(1)
	if raceEnabled {
		step = 5
	}
	for _, kind := range kinds {
		for after := int64(0); after < 40; after += step {
			bad := disk.Crash(disktest.CrashKeep)
			bad.Inject(disktest.Fault{Kind: kind, After: after, Times: -1})
			err := tryOpen(bad)
			if err != nil {
				refused++
			}
			bad.ClearFaults()
			good := simStore(t, bad.Crash(disktest.CrashKeep), nil)
			if got := len(readAll(t, good.shard(1, ShardConfig{}), 0, 1<<20)); int64(got) != end {
				t.Fatalf("operations of kind %d failed after %d (%v): %d records, want %d", kind, after, err, got, end)
			}
			good.Close()
		}
	}
	if refused == 0 {
		t.Error("no start failed")
	}
}

// An append that a newer program wrote was taken for the torn end of the log, and what followed was given up. The
// shard is out of service, with its files as they are, and is served again by the program that knows it.
func TestNewerAppendIsNotTheEndOfTheLog(t *testing.T) {
	o, end := filled(t, 20, false, ShardConfig{})
	path := lastSegment(t, o)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var h model.AppendHeader
	if err := h.Parse(before[segmentHeaderSize:], testID(1).Identity()); err != nil {
		t.Fatal(err)
	}
	second := before[segmentHeaderSize+int(h.Length):]
	newer := bytes.Clone(before)
	header := newer[segmentHeaderSize+int(h.Length):]
	header[6]++
	binary.BigEndian.PutUint32(header, perf.UpdateCRC32C(testID(1).Identity(), header[4:model.HeaderSize]))
	if err := h.Parse(header, testID(1).Identity()); !errors.Is(err, model.ErrVersion) || bytes.Equal(second, header) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, newer, 0o644); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, o)
	b := batchOf(1, 10, 1)
	if err := s.shard(1, ShardConfig{}).Submit(appendOf(b), b); !errors.Is(err, ErrStorage) || !strings.Contains(err.Error(), path) {
		t.Errorf("append: %v", err)
	}
	s.Close()
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, newer) {
		t.Fatalf("the segment was changed (%v)", err)
	}
	if err := os.WriteFile(path, before, 0o644); err != nil {
		t.Fatal(err)
	}
	wantValues(t, openTest(t, o).shard(1, ShardConfig{}), 0, end)
}

// One flipped bit, and the index store gone: all segments behind the flipped one were set aside. They are served, and
// so is what stands before the bit.
func TestFlippedBitWithoutIndexCostsItsSegmentOnly(t *testing.T) {
	o := testOptions(t, t.TempDir())
	var minutes atomic.Int64
	o.Now = func() time.Time { return time.Unix(60*minutes.Add(1), 0) }
	s := openTest(t, o)
	sh := s.shard(1, ShardConfig{SegmentBytes: 20_000, SegmentAge: 10_000 * time.Hour})
	for i := range 100 {
		s.append(sh, batchOf(10, 100, int64(i)))
	}
	segments := sh.list.Load().segments
	damaged, next := segments[1], segments[2].base
	s.Close()
	b, err := os.ReadFile(damaged.path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(damaged.path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []bool{true, false} { // the next start has an index store again
		if lost {
			if err := os.RemoveAll(filepath.Join(o.Dir, indexDirName)); err != nil {
				t.Fatal(err)
			}
		}
		s = openTest(t, o)
		sh = s.shard(1, ShardConfig{})
		if st := sh.State(); st.LogStart != 0 || st.LogEnd != 1000 {
			t.Fatalf("state %+v", st)
		}
		wantValues(t, sh, next, 1000)
		got, err := readUntil(sh, 0, 1000)
		if !errors.Is(err, ErrCorrupt) || int64(len(got)) <= damaged.base || int64(len(got)) >= next {
			t.Fatalf("%d records and %v", len(got), err)
		}
		s.Close()
	}
}

// A shard that was dropped while its directory was to be synced stopped all writes to the data directory.
func TestDropBesideSyncStopsNoWrites(t *testing.T) {
	disk := disktest.New(1)
	s := simStore(t, disk, nil)
	sh := s.shard(1, ShardConfig{})
	s.append(sh, batchOf(10, 100, 1))
	fresh := sh.list.Load().segments // as a sync collects them
	if err := s.DropShards(sh.id); err != nil {
		t.Fatal(err)
	}
	if err := syncShardDirs(s.Store, fresh); err != nil {
		t.Errorf("sync beside the drop: %v", err)
	}
	if err := sh.deleteSegments(1, 10); !errors.Is(err, ErrShardDeleted) || s.Failed() != nil {
		t.Errorf("retention beside the drop: %v, %v", err, s.Failed())
	}
}

func tryOpen(disk *disktest.Disk) error {
	s, err := Open(context.Background(), Options{
		Dir: "/data", FS: disk, IndexFS: disk.PebbleFS(), ReserveBytes: 1, CheckpointInterval: time.Hour,
		RetentionCheckInterval: time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return s.Close()
}
