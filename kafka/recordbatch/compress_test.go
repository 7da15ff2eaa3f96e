package recordbatch

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"millrace/engine/model"
)

func TestCompressorEachCodec(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	records := randomRecords(rng, 60, 5000)
	records = append(records, testRecord{timestamp: 1, value: bytes.Repeat([]byte("large "), 30000)})
	b := newTestBatch(records)
	span := storeBatch(t, b.encode(), 0)
	for codec, levels := range map[model.Codec][]int{model.CodecNone: {0}, model.CodecGzip: {-1, 1, 9}, model.CodecSnappy: {0},
		model.CodecLZ4: {1, 9, 17}, model.CodecZstd: {-5, 3}} {
		for _, level := range levels {
			c, err := NewCompressor(codec, level)
			if err != nil {
				t.Fatal(err)
			}
			for _, maxBytes := range []int{1 << 30, 100, 20000} {
				var got []testRecord
				in := Input{Span: span, Identity: testIdentity, UpTo: 1 << 40, MaxBytes: maxBytes, AtLeastOne: true}
				for len(got) < len(records) {
					var res Result
					wire, err := c.AppendBatches([]byte{1}, &in, &res)
					if err != nil {
						t.Fatal(err)
					}
					wire = wire[1:]
					if len(wire) > maxBytes && res.Records > 1 {
						t.Fatalf("%s: %d bytes of %d", codec, len(wire), maxBytes)
					}
					if codecOf := parseAll(t, wire)[0].Codec(); maxBytes > 1<<20 && codecOf != codec {
						t.Errorf("%s: codec %s", codec, codecOf)
					}
					got = append(got, readBatches(t, wire)...)
					in.From, in.Span, in.AtBlock = res.NextOffset, in.Span[res.Consumed:], res.AtBlock
				}
				sameRecords(t, records, got)
			}
		}
	}
	if _, err := NewCompressor(model.CodecZstd, 22); err != nil {
		t.Error(err)
	}
	if _, err := NewCompressor(model.CodecGzip, 99); err == nil {
		t.Error("gzip level 99")
	}
	if _, err := NewCompressor(7, 0); err == nil {
		t.Error("codec 7")
	}
}

// TestC13XerialHeader: the framing's version words are big-endian 1.
func TestC13XerialHeader(t *testing.T) {
	got := appendXerial(nil, make([]byte, 70000))
	if !bytes.HasPrefix(got, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00")) {
		t.Errorf("%x", got[:20])
	}
}

func TestCompressorSkipsControl(t *testing.T) {
	h := model.AppendHeader{Kind: model.KindControl, Flags: model.FlagControl, ProducerID: 8, BaseSequence: -1, LastSequence: -1}
	var b model.Builder
	b.Begin(nil, testIdentity, &h, 5)
	b.Add(&model.Record{Offset: 5, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)})
	c, err := NewCompressor(model.CodecZstd, 3)
	if err != nil {
		t.Fatal(err)
	}
	var res Result
	wire, err := c.AppendBatches(nil, &Input{Span: b.Finish(nil), Identity: testIdentity, UpTo: 9, MaxBytes: 1000}, &res)
	if err != nil || parseAll(t, wire)[0].Codec() != model.CodecNone {
		t.Error(err)
	}
}

// An explicit compression.lz4.level of 9 compressed worse than 8: a higher level must not be larger.
func TestHigherLZ4LevelIsNotLarger(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	words := make([][]byte, 300)
	for i := range words {
		words[i] = make([]byte, 3+rng.IntN(8))
		for j := range words[i] {
			words[i][j] = byte('a' + rng.IntN(26))
		}
	}
	var value []byte
	for len(value) < 60_000 {
		value = append(append(value, words[rng.IntN(len(words))]...), ' ')
	}
	b := newTestBatch([]testRecord{{timestamp: 1, value: value}})
	span := storeBatch(t, b.encode(), 0)
	size := func(level int) int {
		c, err := NewCompressor(model.CodecLZ4, level)
		if err != nil {
			t.Fatal(err)
		}
		in := Input{Span: span, Identity: testIdentity, UpTo: 1 << 40, MaxBytes: 1 << 30, AtLeastOne: true}
		wire, err := c.AppendBatches(nil, &in, new(Result))
		if err != nil {
			t.Fatal(err)
		}
		return len(wire)
	}
	last := size(1)
	for level := 2; level <= 17; level++ {
		now := size(level)
		if now > last {
			t.Errorf("level %d: %d bytes, %d at the one below", level, now, last)
		}
		last = now
	}
	if first := size(LZ4LevelDefault); last >= first {
		t.Errorf("level 17 takes %d bytes, the default %d", last, first)
	}
}
