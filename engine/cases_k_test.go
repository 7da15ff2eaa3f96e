package engine

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"millrace/diskio/disktest"
	"millrace/engine/model"
)

// Every append makes a segment of its own, and power goes right after its answer: also what only a directory entry
// leads to is there.
func TestK20NewSegmentsOutlivePowerCuts(t *testing.T) {
	c := ShardConfig{SegmentBytes: 2000, FlushMessages: 1}
	for _, mode := range disktest.CrashModes() {
		t.Run(mode.String(), func(t *testing.T) {
			disk := disktest.New(20)
			var end int64
			for range 20 {
				s := simStore(t, disk, nil)
				sh := s.shard(1, c)
				wantValues(t, sh, 0, end)
				for range 2 {
					if a := s.append(sh, batchOf(10, 150, end/10)); a.Err != nil || a.BaseOffset != end {
						t.Fatalf("append: %+v", a)
					}
					end += 10
				}
				disk.Cut()
				disk = disk.Crash(mode)
			}
		})
	}
}

// Appends of 1 MiB against segments of 16 MiB: no segment is longer than it may be, and no offset is missing where one
// ends and the next begins.
func TestK21LargeRecordsKeepSegmentsShort(t *testing.T) {
	const segmentBytes, appends = 16 << 20, 70
	s := openTest(t, testOptions(t, t.TempDir()))
	sh := s.shard(1, ShardConfig{SegmentBytes: segmentBytes})
	for i := range appends {
		if a := s.append(sh, batchOf(1, 1<<20, int64(i))); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	segments := sh.list.Load().segments
	if len(segments) < appends/16 {
		t.Errorf("%d segments", len(segments))
	}
	for i, segment := range segments {
		if n := segment.written.Load(); n > segmentBytes {
			t.Errorf("segment %d has %d bytes", i, n)
		}
		for from := max(segment.base-1, 0); from <= segment.base; from++ {
			if got := readAll(t, sh, from, 4<<20); len(got) != appends-int(from) {
				t.Errorf("%d records from %d on", len(got), from)
			}
		}
	}
}

// The checkpoint, which holds leader epochs and the high watermark, is missing, spoilt or that of another time: the
// start makes it again from the log.
func TestK22CheckpointOfNoUse(t *testing.T) {
	for name, harm := range map[string]func(b []byte) []byte{
		"missing":   func([]byte) []byte { return nil },
		"empty":     func([]byte) []byte { return []byte{} },
		"cut":       func(b []byte) []byte { return b[:len(b)/2] },
		"noise":     func(b []byte) []byte { return []byte("neither epochs nor offsets") },
		"far ahead": func(b []byte) []byte { binary.BigEndian.PutUint64(b[25:], 1<<40); return b },
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ",clean=", clean), func(t *testing.T) {
				o := testOptions(t, t.TempDir())
				s := openTest(t, o)
				sh := s.shard(1, ShardConfig{SegmentBytes: 10_000})
				for i := range 40 {
					sh.SetLeaderEpoch(int32(i / 10))
					s.append(sh, batchOf(10, 100, int64(i)))
				}
				if _, err := sh.DeleteRecords(105); err != nil {
					t.Fatal(err)
				}
				state := sh.State()
				if clean {
					s.Close()
				} else {
					if err := s.keeper.checkpointAll(s.all()); err != nil {
						t.Fatal(err)
					}
					kill(s)
				}
				spoilCheckpoint(t, o, testID(1), harm)
				sh = openTest(t, o).shard(1, ShardConfig{SegmentBytes: 10_000})
				if got := sh.State(); got != state {
					t.Errorf("state %+v, want %+v", got, state)
				}
				wantValues(t, sh, 105, 400)
				for epoch := range int32(4) {
					if e, end := sh.EndOffsetForEpoch(epoch); e != epoch || end != max(int64(epoch+1)*100, 105) {
						t.Errorf("epoch %d ends at (%d, %d)", epoch, e, end)
					}
				}
			})
		}
	}
}

func spoilCheckpoint(t *testing.T, o Options, id model.ShardID, harm func([]byte) []byte) {
	t.Helper()
	db, err := pebble.Open(filepath.Join(o.Dir, indexDirName), &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: indexLogger{o.Logger}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key := appendShardKey(nil, keyCheckpoint, id)
	value, closer, err := db.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	spoilt := harm(slices.Clone(value))
	closer.Close()
	if spoilt == nil {
		err = db.Delete(key, pebble.Sync)
	} else {
		err = db.Set(key, spoilt, pebble.Sync)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An old leader comes back with a tail that nobody has copied: cut where its epoch ends for the new leader, it holds
// what the new one holds, offset by offset, also after a kill.
func TestK24OldLeaderTruncatesToTheEpochsEnd(t *testing.T) {
	o := testOptions(t, t.TempDir())
	old, leader := openTest(t, o), openTest(t, testOptions(t, t.TempDir()))
	ours, theirs := old.shard(1, ShardConfig{SegmentBytes: 5000}), leader.shard(1, ShardConfig{SegmentBytes: 5000})
	both := func(epoch int32, tag int64) {
		for _, side := range []struct {
			s  *testStore
			sh *Shard
		}{{old, ours}, {leader, theirs}} {
			side.sh.SetLeaderEpoch(epoch)
			if a := side.s.append(side.sh, batchOf(10, 100, tag)); a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}
	for i := range int64(10) {
		both(1, i)
	}
	for i := range int64(7) {
		old.append(ours, batchOf(10, 100, 1000+i)) // not acknowledged: nobody has copied it
	}
	theirs.SetLeaderEpoch(2)
	for i := range int64(3) {
		leader.append(theirs, batchOf(10, 100, 2000+i))
	}
	epoch, end := theirs.EndOffsetForEpoch(1)
	if epoch != 1 || end != 100 {
		t.Fatalf("epoch 1 ends at (%d, %d)", epoch, end)
	}
	if err := ours.Truncate(end); err != nil {
		t.Fatal(err)
	}
	ours.SetLeaderEpoch(2)
	for i := range int64(3) { // copies
		old.append(ours, batchOf(10, 100, 2000+i))
	}
	both(3, 3000)
	kill(old)
	ours = openTest(t, o).shard(1, ShardConfig{SegmentBytes: 5000})
	if !maps.EqualFunc(readAll(t, ours, 0, 1<<20), readAll(t, theirs, 0, 1<<20), slices.Equal) {
		t.Error("the two logs differ")
	}
	for epoch := range int32(4) {
		e, end := ours.EndOffsetForEpoch(epoch)
		if wantEpoch, want := theirs.EndOffsetForEpoch(epoch); e != wantEpoch || end != want {
			t.Errorf("epoch %d ends at (%d, %d), want (%d, %d)", epoch, e, end, wantEpoch, want)
		}
	}
}
