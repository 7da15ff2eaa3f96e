package engine

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/diskio/disktest"
	"millrace/engine/model"
)

// keyed encodes records with keys; a nil value is a tombstone.
type keyed struct {
	timestamp int64
	records   []keyedRecord
}

type keyedRecord struct {
	key, value []byte
}

func (b *keyed) SizeBound() int {
	n := 0
	for _, r := range b.records {
		n += len(r.key) + len(r.value) + 20
	}
	return model.SizeBound(len(b.records), n)
}

func (b *keyed) EncodeAppend(builder *model.Builder, base int64) error {
	builder.Header.BaseTimestamp = b.timestamp
	builder.Header.MaxTimestamp = b.timestamp + int64(len(b.records)) - 1
	for i, r := range b.records {
		builder.Add(&model.Record{Offset: base + int64(i), TimestampDelta: int64(i), Key: r.key, Value: r.value})
	}
	return nil
}

// put appends records given as "key=value", or "key" for a tombstone; a producer id of -1 means none.
func put(t testing.TB, s *testStore, sh *Shard, producer int64, sequence int32, records ...string) *Append {
	t.Helper()
	b := &keyed{timestamp: s.nowMillis()}
	for _, text := range records {
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
		a.Header.ProducerID, a.Header.ProducerEpoch = producer, 0
		a.Header.BaseSequence, a.Header.LastSequence = sequence, sequence+int32(len(records))-1
	}
	a.Header.LastOffset = int64(len(records) - 1)
	if err := sh.Submit(a, b); err != nil {
		t.Fatal(err)
	}
	if a = s.sink.wait(t, 1)[0]; a.Err != nil {
		t.Fatal(a.Err)
	}
	return a
}

// cleanNow compacts the shard whatever its ratio says.
func cleanNow(t testing.TB, s *testStore, sh *Shard) error {
	t.Helper()
	plan, _ := sh.planClean(s.nowMillis())
	if plan.shard == nil || len(plan.segments) == 0 {
		return nil
	}
	return s.cleaner.clean(&plan)
}

// roll seals the active segment.
func roll(sh *Shard) { sh.rollAndWait() }

