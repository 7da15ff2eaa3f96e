package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"millrace/engine/model"
)

// serve is one call of AppendBatches.
func serve(tb testing.TB, in Input) ([]byte, Result, error) {
	tb.Helper()
	var res Result
	prefix := []byte("prefix")
	dst, err := AppendBatches(append([]byte(nil), prefix...), &in, &res)
	if !bytes.HasPrefix(dst, prefix) {
		tb.Fatal("what stood in dst was changed")
	}
	return dst[len(prefix):], res, err
}

// parseAll reads every batch of wire, whole and with right checksums.
func parseAll(tb testing.TB, wire []byte) (batches []Batch) {
	tb.Helper()
	for len(wire) > 0 {
		var b Batch
		n, err := b.Parse(wire)
		if err != nil {
			tb.Fatal(err)
		}
		batches = append(batches, b)
		wire = wire[n:]
	}
	return batches
}

func TestE06EveryOffset(t *testing.T) {
	var span []byte
	for base := int64(0); base < 30; base += 10 {
		b := newTestBatch(someRecords(10))
		b.producerID, b.producerEpoch, b.baseSequence = 4, 2, math.MaxInt32-3
		span = append(span, storeBatch(t, b.encode(), base)...)
	}
	for from := int64(0); from < 30; from++ {
		wire, res, err := serve(t, Input{Span: span, Identity: testIdentity, From: from, UpTo: 30, MaxBytes: 1 << 20})
		if err != nil || res.NextOffset != 30 || res.Records != int(30-from) || res.Consumed != len(span) {
			t.Fatalf("from %d: %+v %v", from, res, err)
		}
		batches := parseAll(t, wire)
		if batches[0].BaseOffset != from || batches[0].ProducerID != 4 || batches[0].ProducerEpoch != 2 {
			t.Fatalf("from %d: %+v", from, batches[0])
		}
		want := int32((int64(math.MaxInt32-3) + from%10) & math.MaxInt32)
		if batches[0].BaseSequence != want || batches[0].LeaderEpoch != 7 {
			t.Errorf("from %d: sequence %d, want %d", from, batches[0].BaseSequence, want)
		}
		records := readBatches(t, wire)
		sameRecords(t, someRecords(10)[from%10:], records[:10-from%10])
	}
	// Cut by the upper bound.
	for upTo := int64(1); upTo < 30; upTo++ {
		wire, res, err := serve(t, Input{Span: span, Identity: testIdentity, From: 0, UpTo: upTo, MaxBytes: 1 << 20})
		if err != nil || res.NextOffset != upTo || len(readBatches(t, wire)) != int(upTo) {
			t.Fatalf("up to %d: %+v %v", upTo, res, err)
		}
	}
	if wire, res, err := serve(t, Input{Span: span, Identity: testIdentity, From: 5, UpTo: 5, MaxBytes: 1 << 20}); len(wire) > 0 || err != nil || res.NextOffset != 5 {
		t.Error(wire, res, err)
	}
}

// TestE18EverySize reads a log through replies of every size and goes on where each ended, from the block
// remembered or from the span's beginning.
func TestE18EverySize(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	var span []byte
	var want []testRecord
	for len(span) < 700<<10 {
		records := randomRecords(rng, 1+rng.IntN(50), []int{10, 1000, 20000}[rng.IntN(3)])
		b := newTestBatch(records)
		span = append(span, storeBatch(t, b.encode(), int64(len(want)))...)
		want = append(want, records...)
	}
	for _, remember := range []bool{true, false} {
		var got []testRecord
		in := Input{Span: span, Identity: testIdentity, UpTo: int64(len(want)), AtLeastOne: true}
		for in.From < in.UpTo {
			in.MaxBytes = rng.IntN(60000)
			var res Result
			wire, err := AppendBatches(nil, &in, &res)
			if err != nil {
				t.Fatal(err)
			}
			if len(wire) > in.MaxBytes && res.Records != 1 {
				t.Fatalf("%d bytes of %d for %d records", len(wire), in.MaxBytes, res.Records)
			}
			if parseAll(t, wire)[0].BaseOffset != in.From {
				t.Fatal("does not begin at", in.From)
			}
			got = append(got, readBatches(t, wire)...)
			if res.NextOffset != int64(len(got)) {
				t.Fatalf("next offset %d after %d records", res.NextOffset, len(got))
			}
			in.From = res.NextOffset
			if remember {
				in.Span, in.AtBlock = in.Span[res.Consumed:], res.AtBlock
			} else {
				in.AtBlock = false
			}
		}
		sameRecords(t, want, got)
	}
}

