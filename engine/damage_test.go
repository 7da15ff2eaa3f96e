package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/diskio"
	"millrace/engine/model"
)

// filled returns a stopped directory with one shard of n appends of 10 records.
func filled(t *testing.T, n int, clean bool, c ShardConfig) (o Options, end int64) {
	t.Helper()
	o = testOptions(t, t.TempDir())
	o.CheckpointInterval = time.Hour
	s := openTest(t, o)
	sh := s.shard(1, c)
	for i := range n {
		if a := s.append(sh, batchOf(10, 100, int64(i))); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	end = sh.State().LogEnd
	if clean {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		kill(s)
	}
	return o, end
}

// kill ends a store as SIGKILL does, as far as its files are concerned: nothing more is written.
func kill(s *testStore) {
	s.failed.Store(new(error))
	*s.failed.Load() = ErrClosed
	s.Close()
}

func lastSegment(t *testing.T, o Options) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(o.Dir, testID(1).String(), "*.msg"))
	if err != nil || len(files) == 0 {
		t.Fatal("no segments", err)
	}
	return files[len(files)-1]
}

func TestK01TailCut(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, cut := range []int64{1, 50, 200} {
			t.Run(fmt.Sprintf("clean=%v,cut=%d", clean, cut), func(t *testing.T) {
				o, end := filled(t, 20, clean, ShardConfig{})
				path := lastSegment(t, o)
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(path, info.Size()-cut); err != nil {
					t.Fatal(err)
				}
				s := openTest(t, o)
				sh := s.shard(1, ShardConfig{})
				wantValues(t, sh, 0, end-10)
				if s.Clean() {
					t.Error("a log that lost its end is taken for one of a clean stop")
				}
				if a := s.append(sh, batchOf(3, 10, 1)); a.BaseOffset != end-10 {
					t.Fatalf("append: %+v", a)
				}
				wantValues(t, sh, 0, end-7)
				kill(s)
				wantValues(t, openTest(t, o).shard(1, ShardConfig{}), 0, end-7)
			})
		}
	}
}

func TestK02K03TailJunk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 10_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for _, c := range []struct {
		name string
		tail func(log []byte) []byte
		roll bool
	}{
		{"zeros 4 KiB", func([]byte) []byte { return make([]byte, 4<<10) }, false},
		{"zeros 1 MiB", func([]byte) []byte { return make([]byte, 1<<20) }, false},
		{"noise", func([]byte) []byte { return noise }, true},
		{"zeros and noise", func([]byte) []byte { return append(make([]byte, 8192), noise...) }, true},
		{"own old bytes", func(log []byte) []byte { return log[segmentHeaderSize:3000] }, true},
		{"zeros and own old bytes", func(log []byte) []byte { return append(make([]byte, 4096), log[segmentHeaderSize:3000]...) }, true},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s,clean=%v", c.name, clean), func(t *testing.T) {
				o, end := filled(t, 20, clean, ShardConfig{})
				path := lastSegment(t, o)
				log, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, append(log, c.tail(log)...), 0o644); err != nil {
					t.Fatal(err)
				}
				s := openTest(t, o)
				sh := s.shard(1, ShardConfig{})
				wantValues(t, sh, 0, end)
				if a := s.append(sh, batchOf(3, 10, 1)); a.BaseOffset != end {
					t.Fatalf("append: %+v", a)
				}
				wantValues(t, sh, 0, end+3)
				if rolled := len(sh.list.Load().segments) > 1; rolled != c.roll {
					t.Errorf("rolled %v", rolled)
				}
				kill(s)
				again := openTest(t, o)
				wantValues(t, again.shard(1, ShardConfig{}), 0, end+3)
			})
		}
	}
}

