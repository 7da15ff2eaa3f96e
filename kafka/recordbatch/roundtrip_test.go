package recordbatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
)

// encodeAll serves a whole span of stored appends.
func encodeAll(tb testing.TB, span []byte, from int64) []byte {
	tb.Helper()
	in := Input{Span: span, Identity: testIdentity, From: from, UpTo: math.MaxInt64, MaxBytes: math.MaxInt32}
	var res Result
	dst, err := AppendBatches(nil, &in, &res)
	if err != nil {
		tb.Fatal(err)
	}
	if res.Consumed != len(span) || res.AtBlock {
		tb.Fatalf("consumed %d of %d, %+v", res.Consumed, len(span), res)
	}
	return dst
}

func roundTrip(tb testing.TB, wire []byte, offset int64) []testRecord {
	tb.Helper()
	stored := storeBatch(tb, wire, offset)
	if _, n, err := model.ScanAppend(stored, testIdentity, offset, 7); err != nil || n != len(stored) {
		tb.Fatalf("scan: %v, %d of %d bytes", err, n, len(stored))
	}
	return readBatches(tb, encodeAll(tb, stored, offset))
}

// readBatches decodes wire batches through kmsg, apart from this package's decoder.
func readBatches(tb testing.TB, wire []byte) []testRecord {
	tb.Helper()
	var out []testRecord
	next := int64(-1)
	for len(wire) > 0 {
		var b kmsg.RecordBatch
		size := int(binary.BigEndian.Uint32(wire[8:])) + 12
		if err := b.ReadFrom(wire[:size]); err != nil {
			tb.Fatal(err)
		}
		if err := checkBatch(&b, wire[:size]); err != nil {
			tb.Fatal(err)
		}
		if b.FirstOffset < next {
			tb.Fatalf("offset %d after %d", b.FirstOffset, next)
		}
		raw := decompressBody(tb, model.Codec(b.Attributes&7), b.Records)
		most := int64(-1)
		for range b.NumRecords {
			length, n := binary.Varint(raw)
			var r kmsg.Record
			if err := r.ReadFrom(raw[:n+int(length)]); err != nil {
				tb.Fatal(err)
			}
			raw = raw[n+int(length):]
			timestamp := b.FirstTimestamp + r.TimestampDelta64
			most = max(most, timestamp)
			rec := testRecord{timestamp: timestamp, key: r.Key, value: r.Value}
			for _, h := range r.Headers {
				rec.headers = append(rec.headers, testHeader{[]byte(h.Key), h.Value})
			}
			out = append(out, rec)
		}
		if len(raw) != 0 {
			tb.Fatalf("%d bytes after the last record", len(raw))
		}
		if b.NumRecords > 0 && most != b.MaxTimestamp {
			tb.Fatalf("max timestamp %d, records say %d", b.MaxTimestamp, most)
		}
		next = b.FirstOffset + int64(b.LastOffsetDelta) + 1
		wire = wire[size:]
	}
	return out
}

func checkBatch(b *kmsg.RecordBatch, wire []byte) error {
	var own Batch
	if n, err := own.Parse(wire); err != nil || n != len(wire) {
		return fmt.Errorf("own parser: %d, %v", n, err)
	}
	if b.Magic != 2 || b.FirstOffset != own.BaseOffset || b.NumRecords != own.Count || b.LastOffsetDelta != own.LastOffsetDelta ||
		b.FirstTimestamp != own.BaseTimestamp || b.ProducerID != own.ProducerID || b.FirstSequence != own.BaseSequence {
		return fmt.Errorf("kmsg reads %+v, this package %+v", b, own)
	}
	return nil
}

