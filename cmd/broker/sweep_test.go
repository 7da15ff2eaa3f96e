package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millrace/diskio/disktest"
	"millrace/engine"
	"millrace/engine/model"
	"millrace/meta"
	"millrace/meta/cluster"
)

// Outcomes of a start on a damaged directory, as docs/durability.md lists them.
const (
	outcomeWhole   = "everything is there"
	outcomeRange   = "some offsets cannot be read, all else is served"
	outcomeCut     = "the log ends earlier, and the broker's log names the segment"
	outcomeShard   = "a partition is out of service"
	outcomePast    = "repaired, and the cluster state lost changes that its log alone had since the last stop"
	outcomeMended  = "the start is refused, and after inspect --repair everything is there"
	outcomeUnknown = "the log ends earlier, where no record was of what is gone"
)

// harm is one way to damage one file.
type harm struct {
	name  string
	apply func(disk *disktest.Disk, path string) error
}

// TestOfflineDamage damages every file of a small data directory in every way, one at a time, and starts the stores
// of a broker on it: the outcome is one of a few, and what is served is right. MILLRACE_TEST_SWEEP=full tries every
// eighth byte of each file.
func TestOfflineDamage(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	full := os.Getenv("MILLRACE_TEST_SWEEP") == "full"
	every := 3
	if raceEnabled {
		every = 24
	}
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			t.Parallel()
			h, older := sweepDirectory(t, clean)
			outcomes := map[string]int{}
			for _, path := range filesBelow(t, h.disk, "/data") {
				for i, hurt := range harmsOf(t, h.disk, older, path, full) {
					if !full && i%every != 0 {
						continue
					}
					disk := h.disk.Crash(disktest.CrashKeep)
					if err := hurt.apply(disk, path); err != nil {
						t.Fatalf("%s %s: %v", hurt.name, path, err)
					}
					what := fmt.Sprintf("%s %s", path, hurt.name)
					outcomes[sweepStart(t, h, disk, clean, path, what)]++
				}
			}
			for _, name := range sortedNames(outcomes) {
				t.Logf("%5d: %s", outcomes[name], name)
			}
		})
	}
}

// sweepDirectory makes a directory of a few partitions of several segments, stopped or killed, and keeps what it
// was before the last appends.
func sweepDirectory(t *testing.T, clean bool) (h *powerHistory, older *disktest.Disk) {
	h = &powerHistory{t: t, random: rand.New(rand.NewPCG(1, 2)), disk: disktest.New(1),
		topics: map[string]*powerTopic{}, commits: map[powerPlace]int64{}}
	h.open(false)
	for i := range 2 {
		topic := &powerTopic{durable: i == 0}
		topic.id[0], topic.id[15] = byte(i+1), 7
		h.propose(&powerChange{what: "create", name: fmt.Sprint("t", i), topic: topic, partitions: 1 + i})
	}
	h.shrink()
	fill := func(n int) {
		for range n {
			h.append()
			if h.random.IntN(4) == 0 {
				h.propose(h.drawCommit())
			}
		}
	}
	fill(20)
	older = h.disk.Crash(disktest.CrashKeep)
	fill(10)
	h.stop(false) // leaves tables of both stores, and a mark that the next append removes
	fill(10)
	if clean {
		if err := h.broker.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	} else {
		h.disk.Cut()
		h.broker.Close(context.Background())
	}
	h.disk = h.disk.Crash(disktest.CrashKeep)
	return h, older
}

func filesBelow(t *testing.T, disk *disktest.Disk, dir string) (files []string) {
	t.Helper()
	names, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := disk.List(path); err == nil {
			files = append(files, filesBelow(t, disk, path)...)
		} else {
			files = append(files, path)
		}
	}
	return files
}

func contentOf(disk *disktest.Disk, path string) ([]byte, error) {
	size, err := disk.Size(path)
	if err != nil {
		return nil, err
	}
	f, err := disk.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
	}
	return b, err
}