func TestK05IndexStoreLost(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(t *testing.T, dir string)
	}{
		{"deleted", func(t *testing.T, dir string) { os.RemoveAll(dir) }},
		{"scrambled", func(t *testing.T, dir string) {
			files, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, f := range files {
				if b, err := os.ReadFile(f); err == nil {
					for i := range b {
						b[i] ^= 0x5a
					}
					os.WriteFile(f, b, 0o644)
				}
			}
		}},
		{"manifest gone", func(t *testing.T, dir string) {
			files, _ := filepath.Glob(filepath.Join(dir, "MANIFEST*"))
			for _, f := range files {
				os.Remove(f)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := testOptions(t, t.TempDir())
			s := openTest(t, o)
			sh := s.shard(1, ShardConfig{SegmentBytes: 100_000})
			sh.SetLeaderEpoch(3)
			for i := range 200 {
				s.append(sh, batchOf(10, 100, int64(i)))
			}
			if _, err := sh.DeleteRecords(1005); err != nil {
				t.Fatal(err)
			}
			sh.SetLeaderEpoch(4)
			s.append(sh, batchOf(10, 100, 1))
			want := sh.State()
			s.Close()
			c.harm(t, filepath.Join(o.Dir, indexDirName))
			again := openTest(t, o)
			if again.Clean() {
				t.Error("taken for a clean stop")
			}
			sh = again.shard(1, ShardConfig{})
			if got := sh.State(); got != want {
				t.Fatalf("state %+v, want %+v", got, want)
			}
			wantValues(t, sh, want.LogStart, want.LogEnd)
			if e, end := sh.EndOffsetForEpoch(3); e != 3 || end != 2000 {
				t.Errorf("epoch 3 ends at (%d, %d)", e, end)
			}
		})
	}
}

// Entries of a segment are deleted, and others point to the wrong place: reads find everything.
func TestK05IndexEntriesWrong(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		o := testOptions(t, t.TempDir())
		s := openTest(t, o)
		sh := s.shard(1, ShardConfig{})
		for i := range 300 {
			s.append(sh, batchOf(20, 1000, int64(i)))
		}
		s.indexer.flush()
		active := sh.active
		entries, err := s.index.segmentIndex(active)
		if err != nil || len(entries) < 10 {
			t.Fatal(len(entries), err)
		}
		b := s.index.db.NewBatch()
		dropIndex(b, active, 0)
		for i := range entries {
			if wrong {
				e := entries[i]
				e.position += 13
				b.Set(appendIndexKey(nil, sh.id, active.number, active.generation, e.offset), appendIndexValue(nil, &e), nil)
			}
		}
		if err := s.index.commit(b, true); err != nil {
			t.Fatal(err)
		}
		active.index.unload()
		var sp Span
		for offset := int64(5990); offset > 0; offset -= 777 {
			if err := sh.ReadBlocking(&sp, offset, 1<<62, 1000); err != nil {
				t.Fatal(err)
			}
			sp.Release()
		}
		if s.metrics.IndexRebuilds.Load() == 0 {
			t.Error("the index was not made again")
		}
		wantValues(t, sh, 0, 6000)
	}
}