func TestE01AtLeastOne(t *testing.T) {
	span := storeBatch(t, plainBatch(3, 1000), 0)
	wire, res, err := serve(t, Input{Span: span, Identity: testIdentity, UpTo: 3, MaxBytes: 1})
	if len(wire) > 0 || err != nil || res.NextOffset != 0 || res.Consumed > model.HeaderSize {
		t.Error(len(wire), res, err)
	}
	wire, res, err = serve(t, Input{Span: span, Identity: testIdentity, UpTo: 3, MaxBytes: 1, AtLeastOne: true})
	if err != nil || res.NextOffset != 1 || len(readBatches(t, wire)) != 1 {
		t.Error(res, err)
	}
	one := len(wire)
	for _, c := range []struct{ bytes, want int }{{one - 1, 0}, {one, 1}, {one + 1, 1}} {
		if _, res, _ = serve(t, Input{Span: span, Identity: testIdentity, UpTo: 3, MaxBytes: c.bytes}); res.Records != c.want {
			t.Error(c, res)
		}
	}
}

func TestSpanEndsAnywhere(t *testing.T) {
	span := append(storeBatch(t, plainBatch(3000, 100), 0), storeBatch(t, plainBatch(10, 100), 3000)...)
	for n := 0; n <= len(span); n += 997 {
		wire, res, err := serve(t, Input{Span: span[:n], Identity: testIdentity, UpTo: 5000, MaxBytes: 1 << 20})
		if len(wire) == 0 && n > 0 && !errors.Is(err, model.ErrShort) {
			t.Fatal(n, err)
		}
		if len(wire) > 0 && err != nil || res.Consumed > n {
			t.Fatal(n, res, err)
		}
		if got := len(readBatches(t, wire)); int64(got) != res.NextOffset || got != res.Records {
			t.Fatal(n, got, res)
		}
	}
}

func TestDamageIsNotServed(t *testing.T) {
	span := append(storeBatch(t, plainBatch(3000, 100), 0), storeBatch(t, plainBatch(10, 100), 3000)...)
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	whole := readBatches(t, encodeAll(t, span, 0))
	for range 300 {
		bad := append([]byte(nil), span...)
		bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		wire, res, err := serve(t, Input{Span: bad, Identity: testIdentity, UpTo: 5000, MaxBytes: 1 << 20})
		if len(wire) == 0 && err == nil || len(wire) > 0 && err != nil {
			t.Fatal(len(wire), err)
		}
		got := readBatches(t, wire)
		if len(got) >= len(whole) || res.NextOffset != int64(len(got)) {
			t.Fatalf("%d records of a damaged span, %+v", len(got), res)
		}
		sameRecords(t, whole[:len(got)], got)
	}
	if _, _, err := serve(t, Input{Span: span, Identity: testIdentity + 1, UpTo: 5000, MaxBytes: 1 << 20}); !errors.Is(err, model.ErrForeign) {
		t.Error(err)
	}
	in := Input{Span: span[model.HeaderSize:], AtBlock: true, Identity: testIdentity + 1, UpTo: 5000, MaxBytes: 1 << 20}
	if err := in.Header.Parse(span, testIdentity); err != nil {
		t.Fatal(err)
	}
	if _, _, err := serve(t, in); !errors.Is(err, model.ErrChecksum) {
		t.Error(err)
	}
}

// gapped stores an append for offsets 10 to 19 of which only some records are left.
func gapped(offsets ...int64) []byte {
	h := model.AppendHeader{Kind: model.KindData, LastOffset: 9, BaseTimestamp: 100, MaxTimestamp: 500, ProducerID: 3, BaseSequence: 50}
	if len(offsets) == 0 {
		h.Kind = model.KindEmpty
	}
	var b model.Builder
	b.Begin(nil, testIdentity, &h, 10)
	for _, offset := range offsets {
		b.AddValue(offset, offset, []byte{byte(offset)})
	}
	return b.Finish(nil)
}