// replaceContent puts another file in the place of one.
func replaceContent(disk *disktest.Disk, path string, b []byte) error {
	if err := disk.Remove(path); err != nil {
		return err
	}
	f, err := disk.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(b, 0)
	return err
}

// harmsOf lists the ways to damage a file.
func harmsOf(t *testing.T, disk, older *disktest.Disk, path string, full bool) (list []harm) {
	t.Helper()
	content, err := contentOf(disk, path)
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, harm{"removed", func(d *disktest.Disk, path string) error { return d.Remove(path) }})
	if b, err := contentOf(older, path); err == nil && !bytes.Equal(b, content) {
		list = append(list, harm{"replaced by an older version", func(d *disktest.Disk, path string) error { return replaceContent(d, path, b) }})
	}
	if other := otherOf(t, disk, path); other != "" {
		b, err := contentOf(disk, other)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, harm{"replaced by " + other, func(d *disktest.Disk, path string) error { return replaceContent(d, path, b) }})
	}
	step := max(len(content)/5, 1)
	if full {
		step = 8
	}
	for at := 0; at < len(content); at += step {
		position := at + (at/step*7)%min(step, len(content)-at)
		list = append(list, harm{fmt.Sprint("bit flipped at ", position), func(d *disktest.Disk, path string) error {
			b := bytes.Clone(content)
			b[position] ^= 1 << (position % 8)
			return replaceContent(d, path, b)
		}})
		if at%(2*step) == 0 {
			list = append(list, harm{fmt.Sprint("cut to ", position), func(d *disktest.Disk, path string) error {
				return replaceContent(d, path, content[:position])
			}})
		}
	}
	return list
}

// otherOf returns a file of the same name in another shard's directory.
func otherOf(t *testing.T, disk *disktest.Disk, path string) string {
	t.Helper()
	for _, file := range filesBelow(t, disk, "/data") {
		if file != path && filepath.Base(file) == filepath.Base(path) && strings.Contains(filepath.Base(filepath.Dir(file)), "-") {
			return file
		}
	}
	return ""
}

// sweepStart starts on a damaged directory and says what came of it. What must not be fails the test.
func sweepStart(t *testing.T, h *powerHistory, disk *disktest.Disk, clean bool, path, what string) string {
	b, log, err := sweepOpen(h, disk)
	if err == nil {
		defer b.Close(context.Background())
		return sweepLook(t, h, b, log, clean, path, what, false)
	}
	b.Close(context.Background())
	for _, part := range []string{"/data/meta", "inspect --repair --data-dir /data"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: refused without %q: %v", what, part, err)
		}
	}
	repair := func(apply bool) (lines []string) {
		o := meta.Options{Dir: "/data/meta", FS: disk.PebbleFS()}
		if err := repairMeta(context.Background(), o, apply, func(line string) { lines = append(lines, line) }); err != nil {
			t.Errorf("%s: repair: %v", what, err)
		}
		return lines
	}
	disk = disk.Crash(disktest.CrashKeep) // a failed store stays locked until its process ends
	if repair(false); len(repair(true)) == 0 {
		t.Errorf("%s: refused, and there is nothing to repair: %v", what, err)
	}
	b, log, err = sweepOpen(h, disk)
	if err != nil {
		t.Errorf("%s: refused after a repair: %v", what, err)
		return "refused"
	}
	defer b.Close(context.Background())
	if got := sweepLook(t, h, b, log, clean, path, what, true); got != outcomeWhole {
		return got
	}
	return outcomeMended
}

func sweepOpen(h *powerHistory, disk *disktest.Disk) (*Broker, *logBuffer, error) {
	log := &logBuffer{}
	b, err := openSimulated(h.broker.config, disk, newPowerSink(), slog.New(slog.NewTextHandler(log, nil)))
	return b, log, err
}

