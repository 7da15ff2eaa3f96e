package engine

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"millrace/engine/model"
)

// What compaction left of large appends and long segments is found from every offset and by time, in the gaps too,
// before and after a start.
func TestCleanLeavesSeekableSegments(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openTest(t, o)
	config := ShardConfig{Compact: true, SegmentBytes: 8 << 20}
	sh := s.shard(1, config)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	last := map[string]int64{}
	next := int64(0)
	for i := range 400 {
		var texts []string
		for range 1 + random.IntN(20) {
			size := random.IntN(3000)
			if i%50 == 7 {
				size = 40_000 // appends of several blocks
			}
			key := fmt.Sprintf("k%d", random.IntN(1500))
			last[key] = next + int64(len(texts))
			texts = append(texts, key+"="+strings.Repeat("x", size))
		}
		put(t, s, sh, -1, 0, texts...)
		next += int64(len(texts))
	}
	roll(sh)
	if err := cleanNow(t, s, sh); err != nil {
		t.Fatal(err)
	}
	var offsets []int64
	for _, offset := range last {
		offsets = append(offsets, offset)
	}
	sort.Slice(offsets, func(i, j int) bool { return offsets[i] < offsets[j] })
	check := func(sh *Shard) {
		t.Helper()
		var sp Span
		defer sp.Release()
		for range 400 {
			from := random.Int64N(next)
			want := next
			if i := sort.Search(len(offsets), func(i int) bool { return offsets[i] >= from }); i < len(offsets) {
				want = offsets[i]
			}
			got, at := int64(-1), from
			for got < 0 && at < next {
				if err := sh.ReadBlocking(&sp, at, 1<<62, 1+random.IntN(100_000)); err != nil {
					t.Fatalf("read %d: %v", at, err)
				}
				if err := sp.Load(); err != nil {
					t.Fatal(err)
				}
				after := parseSpan(t, sh, &sp, func(r *model.Record) {
					if r.Offset >= from && got < 0 {
						got = r.Offset
					}
				})
				if after <= at {
					t.Fatalf("read %d: no progress", at)
				}
				at = after
			}
			if got != want && !(got < 0 && want == next) {
				t.Fatalf("from %d the first record is %d, want %d", from, got, want)
			}
		}
		offset, _, _, found, err := sh.OffsetForTimestamp(0)
		if err != nil || !found || offset != offsets[0] {
			t.Errorf("first by time: %d %t %v, want %d", offset, found, err, offsets[0])
		}
	}
	check(sh)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openTest(t, o)
	sh = again.shard(1, config)
	check(sh)
	if n := again.metrics.IndexRebuilds.Load(); n != 0 {
		t.Errorf("%d indexes had to be made again", n)
	}
	if n := len(sh.list.Load().segments); n > 4 || sh.list.Load().segments[0].generation != 2 {
		t.Errorf("%d segments", n)
	}
}