func sameRecords(tb testing.TB, want, got []testRecord) {
	tb.Helper()
	if len(want) != len(got) {
		tb.Fatalf("%d records, want %d", len(got), len(want))
	}
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	for i := range want {
		w, g := want[i], got[i]
		ok := w.timestamp == g.timestamp && same(w.key, g.key) && same(w.value, g.value) && len(w.headers) == len(g.headers)
		for j := 0; ok && j < len(w.headers); j++ {
			ok = bytes.Equal(w.headers[j].name, g.headers[j].name) && same(w.headers[j].value, g.headers[j].value)
		}
		if !ok {
			tb.Fatalf("record %d is %.300q, want %.300q", i, fmt.Sprint(g), fmt.Sprint(w))
		}
	}
}

func compressBody(tb testing.TB, codec model.Codec, raw []byte) []byte {
	tb.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case model.CodecNone:
		return raw
	case model.CodecGzip:
		w = gzip.NewWriter(&buf)
	case model.CodecSnappy:
		return snappy.Encode(nil, raw)
	case model.CodecLZ4:
		w = lz4.NewWriter(&buf)
	case model.CodecZstd:
		e, err := zstd.NewWriter(&buf)
		if err != nil {
			tb.Fatal(err)
		}
		w = e
	}
	if _, err := w.Write(raw); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func decompressBody(tb testing.TB, codec model.Codec, body []byte) []byte {
	tb.Helper()
	if codec == model.CodecNone {
		return body
	}
	kinds := []kgo.CompressionCodecType{kgo.CodecNone, kgo.CodecGzip, kgo.CodecSnappy, kgo.CodecLz4, kgo.CodecZstd}
	raw, err := kgo.DefaultDecompressor().Decompress(body, kinds[codec])
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// randomRecords covers null and empty keys, values and header values, duplicate and non-UTF-8 header names,
// and times of any order and sign.
func randomRecords(rng *rand.Rand, n, valueMax int) []testRecord {
	randomBytes := func(most int) []byte {
		switch rng.IntN(6) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		b := make([]byte, rng.IntN(most+1))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	records := make([]testRecord, n)
	for i := range records {
		r := &records[i]
		r.value = randomBytes(valueMax)
		if rng.IntN(2) == 0 {
			r.key = randomBytes(80)
		}
		switch rng.IntN(5) {
		case 0:
			r.timestamp = rng.Int64N(1000) - 500
		case 1:
			r.timestamp = int64(rng.Uint64()) >> 2
		default:
			r.timestamp = testNow + rng.Int64N(20000) - 10000
		}
		if rng.IntN(3) == 0 {
			for range rng.IntN(4) {
				name := randomBytes(10)
				if name == nil {
					name = []byte("same")
				}
				r.headers = append(r.headers, testHeader{name, randomBytes(200)})
			}
		}
	}
	return records
}

func TestC13C23RandomBatches(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range 120 {
		records := randomRecords(rng, 1+rng.IntN(60), []int{20, 200, 30000}[rng.IntN(3)])
		b := newTestBatch(records)
		codec := model.Codec(rng.IntN(5))
		b.attributes = uint16(codec)
		b.body = compressBody(t, codec, b.body)
		back := roundTrip(t, b.encode(), int64(i)*1000)
		sameRecords(t, records, back)
	}
}

func TestC13EachCodec(t *testing.T) {
	for codec := model.CodecNone; codec <= model.CodecZstd; codec++ {
		for _, records := range [][]testRecord{
			someRecords(1), someRecords(2), someRecords(1000),
			{{timestamp: 1, value: bytes.Repeat([]byte("0123456789abcdef"), 1<<16)}, {timestamp: 2, headers: []testHeader{{[]byte("\xff\xfe"), nil}}}},
		} {
			b := newTestBatch(records)
			b.attributes, b.body = uint16(codec), compressBody(t, codec, b.body)
			stored := storeBatch(t, b.encode(), 9)
			if h, _, err := model.ScanAppend(stored, testIdentity, 9, 0); err != nil || h.Codec != codec {
				t.Fatal(err, h.Codec)
			}
			sameRecords(t, records, readBatches(t, encodeAll(t, stored, 9)))
		}
	}
}