func TestK07MissingSegment(t *testing.T) {
	text := new(logText)
	o := testOptions(t, t.TempDir())
	s := openTest(t, o)
	sh, other := s.shard(1, ShardConfig{SegmentBytes: 3000}), s.shard(2, ShardConfig{})
	for i := range 20 {
		s.append(sh, batchOf(10, 100, int64(i)))
		s.append(other, batchOf(1, 10, 1))
	}
	s.Close()
	dir := filepath.Join(o.Dir, testID(1).String())
	foreign := filepath.Join(dir, segmentName(1000))
	if err := os.Remove(filepath.Join(dir, segmentName(3))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreign, []byte(strings.Repeat("not ours", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.NewTextHandler(text, nil))
	s = openTest(t, o)
	sh, other = s.shard(1, ShardConfig{}), s.shard(2, ShardConfig{})
	b := batchOf(1, 10, 1)
	if err := sh.Submit(appendOf(b), b); !errors.Is(err, ErrStorage) {
		t.Errorf("append: %v", err)
	}
	var sp Span
	if err := sh.Read(&sp, 0, 1<<62, 1); !errors.Is(err, ErrStorage) {
		t.Errorf("read: %v", err)
	}
	wantValues(t, other, 0, 20)
	if !text.has("is missing") {
		t.Error("the log does not name what is missing")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("the foreign file is gone")
	}
	s.Close()
	os.RemoveAll(filepath.Join(o.Dir, testID(2).String()))
	s = openTest(t, o)
	if err := s.shard(2, ShardConfig{}).Submit(appendOf(b), b); !errors.Is(err, ErrStorage) {
		t.Errorf("append to a shard without its directory: %v", err)
	}
}

// Segments that somebody removed kept their shard out of service for good. A repair brings it back without them.
func TestRepairOfMissingSegments(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openTest(t, o)
	for i := range 20 {
		for n := 1; n <= 4; n++ {
			s.append(s.shard(n, ShardConfig{SegmentBytes: 3000}), batchOf(10, 100, int64(i)))
		}
	}
	numbers := []uint64{3, s.shard(2, ShardConfig{}).active.number}
	s.Close()
	gone := []string{}
	for i, number := range numbers {
		gone = append(gone, filepath.Join(o.Dir, testID(i+1).String(), segmentName(number)))
		if err := os.Remove(gone[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(o.Dir, testID(3).String())); err != nil {
		t.Fatal(err)
	}
	for _, apply := range []bool{false, true} {
		var lines []string
		if err := Repair(o.Dir, o.FS, apply, func(line string) { lines = append(lines, line) }); err != nil {
			t.Fatal(err)
		}
		for i, path := range gone {
			if _, err := os.Stat(path); (err == nil) != apply || i >= len(lines) || !strings.Contains(lines[i], path) {
				t.Errorf("applied %v: %v, %q", apply, err, lines)
			}
		}
	}
	s = openTest(t, o)
	if err := Repair(o.Dir, o.FS, true, nil); !errors.Is(err, diskio.ErrLocked) {
		t.Errorf("in use: %v", err)
	}
	f := func(n int, lost int) {
		t.Helper()
		sh := s.shard(n, ShardConfig{})
		if st := sh.State(); st.Quarantined || st.LogStart != 0 {
			t.Errorf("shard %d: %+v", n, st)
		}
		got := map[int64][]byte{}
		for o := range sh.State().LogEnd {
			if values, err := readUntil(sh, o, o+1); err == nil {
				maps.Copy(got, values)
			} else if !errors.Is(err, ErrCorrupt) {
				t.Errorf("shard %d offset %d: %v", n, o, err)
			}
		}
		if len(got) != 200-lost {
			t.Errorf("shard %d has %d records, want %d", n, len(got), 200-lost)
		}
		if a := s.append(sh, batchOf(1, 10, 1)); a.Err != nil {
			t.Error(a.Err)
		}
	}
	f(1, 20)
	f(2, 20)
	f(3, 200)
	f(4, 0)
}

func TestK18RestartsDoNotGrow(t *testing.T) {
	o := testOptions(t, t.TempDir())
	end := int64(0)
	for i := range 8 {
		s := openTest(t, o)
		sh := s.shard(1, ShardConfig{})
		wantValues(t, sh, 0, end)
		s.append(sh, batchOf(3, 10, 1))
		end += 3
		if n := len(sh.list.Load().segments); n != 1 {
			t.Fatalf("restart %d: %d segments", i, n)
		}
		if i%2 == 0 {
			kill(s)
		} else {
			s.Close()
		}
	}
}

// Bits turn over in a sealed segment: reads of the range fail, others go on, and inspection finds the place.
func TestInspectFindsDamage(t *testing.T) {
	o, end := filled(t, 40, true, ShardConfig{SegmentBytes: 10_000})
	seen := func() (records int64, damages []*Damage) {
		v := &Visitor{
			Record: func(*SegmentInfo, *model.AppendHeader, *model.Record) error { records++; return nil },
			Damage: func(d *Damage) error { damages = append(damages, d); return nil },
		}
		if err := Inspect(o.Dir, o.FS, v); err != nil {
			t.Fatal(err)
		}
		return records, damages
	}
	if records, damages := seen(); records != end || len(damages) != 0 {
		t.Fatalf("%d records, damages %v", records, damages)
	}
	path := filepath.Join(o.Dir, testID(1).String(), segmentName(2))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[5000] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	records, damages := seen()
	if len(damages) != 1 || damages[0].Path != path || damages[0].Position > 5000 || damages[0].Position < 3000 || records >= end {
		t.Fatalf("%d records, damages %v", records, damages)
	}
	last := lastSegment(t, o)
	if b, err = os.ReadFile(last); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(last, b[:len(b)-5], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, damages = seen(); len(damages) != 2 {
		t.Fatalf("a segment that is shorter than it was at the clean stop is no damage: %v", damages)
	}
	if err := os.RemoveAll(filepath.Join(o.Dir, indexDirName)); err != nil {
		t.Fatal(err)
	}
	if _, damages = seen(); len(damages) != 1 {
		t.Fatalf("an unfinished append counts as damage: %v", damages)
	}
}

// The index store is damaged while the broker runs: nothing ends, reads find everything, and the next start
// makes the store again.
func TestK05IndexStoreDamagedInUse(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openTest(t, o)
	sh := s.shard(1, ShardConfig{})
	for i := range 300 {
		s.append(sh, batchOf(20, 1000, int64(i)))
	}
	s.indexer.flush()
	if err := s.index.db.Flush(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(o.Dir, indexDirName, "*.sst"))
	if len(files) == 0 {
		t.Fatal("no tables")
	}
	for _, path := range files {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, 100), 20); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	sh.active.index.unload()
	wantValues(t, sh, 0, 6000)
	if !s.index.damaged.Load() {
		t.Error("the damage was not met")
	}
	kill(s)
	again := openTest(t, o)
	if again.Clean() {
		t.Error("taken for a clean stop")
	}
	wantValues(t, again.shard(1, ShardConfig{}), 0, 6000)
	again.Close()
	if !openTest(t, o).Clean() {
		t.Error("not well again")
	}
}

// A damaged table cannot be compacted. That is not tried again at once and without end, and the store goes on.
func TestDamagedTableIsNotCompactedWithoutEnd(t *testing.T) {
	o := testOptions(t, t.TempDir())
	text := &logText{}
	o.Logger = slog.New(slog.NewTextHandler(text, nil))
	s := openTest(t, o)
	write := func(tables int) {
		for range tables {
			err := errors.Join(s.index.db.Set([]byte{0xfe, 1}, make([]byte, 100), nil), s.index.db.Set([]byte{0xfe, 2}, make([]byte, 100), nil),
				s.index.db.Flush())
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	failed := func() int { return text.count("could not be compacted") }
	// A compaction that is under way may write the next table just now.
	for deadline := time.Now().Add(20 * time.Second); failed() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no compaction met the damage")
		}
		write(2)
		files, _ := filepath.Glob(filepath.Join(o.Dir, indexDirName, "*.sst"))
		for _, path := range files {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				_, err = f.WriteAt(make([]byte, 100), 20)
				f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	write(40) // more than Pebble lets wait for a compaction, by default
	if n := failed(); n > 2 {
		t.Errorf("%d compactions failed", n)
	}
	if !s.index.damaged.Load() || s.Failed() != nil {
		t.Errorf("damaged %v, failed: %v", s.index.damaged.Load(), s.Failed())
	}
}

// What is on record and gone or cut was inspected as "0 damages".
func TestInspectMissesNothingThatIsOnRecord(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(t *testing.T, dir string) error
		want []string // in the one damage
		file string
	}{
		{"newest segment cut by 10 bytes", func(t *testing.T, dir string) error { return cutFile(t, newestIn(t, dir), 10) },
			[]string{"bytes, ", "are on record"}, "newest"},
		{"newest segment cut to its header", func(t *testing.T, dir string) error {
			return os.Truncate(newestIn(t, dir), segmentHeaderSize)
		}, []string{"the file has 128 bytes", "are on record"}, "newest"},
		{"newest segment removed", func(t *testing.T, dir string) error { return os.Remove(newestIn(t, dir)) },
			[]string{"the segment is missing"}, "newest"},
		{"shard file broken", func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, shardFileName), []byte("{\"vers"), 0o644)
		}, []string{"damaged"}, shardFileName},
		{"shard file removed", func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, shardFileName)) },
			[]string{"no such file"}, shardFileName},
		{"directory removed", func(_ *testing.T, dir string) error { return os.RemoveAll(dir) }, []string{"the directory is missing"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, _ := filled(t, 40, true, ShardConfig{})
			dir := filepath.Join(o.Dir, testID(1).String())
			path := filepath.Join(dir, c.file)
			if c.file == "newest" {
				path = newestIn(t, dir)
			}
			before := listing(t, filepath.Join(o.Dir, indexDirName))
			if err := c.harm(t, dir); err != nil {
				t.Fatal(err)
			}
			for range 2 { // it changes nothing
				shards, damages, notes := inspected(t, o)
				if shards != 1 || len(damages) != 1 || len(notes) != 0 {
					t.Fatalf("%d shards, damages %v, notes %v", shards, damages, notes)
				}
				for _, part := range c.want {
					if damages[0].Path != path || !strings.Contains(damages[0].Error(), part) {
						t.Errorf("no %q of %s in %v", part, path, damages[0])
					}
				}
			}
			if after := listing(t, filepath.Join(o.Dir, indexDirName)); after != before {
				t.Errorf("the index store was changed:\n%s\n%s", before, after)
			}
		})
	}
}