// sweepLook compares what a start serves.
func sweepLook(t *testing.T, h *powerHistory, b *Broker, log *logBuffer, clean bool, path, what string, repaired bool) string {
	topics := 0
	b.machine.Image().Topics(func(topic *cluster.Topic) bool {
		topics++
		if known := h.topics[topic.Name]; known == nil || known.id != topic.ID || len(known.logs) != len(topic.Partitions) {
			t.Errorf("%s: topic %s of %d partitions", what, topic.Name, len(topic.Partitions))
		}
		return true
	})
	if topics != len(h.topics) {
		t.Errorf("%s: %d topics, want %d", what, topics, len(h.topics))
		return "topics lost"
	}
	outcome := outcomeWhole
	for place, offset := range h.commits {
		if got, ok := b.groups.Offset(place.group, place.topic, place.partition); !ok || got.Offset != offset {
			if repaired && !clean {
				outcome = outcomePast
				continue
			}
			t.Errorf("%s: group %s has %d (%v), committed %d", what, place.group, got.Offset, ok, offset)
		}
	}
	for _, name := range sortedNames(h.topics) {
		topic := h.topics[name]
		for p, l := range topic.logs {
			sh := b.store.Shard(model.ShardID{Topic: topic.id, Partition: int32(p)})
			if sh == nil {
				t.Errorf("%s: %s-%d has no shard", what, name, p)
				continue
			}
			unrecorded := !clean && strings.HasSuffix(path, ".msg") // younger than the last checkpoint, perhaps
			got := sweepLog(t, sh, l, log, unrecorded, fmt.Sprintf("%s: %s-%d", what, name, p))
			if got != outcomeWhole {
				outcome = got
			}
		}
	}
	return outcome
}

// sweepLog reads a partition and compares.
func sweepLog(t *testing.T, sh *engine.Shard, l *powerLog, log *logBuffer, unrecorded bool, what string) string {
	st := sh.State()
	if st.Quarantined {
		if !strings.Contains(log.String(), "quarantined") {
			t.Errorf("%s: out of service and nothing says so", what)
		}
		return outcomeShard
	}
	if st.LogStart != l.start || st.LogEnd > l.end {
		t.Errorf("%s: goes from %d to %d, want %d to %d", what, st.LogStart, st.LogEnd, l.start, l.end)
		return "wrong"
	}
	failed := 0
	for next := l.start; next < st.LogEnd; {
		values, after, err := sweepRead(sh, next)
		for o, v := range values {
			if !bytes.Equal(v, l.values[o]) {
				t.Errorf("%s offset %d: wrong value", what, o)
				return "wrong"
			}
		}
		if err != nil {
			if !errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrStorage) {
				t.Errorf("%s offset %d: %v", what, next, err)
			}
			failed++
			after = max(next, after) + 1
		}
		if values == nil && err == nil {
			t.Errorf("%s offset %d: nothing there and no error", what, next)
			break
		}
		next = after
	}
	switch {
	case st.LogEnd < l.end:
		if !slices.ContainsFunc(strings.Split(log.String(), "\n"), func(line string) bool {
			return (strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")) && strings.Contains(line, sh.ID().String())
		}) {
			if unrecorded {
				return outcomeUnknown
			}
			t.Errorf("%s: ends at %d instead of %d and nothing says so", what, st.LogEnd, l.end)
		}
		return outcomeCut
	case failed > 0:
		return outcomeRange
	}
	return outcomeWhole
}

// sweepRead reads and verifies what one read at an offset gives.
func sweepRead(sh *engine.Shard, offset int64) (values map[int64][]byte, next int64, err error) {
	var sp engine.Span
	defer sp.Release()
	if err := sh.ReadBlocking(&sp, offset, 1<<62, 1<<20); err != nil {
		return nil, 0, err
	}
	if sp.Len() == 0 {
		return nil, 0, nil
	}
	if err := sp.Load(); err != nil {
		return nil, 0, err
	}
	values = map[int64][]byte{}
	next, err = spanValues(sh, &sp, values)
	if err == nil && next <= offset {
		err = fs.ErrInvalid
	} else if err != nil {
		err = fmt.Errorf("%w: %w", engine.ErrCorrupt, err)
	}
	return values, next, err
}
