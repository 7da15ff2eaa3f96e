package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/diskio/disktest"
)

// Whatever of a compaction's work fails, the log stays as it was, nothing is left behind, and the next one succeeds.
func TestCleanFails(t *testing.T) {
	for _, kind := range []disktest.Kind{disktest.KindCreate, disktest.KindWrite, disktest.KindSync, disktest.KindRename} {
		for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
			t.Run(fmt.Sprint(kind, cause), func(t *testing.T) {
				disk, now := disktest.New(1), time.UnixMilli(1_000_000)
				s := cleanStore(t, disk, &now)
				sh := s.shard(1, compacting)
				put(t, s, sh, -1, 0, "a=1", "b=1", "a=2")
				roll(sh)
				put(t, s, sh, -1, 0, "b=2")
				roll(sh)
				if err := s.keeper.checkpointAll(s.all()); err != nil {
					t.Fatal(err)
				}
				before := keyedLog(t, sh)
				disk.Inject(disktest.Fault{Kind: kind, Path: unfinishedSuffix, Err: cause})
				s.cleaner.look(now, now)
				wantLog(t, sh, before)
				if s.metrics.CleanErrors.Load() != 1 || s.Failed() != nil || sh.cleaned.damaged.Load() {
					t.Errorf("%d compactions failed, store %v", s.metrics.CleanErrors.Load(), s.Failed())
				}
				names, err := disk.List(filepath.Dir(segmentPath(1, 1)))
				if err != nil || strings.Contains(fmt.Sprint(names), unfinishedSuffix) {
					t.Errorf("files %v, %v", names, err)
				}
				disk.ClearFaults()
				s.cleaner.look(now, now)
				wantLog(t, sh, "2:a=2 3:b=2")
				again, _ := crashed(t, s, disk, disktest.CrashDrop)
				wantLog(t, again.shard(1, compacting), "2:a=2 3:b=2")
			})
		}
	}
}

// Without room for a copy of the segments nothing is begun, and appends go on.
func TestCleanWantsSpace(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	s.Store.opts.ReserveBytes = 1 << 40
	sh := s.shard(1, compacting)
	put(t, s, sh, -1, 0, "a=1", "a=2")
	roll(sh)
	disk.SetCapacity(1 << 20)
	s.cleaner.look(now, now)
	wantLog(t, sh, "0:a=1 1:a=2")
	if s.metrics.CleanErrors.Load() != 1 {
		t.Error("it was not counted")
	}
}

// When a shard is due: by what is new in it, never before the least lag, and after the largest in any case, for which
// an idle active segment is sealed.
func TestCleanIsDue(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	config := compacting
	sh := s.shard(1, config)
	due := func(want bool, what string) {
		t.Helper()
		if _, got := sh.planClean(s.nowMillis()); got != want {
			t.Errorf("%s: due %t", what, got)
		}
	}
	due(false, "empty")
	put(t, s, sh, -1, 0, "a=1", "b=1")
	due(false, "active only")
	roll(sh)
	due(true, "all is new")
	config.MinCompactionLag = time.Minute
	sh.SetConfig(config)
	due(false, "before the least lag")
	now = now.Add(time.Minute + time.Second)
	due(true, "after the least lag")
	config.MinCompactionLag = 0
	config.Compact = false
	sh.SetConfig(config)
	due(false, "another policy")
	config.Compact = true
	sh.SetConfig(config)
	s.cleaner.look(now, now)
	due(false, "compacted")
	for range 3 {
		put(t, s, sh, -1, 0, "c="+strings.Repeat("x", 40))
	}
	roll(sh)
	due(true, "most is new")
	config.MinDirtyRatio = 0.9
	sh.SetConfig(config)
	due(false, "too little is new")
	config.MaxCompactionLag = time.Hour
	sh.SetConfig(config)
	put(t, s, sh, -1, 0, "a=2")
	now = now.Add(59 * time.Minute)
	due(false, "before the largest lag")
	now = now.Add(2 * time.Minute)
	due(true, "after the largest lag")
	for range clockHold + 2 {
		s.cleaner.look(now, time.Now()) // the clock was moved by hand: it is believed after some looks
	}
	if got := keyedLog(t, sh); !strings.HasPrefix(got, "1:b=1 4:c=") || !strings.HasSuffix(got, " 5:a=2") {
		t.Errorf("log %s: the active segment should have been sealed and compacted", got)
	}
}

// A truncation below what was compacted makes what comes after it new again.
func TestCleanAfterTruncation(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	sh := s.shard(1, compacting)
	put(t, s, sh, -1, 0, "a=1", "b=1")
	put(t, s, sh, -1, 0, "a=2")
	put(t, s, sh, -1, 0, "c=1")
	put(t, s, sh, -1, 0, "a=3", "d=1")
	roll(sh)
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	wantLog(t, sh, "1:b=1 3:c=1 4:a=3 5:d=1")
	if err := sh.Truncate(2); err != nil { // in the gap
		t.Fatal(err)
	}
	wantLog(t, sh, "1:b=1")
	if st := sh.State(); st.LogEnd != 2 {
		t.Fatalf("log end %d", st.LogEnd)
	}
	put(t, s, sh, -1, 0, "b=2")
	roll(sh)
	again, _ := crashed(t, s, disk, disktest.CrashKeep)
	sh = again.shard(1, compacting)
	wantLog(t, sh, "1:b=1 2:b=2")
	if err := cleanNow(t, again, sh); err != nil {
		t.Fatal(err)
	}
	wantLog(t, sh, "2:b=2")
}

// More keys than the memory holds take several passes.
func TestCleanInPasses(t *testing.T) {
	disk, now := disktest.New(1), time.UnixMilli(1_000_000)
	s := cleanStore(t, disk, &now)
	s.SetUpkeep(Upkeep{CleanMemoryBytes: keySlotSize * keySlotsMin, CleanInterval: time.Hour})
	config := compacting
	config.MinDirtyRatio = 0
	sh := s.shard(1, config)
	var want []string
	for i := range 20 {
		put(t, s, sh, -1, 0, fmt.Sprintf("k%d=1", i), fmt.Sprintf("k%d=2", i))
		want = append(want, fmt.Sprintf("%d:k%d=2", 2*i+1, i))
		if i%3 == 0 {
			roll(sh)
		}
	}
	roll(sh)
	s.cleaner.look(now, now)
	wantLog(t, sh, strings.Join(want, " "))
	if full := s.metrics.CleanMapFull.Load(); full < 4 {
		t.Errorf("the memory was full %d times", full)
	}
}

// An index store that went back to before a compaction costs a scan, nothing else.
func TestCleanForgottenByTheIndexStore(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openTest(t, o)
	sh := s.shard(1, compacting)
	for i := range 4 {
		put(t, s, sh, -1, 0, "a=1", fmt.Sprintf("b%d=1", i))
		roll(sh)
	}
	put(t, s, sh, -1, 0, "c=1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	index, before := filepath.Join(o.Dir, indexDirName), filepath.Join(t.TempDir(), indexDirName)
	if err := os.CopyFS(before, os.DirFS(index)); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, o)
	sh = s.shard(1, compacting)
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	want := "1:b0=1 3:b1=1 5:b2=1 6:a=1 7:b3=1 8:c=1"
	wantLog(t, sh, want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(index); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(index, os.DirFS(before)); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, o)
	wantLog(t, s.shard(1, compacting), want)
}