func TestE23Gaps(t *testing.T) {
	for _, offsets := range [][]int64{{10, 19}, {12, 15}, {10}, {19}, {13}, {}} {
		span := append(gapped(offsets...), storeBatch(t, plainBatch(1, 5), 20)...)
		for from := int64(10); from < 20; from++ {
			// Only this append: a reader at any offset gets what is left of it and is led to its end.
			wire, res, err := serve(t, Input{Span: span, Identity: testIdentity, From: from, UpTo: 20, MaxBytes: 1000})
			if err != nil || res.NextOffset != 20 || res.AtBlock || res.Consumed != len(gapped(offsets...)) {
				t.Fatalf("%v from %d: %+v %v", offsets, from, res, err)
			}
			batches := parseAll(t, wire)
			if len(batches) != 1 {
				t.Fatalf("%v from %d: %d batches", offsets, from, len(batches))
			}
			b := batches[0]
			want := 0
			for _, offset := range offsets {
				if offset >= from {
					want++
				}
			}
			if int(b.Count) != want || b.BaseOffset < from || b.BaseOffset+int64(b.LastOffsetDelta) != 19 ||
				b.BaseSequence != int32(50+b.BaseOffset-10) {
				t.Errorf("%v from %d: %+v", offsets, from, b)
			}
			raw, left := b.Records, offsets[len(offsets)-want:]
			for _, offset := range left {
				length, n := binary.Varint(raw)
				var r model.Record
				delta := parseRecord(raw[n:n+int(length)], &r)
				if b.BaseOffset+delta != offset || r.Value[0] != byte(offset) {
					t.Errorf("%v from %d: offset %d", offsets, from, b.BaseOffset+delta)
				}
				raw = raw[n+int(length):]
			}
		}
		for upTo := int64(11); upTo < 20; upTo++ {
			wire, res, err := serve(t, Input{Span: span, Identity: testIdentity, From: 10, UpTo: upTo, MaxBytes: 1000})
			if err != nil || res.NextOffset != upTo {
				t.Fatalf("%v up to %d: %+v %v", offsets, upTo, res, err)
			}
			last := parseAll(t, wire)
			if b := last[len(last)-1]; b.BaseOffset+int64(b.LastOffsetDelta) != upTo-1 {
				t.Errorf("%v up to %d: %+v", offsets, upTo, b)
			}
		}
	}
}

func TestControlAppend(t *testing.T) {
	h := model.AppendHeader{Kind: model.KindControl, Flags: model.FlagControl | model.FlagTransactional, ProducerID: 8, BaseSequence: -1, LastSequence: -1}
	var b model.Builder
	b.Begin(nil, testIdentity, &h, 5)
	b.Add(&model.Record{Offset: 5, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)})
	got := parseAll(t, encodeAll(t, b.Finish(nil), 5))
	if len(got) != 1 || !got[0].Control() || !got[0].Transactional() || got[0].Count != 1 || got[0].BaseSequence != -1 || got[0].ProducerID != 8 {
		t.Errorf("%+v", got)
	}
}

func TestE25Header(t *testing.T) {
	records := []testRecord{{timestamp: 50}, {timestamp: 90}, {timestamp: 70}}
	b := newTestBatch(records)
	b.maxTimestamp = 1234
	span := storeBatch(t, b.encode(), 100)
	for from, want := range map[int64]int64{100: 90, 101: 90, 102: 70} {
		wire, _, err := serve(t, Input{Span: span, Identity: testIdentity, From: from, UpTo: 103, MaxBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		got := parseAll(t, wire)[0]
		if got.MaxTimestamp != want || got.Count != int32(103-from) || got.Attributes != 0 || got.ProducerID != -1 || got.BaseSequence != -1 {
			t.Errorf("from %d: %+v", from, got)
		}
	}
}

func TestSequencesWrap(t *testing.T) {
	for _, c := range []struct {
		base int32
		n    int64
		want int32
	}{{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}, {-1, 5, -1}, {math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1}} {
		if got := addSequence(c.base, c.n); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.base, c.n, got, c.want)
		}
	}
}

// TestGrowsOnlyWhereNeeded: a buffer that the batches fit is the one that comes back.
func TestGrowsOnlyWhereNeeded(t *testing.T) {
	span := storeBatch(t, plainBatch(3000, 100), 0)
	exact := len(encodeAll(t, span, 0))
	for spare, same := range map[int]bool{exact: true, exact - 1: false, exact + 100: true, 0: false} {
		dst := make([]byte, 1, 1+spare)
		in := Input{Span: span, Identity: testIdentity, UpTo: 1 << 40, MaxBytes: 1 << 30}
		var res Result
		wire, err := AppendBatches(dst, &in, &res)
		if err != nil || len(wire) != 1+exact || (&wire[0] == &dst[0]) != same {
			t.Errorf("%d bytes spare: %v, %d bytes", spare, err, len(wire))
		}
	}
}
