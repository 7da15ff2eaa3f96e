package engine

import (
	"errors"
	"testing"
)

func TestAppendAndRead(t *testing.T) {
	s := openTest(t, testOptions(t, t.TempDir()))
	sh := s.shard(1, ShardConfig{SegmentBytes: 1 << 20})
	total := int64(0)
	for i := range 50 {
		n, size := 1+i%7*20, 100
		if i%10 == 9 {
			n, size = 40, 20_000 // several blocks
		}
		b := batchOf(n, size, int64(i))
		a := s.append(sh, b)
		if a.Err != nil || a.BaseOffset != total || a.LastOffset != total+int64(n)-1 {
			t.Fatalf("append %d: %+v", i, a)
		}
		total += int64(n)
	}
	if st := sh.State(); st.LogEnd != total || st.HighWatermark != total {
		t.Fatalf("state %+v, want log end %d", st, total)
	}
	if n := len(sh.list.Load().segments); n < 4 {
		t.Fatalf("%d segments", n)
	}
	for _, maxBytes := range []int{1, 1000, 100_000, 1 << 20, 1 << 30} {
		if got := readAll(t, sh, 0, maxBytes); int64(len(got)) != total {
			t.Fatalf("%d bytes at once: %d records, want %d", maxBytes, len(got), total)
		}
	}
	var sp Span
	defer sp.Release()
	for offset := int64(0); offset < total; offset += 3 {
		if err := sh.ReadBlocking(&sp, offset, 1<<62, 1); err != nil {
			t.Fatal(err)
		}
		found := false
		first := int64(-1)
		parseSpanUntil(t, sh, &sp, func(o int64) {
			if first < 0 {
				first = o
			}
			found = found || o == offset
		})
		if !found || first > offset {
			t.Fatalf("offset %d not in its span (first %d)", offset, first)
		}
	}
	for _, offset := range []int64{-1, total + 1} {
		if err := sh.Read(&sp, offset, 1<<62, 1); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Fatalf("offset %d: %v", offset, err)
		}
	}
}