// keyedLog reads a shard as "offset:key=value", tombstones as "offset:key".
func keyedLog(t testing.TB, sh *Shard) string {
	t.Helper()
	var out strings.Builder
	err := eachRecord(sh, func(r *model.Record) {
		fmt.Fprintf(&out, " %d:%s", r.Offset, r.Key)
		if r.Value != nil {
			fmt.Fprintf(&out, "=%s", r.Value)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// eachRecord reads a shard from its log start by spans of one block and checks that offsets rise.
func eachRecord(sh *Shard, visit func(*model.Record)) error {
	var sp Span
	defer sp.Release()
	last := int64(-1)
	for next := sh.State().LogStart; ; {
		if err := sh.ReadBlocking(&sp, next, 1<<62, 1); err != nil {
			return fmt.Errorf("read %d: %w", next, err)
		}
		if sp.Len() == 0 {
			return nil
		}
		if err := sp.Load(); err != nil {
			return err
		}
		b := bytes.Clone(sp.Bytes())
		h, after := sp.Header, int64(0)
		for inside := sp.AtBlock; len(b) > 0; {
			if !inside {
				if err := h.Parse(b, sh.identity); err != nil {
					return err
				}
				b, inside, after = b[model.HeaderSize:], h.BlockCount > 0, h.LastOffset+1
				continue
			}
			var block model.BlockHeader
			if err := block.Verify(b, sh.identity); err != nil {
				return err
			}
			for rest := b[model.BlockHeaderSize:block.Size()]; len(rest) > 0; {
				var r model.Record
				n, err := model.ParseRecord(rest, &r)
				if err != nil {
					return err
				}
				if after = r.Offset + 1; r.Offset >= next {
					if r.Offset <= last {
						return fmt.Errorf("offset %d after %d", r.Offset, last)
					}
					last = r.Offset
					visit(&r)
				}
				rest = rest[n:]
			}
			if b, inside = b[block.Size():], !block.Last; !inside {
				after = h.LastOffset + 1
			}
		}
		if after <= next {
			return fmt.Errorf("no progress at offset %d", next)
		}
		next = after
	}
}

func wantLog(t testing.TB, sh *Shard, want string) {
	t.Helper()
	if got := keyedLog(t, sh); got != want {
		t.Fatalf("log:  %s\nwant: %s", got, want)
	}
}

// cleanStore is a store on a simulated disk with a clock that a test moves.
func cleanStore(t *testing.T, disk *disktest.Disk, now *time.Time) *testStore {
	t.Helper()
	return simStore(t, disk, func(o *Options) {
		o.CleanInterval = time.Hour
		o.Now = func() time.Time { return *now }
	})
}

// Keys of a megabyte are compacted like others, and the memory for them is given back.
func TestCleanLargeKeys(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	sh := s.shard(1, compacting)
	large := strings.Repeat("k", 1<<20)
	put(t, s, sh, -1, 0, large+"1=a", large+"2=b")
	put(t, s, sh, -1, 0, large+"1=c", "small=d")
	roll(sh)
	put(t, s, sh, -1, 0, "active=e")
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	var got []int64
	if err := eachRecord(sh, func(r *model.Record) { got = append(got, r.Offset) }); err != nil || !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("offsets %v, %v", got, err)
	}
	if n := cap(s.cleaner.reader.buffer) + cap(s.cleaner.output.buffer); n > 4*(cleanReadBytes+cleanWriteBytes) {
		t.Errorf("%d bytes are kept", n)
	}
}

var compacting = ShardConfig{Compact: true, DeleteRetention: time.Minute, MinDirtyRatio: 0.5}

func TestCleanKeepsTheLastOfEachKey(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	sh := s.shard(1, compacting)
	put(t, s, sh, -1, 0, "a=1", "b=1", "c=1")
	put(t, s, sh, -1, 0, "a=2", "d=1")
	roll(sh)
	put(t, s, sh, -1, 0, "b=2", "e=1")
	roll(sh)
	put(t, s, sh, -1, 0, "c=2") // active: it is not looked at
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	wantLog(t, sh, "2:c=1 3:a=2 4:d=1 5:b=2 6:e=1 7:c=2")
	if n := len(sh.list.Load().segments); n != 2 {
		t.Errorf("%d segments: the small ones should have become one", n)
	}
	roll(sh)
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	want := "3:a=2 4:d=1 5:b=2 6:e=1 7:c=2"
	wantLog(t, sh, want)
	if _, due := sh.planClean(s.nowMillis()); due {
		t.Error("due again at once")
	}
	s.Close()
	s = cleanStore(t, disk, &now)
	sh = s.shard(1, compacting)
	wantLog(t, sh, want)
	if got := sh.cleaned.upTo.Load(); got != 8 {
		t.Errorf("compacted up to %d after a start", got)
	}
	put(t, s, sh, -1, 0, "f=1")
	wantLog(t, sh, want+" 8:f=1")
}

func TestCleanTombstones(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	sh := s.shard(1, compacting)
	put(t, s, sh, -1, 0, "a=1", "b=1", "a")
	roll(sh)
	now = now.Add(time.Hour) // its time begins with the first compaction
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	wantLog(t, sh, "1:b=1 2:a")
	now = now.Add(59 * time.Second)
	if _, due := sh.planClean(s.nowMillis()); due {
		t.Error("due before the tombstone's time")
	}
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	wantLog(t, sh, "1:b=1 2:a")
	s.Close()
	s = cleanStore(t, disk, &now)
	sh = s.shard(1, compacting)
	now = now.Add(time.Second)
	if _, due := sh.planClean(s.nowMillis()); !due {
		t.Error("not due at the tombstone's time")
	}
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	wantLog(t, sh, "1:b=1")
	if _, due := sh.planClean(s.nowMillis()); due {
		t.Error("due again at once")
	}
	put(t, s, sh, -1, 0, "c=1")
	wantLog(t, sh, "1:b=1 3:c=1")
}

// The last append of a producer stays, empty, and its repetition is known also after everything but the
// segments was lost.
func TestCleanKeepsTheLastAppendOfAProducer(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	sh := s.shard(1, compacting)
	put(t, s, sh, 7, 0, "a=1")
	first := put(t, s, sh, 7, 1, "a=2", "b=1")
	put(t, s, sh, 8, 0, "a=3", "b=2")
	put(t, s, sh, -1, 0, "a=4")
	roll(sh)
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	wantLog(t, sh, "4:b=2 5:a=4")
	s.Close()
	if err := disk.RemoveAll("/data/index"); err != nil {
		t.Fatal(err)
	}
	s = cleanStore(t, disk, &now)
	sh = s.shard(1, compacting)
	wantLog(t, sh, "4:b=2 5:a=4")
	if again := put(t, s, sh, 7, 1, "a=2", "b=1"); !again.Duplicate || again.BaseOffset != first.BaseOffset {
		t.Errorf("repetition: %+v", again)
	}
	if next := put(t, s, sh, 7, 3, "z=1"); next.Duplicate || next.BaseOffset != 6 {
		t.Errorf("next append: %+v", next)
	}
}

// A reader keeps what it holds, and reads on where the log was compacted under it.
func TestCleanUnderReaders(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	sh := s.shard(1, compacting)
	for range 3 {
		put(t, s, sh, -1, 0, "a=1", "b=1")
		roll(sh)
	}
	var sp Span
	if err := sh.ReadBlocking(&sp, 0, 1<<62, 1); err != nil {
		t.Fatal(err)
	}
	old := sh.list.Load().segments[1]
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	if err := sp.Load(); err != nil {
		t.Fatal(err)
	}
	if got := parseSpan(t, sh, &sp, func(*model.Record) {}); got != 2 {
		t.Errorf("the old bytes end at %d", got)
	}
	sp.Release()
	if _, err := s.handles.openSegment(old); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("replaced segment opens: %v", err)
	}
	if err := sh.ReadBlocking(&sp, 2, 1<<62, 1); err != nil || sp.Header.BaseOffset != 4 {
		t.Errorf("read in the gap: %v, append at %d", err, sp.Header.BaseOffset)
	}
	sp.Release()
	if offset, _, _, found, err := sh.OffsetForTimestamp(now.UnixMilli()); !found || err != nil || offset != 4 {
		t.Errorf("by time: %d %t %v", offset, found, err)
	}
}

// Damage ends compaction of the shard, not of others, and takes nothing.
func TestCleanMeetsDamage(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	sh := s.shard(1, compacting)
	put(t, s, sh, -1, 0, "a=1", "b=1")
	put(t, s, sh, -1, 0, "a=2")
	roll(sh)
	if err := disk.FlipBit(segmentPath(1, 1), segmentHeaderSize+model.HeaderSize+model.BlockHeaderSize+30, 1, false); err != nil {
		t.Fatal(err)
	}
	s.cleaner.look(now, now)
	if !sh.cleaned.damaged.Load() || s.metrics.UncleanableShards.Load() != 1 {
		t.Error("it goes on")
	}
	names, err := disk.List(filepath.Dir(segmentPath(1, 1)))
	if err != nil || fmt.Sprint(names) != "[00000000000000000001.msg 00000000000000000002.msg shard.json]" {
		t.Errorf("files %v, %v", names, err)
	}
}