// An index store that is gone or damaged limits an inspection and does not end it; nor does a running broker.
func TestInspectWithoutRecords(t *testing.T) {
	o, _ := filled(t, 40, true, ShardConfig{})
	s := openTest(t, o)
	s.append(s.shard(1, ShardConfig{}), batchOf(10, 100, 1))
	if shards, damages, notes := inspected(t, o); shards != 1 || len(damages) != 0 || len(notes) != 0 {
		t.Errorf("with a running broker: %d shards, damages %v, notes %v", shards, damages, notes)
	}
	s.Close()
	index := filepath.Join(o.Dir, indexDirName)
	manifests, err := filepath.Glob(filepath.Join(index, "MANIFEST*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal("no manifest", err)
	}
	for _, path := range manifests {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if shards, damages, notes := inspected(t, o); shards != 1 || len(damages) != 0 || len(notes) != 1 {
		t.Errorf("damaged store: %d shards, damages %v, notes %v", shards, damages, notes)
	}
	if err := os.RemoveAll(index); err != nil {
		t.Fatal(err)
	}
	if shards, damages, notes := inspected(t, o); shards != 1 || len(damages) != 0 || len(notes) != 1 {
		t.Errorf("no store: %d shards, damages %v, notes %v", shards, damages, notes)
	}
}

func inspected(t *testing.T, o Options) (shards int, damages []*Damage, notes []string) {
	t.Helper()
	err := Inspect(o.Dir, o.FS, &Visitor{
		Shard:  func(*ShardInfo) error { shards++; return nil },
		Damage: func(d *Damage) error { damages = append(damages, d); return nil },
		Note:   func(text string) error { notes = append(notes, text); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return shards, damages, notes
}

func newestIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil || len(files) == 0 {
		t.Fatal("no segments", err)
	}
	return files[len(files)-1]
}

func cutFile(t *testing.T, path string, by int64) error {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()-by)
}

// listing names the files of a directory with their sizes and times.
func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, e.Name(), info.Size(), info.ModTime())
	}
	return b.String()
}

// The lines about a recovery said cause="<nil>" and a duration without its unit.
func TestRecoveryLogSaysWhatItMeans(t *testing.T) {
	o, _ := filled(t, 10, false, ShardConfig{})
	text := &logText{}
	o.Logger = slog.New(slog.NewJSONHandler(text, nil))
	openTest(t, o)
	if !text.has(`"shard recovered"`) || !text.has(`"took_ms"`) || text.has("nil") || text.has(`"duration"`) {
		t.Error(text.b.String())
	}
}
