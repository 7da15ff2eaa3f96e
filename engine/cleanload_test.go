package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/engine/model"
)

// Producers, readers and retention go on while the cleaner runs all the time; no read fails, and each key ends with
// its last value.
func TestCleanUnderLoad(t *testing.T) {
	const keys, appends = 20, 700
	o := testOptions(t, t.TempDir())
	o.CleanInterval, o.OpenSegmentsMax, o.CheckpointInterval = time.Millisecond, 8, 20*time.Millisecond
	s := openTest(t, o)
	config := ShardConfig{Compact: true, SegmentBytes: 4000, FileDeleteDelay: -1, DeleteRetention: 5 * time.Millisecond}
	sh := s.shard(1, config)
	var over atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for !over.Load() {
				if err := eachRecord(sh, func(*model.Record) {}); err != nil {
					t.Error(err)
					return
				}
				if _, _, _, _, err := sh.OffsetForTimestamp(s.nowMillis() - 50); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	last := map[string]string{}
	for i := range appends {
		key := fmt.Sprintf("k%d", i*7%keys)
		if i%11 == 0 {
			put(t, s, sh, 5, int32(i), key)
			last[key] = ""
		} else {
			put(t, s, sh, 5, int32(i), fmt.Sprintf("%s=%d", key, i))
			last[key] = fmt.Sprint(i)
		}
	}
	over.Store(true)
	all.Wait()
	roll(sh)
	deadline := time.Now().Add(time.Minute)
	for found := map[string]string{}; ; {
		clear(found)
		n := 0
		err := eachRecord(sh, func(r *model.Record) {
			found[string(r.Key)] = string(r.Value)
			n++
		})
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range last {
			if found[key] != value {
				t.Fatalf("key %s is %q, want %q", key, found[key], value)
			}
		}
		if n <= keys {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d records of %d keys are left", n, keys)
		}
		cleanings := s.metrics.Cleanings.Load()
		put(t, s, sh, -1, 0, "k0=again") // gives the cleaner something to do
		last["k0"] = "again"
		roll(sh)
		for s.metrics.Cleanings.Load() == cleanings && time.Now().Before(deadline) {
			<-time.After(time.Millisecond) // it is the nicest thread: others here would keep it from its work
		}
	}
	if s.metrics.CleanErrors.Load() != 0 || s.metrics.Cleanings.Load() == 0 {
		t.Errorf("%d compactions failed, %d did not", s.metrics.CleanErrors.Load(), s.metrics.Cleanings.Load())
	}
}

// The bytes that compaction reads and writes keep to the rate.
func TestCleanKeepsToItsRate(t *testing.T) {
	stop := make(chan struct{})
	rate := int64(1 << 20)
	limit := throttle{perSecond: func() int64 { return rate }, stop: stop}
	start := time.Now()
	for range 10 {
		if err := limit.wait(10 << 10); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < 80*time.Millisecond {
		t.Errorf("90 KiB at 1 MiB/s took %s", took)
	}
	// A rate that rises ends a wait of days.
	looks := 0
	slow := throttle{stop: stop, perSecond: func() int64 {
		if looks++; looks > 3 {
			return 0
		}
		return 1
	}}
	for range 2 {
		if err := slow.wait(1 << 20); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := limit.wait(1 << 30); err == nil {
		err = limit.wait(1)
		if err == nil {
			t.Error("a stop does not end a wait")
		}
	}
}

// What goes on in the background follows its settings: an hour's wait ends, and producers are forgotten.
func TestUpkeepChanges(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.CleanInterval = time.Hour
	s := openTest(t, o)
	sh := s.shard(1, ShardConfig{Compact: true})
	put(t, s, sh, 5, 0, "a=1", "a=2")
	put(t, s, sh, -1, 0, "b=1")
	roll(sh)
	s.SetUpkeep(Upkeep{CleanInterval: time.Millisecond, ProducerExpiration: 24 * time.Hour})
	eventually(t, "compaction", func() bool { return s.metrics.CleanedRecords.Load() == 1 })
	producers := func() int {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		return len(sh.producers.byID)
	}
	if n := producers(); n != 1 {
		t.Errorf("%d producers before", n)
	}
	s.SetUpkeep(Upkeep{CleanInterval: time.Hour, ProducerExpiration: time.Millisecond})
	eventually(t, "the producer is forgotten", func() bool { return producers() == 0 })
}

// The map of keys keeps within its memory and says when it is full; what it has it finds.
func TestKeyMapBound(t *testing.T) {
	for _, bytes := range []int64{0, 1 << 16, 1 << 20, 3 << 20} {
		m := newKeyMap(bytes)
		n := 0
		for m.put(m.hash(fmt.Append(nil, n)), int64(n)) {
			n++
		}
		if m.bytes() > max(bytes, keySlotsMin*keySlotSize) {
			t.Errorf("%d bytes of %d", m.bytes(), bytes)
		}
		if least := bytes / keySlotSize / 3; int64(n) < least {
			t.Errorf("%d keys in %d bytes, want %d at least", n, bytes, least)
		}
		for i := range n {
			if got := m.get(m.hash(fmt.Append(nil, i))); got != int64(i) {
				t.Fatalf("key %d: %d", i, got)
			}
		}
		if got := m.get(m.hash([]byte("missing"))); got != -1 {
			t.Errorf("missing key: %d", got)
		}
		if !m.put(m.hash(fmt.Append(nil, 0)), 99) || m.get(m.hash(fmt.Append(nil, 0))) != 99 {
			t.Error("a full map does not take a later offset of a key it has")
		}
	}
}
