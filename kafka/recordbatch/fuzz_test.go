package recordbatch

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/klauspost/compress/snappy"

	"millrace/engine/model"
	"millrace/perf"
)

const fuzzDecodedMax = 4 << 20

// FuzzDecodeBatch: no bytes panic, memory stays within the limit, and what is accepted encodes to the same
// records.
func FuzzDecodeBatch(f *testing.F) {
	for codec := model.CodecNone; codec <= model.CodecZstd; codec++ {
		records := []testRecord{{timestamp: 5, value: []byte("plain value that is long enough for the short path")},
			{timestamp: 3, key: []byte("k"), headers: []testHeader{{[]byte("h"), nil}, {[]byte("h"), []byte{}}}}}
		raw, _, _ := testRecords(records)
		f.Add(compressed(codec, records, compressBody(f, codec, raw)))
	}
	f.Add(plainBatch(3, 40))
	f.Fuzz(func(t *testing.T, wire []byte) {
		if len(wire) > HeaderSize { // let the fuzzer past frame and checksum
			wire = append([]byte(nil), wire...)
			clear(wire[:8])
			wire[16] = 2
			binary.BigEndian.PutUint32(wire[8:], uint32(len(wire)-logOverhead))
			binary.BigEndian.PutUint32(wire[17:], perf.CRC32C(wire[crcStart:]))
		}
		var held, most int64
		d := NewDecoder(perf.NewPool(0), func(n int64) bool {
			held += n
			most = max(most, held)
			return true
		})
		limits := testLimits()
		limits.DecodedBytesMax = fuzzDecodedMax
		limits.AllowTransactional = true
		stored, err := storeWith(d, &limits, wire, 77)
		d.Close()
		if held != 0 || most > 2*fuzzDecodedMax+scratchStepMin {
			t.Fatalf("%d bytes held, %d at most", held, most)
		}
		if err != nil {
			return
		}
		if _, n, err := model.ScanAppend(stored, testIdentity, 77, 0); err != nil || n != len(stored) {
			t.Fatal(err)
		}
		back := encodeAll(t, stored, 77)
		again := readBatches(t, back)
		var b Batch
		if err := b.ParseProduced(wire, math.MaxInt); err != nil {
			t.Fatal(err)
		}
		if len(again) != int(b.Count) {
			t.Fatalf("%d records of %d", len(again), b.Count)
		}
		sameRecords(t, readPlain(t, &b, d, &limits), again)
	})
}

// readPlain reads a batch's records with encoding/binary.
func readPlain(t *testing.T, b *Batch, d *Decoder, limits *Limits) (records []testRecord) {
	if err := d.Open(b, limits); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	raw := append([]byte(nil), d.records...)
	number := func() int64 {
		v, n := binary.Varint(raw)
		raw = raw[n:]
		return v
	}
	field := func() []byte {
		length := number()
		if length < 0 {
			return nil
		}
		v := raw[:length:length]
		raw = raw[length:]
		return v
	}
	for range b.Count {
		number()
		raw = raw[1:]
		r := testRecord{timestamp: b.BaseTimestamp + number()}
		number()
		r.key, r.value = field(), field()
		for range number() {
			r.headers = append(r.headers, testHeader{field(), field()})
		}
		records = append(records, r)
	}
	return records
}

// FuzzRoundTrip: records of any fields come back as they went, whatever the codec of the answer and the cut.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("some bytes to cut keys and values from, long enough for a few of them"), int64(17), uint8(0), uint16(100))
	f.Add([]byte{0, 1, 2, 3, 255, 254, 128, 127}, int64(-1), uint8(4), uint16(1))
	var compressors [model.CodecZstd + 1]*Compressor
	for codec := range compressors {
		var err error
		if compressors[codec], err = NewCompressor(model.Codec(codec), 1); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, timestamp int64, codec uint8, maxBytes uint16) {
		var records []testRecord
		take := func() []byte {
			if len(data) == 0 || data[0] == 0xff {
				data = data[min(1, len(data)):]
				return nil
			}
			n := min(int(data[0]), len(data)-1)
			v := data[1 : 1+n : 1+n]
			data = data[1+n:]
			return v
		}
		timestamp >>= 2
		for len(data) > 0 && len(records) < 100 {
			r := testRecord{timestamp: timestamp, key: take(), value: take()}
			for n := len(data) % 3; n > 0; n-- {
				name := take()
				r.headers = append(r.headers, testHeader{append([]byte{}, name...), take()})
			}
			records = append(records, r)
			timestamp = -timestamp/3 + int64(len(data))
		}
		if len(records) == 0 {
			return
		}
		b := newTestBatch(records)
		span := storeBatch(t, b.encode(), 5)
		compressor := compressors[codec%5]
		var got []testRecord
		in := Input{Span: span, Identity: testIdentity, From: 5, UpTo: 5 + int64(len(records)), MaxBytes: int(maxBytes), AtLeastOne: true}
		for in.From < in.UpTo {
			var res Result
			wire, err := compressor.AppendBatches(nil, &in, &res)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, readBatches(t, wire)...)
			in.From, in.Span, in.AtBlock = res.NextOffset, in.Span[res.Consumed:], res.AtBlock
		}
		sameRecords(t, records, got)
	})
}

// FuzzSnappyFraming: chunks of any bytes neither panic nor grow beyond the limit.
func FuzzSnappyFraming(f *testing.F) {
	f.Add(xerial(1, bytes.Repeat([]byte("abc"), 100), 64, true))
	f.Add(snappy.Encode(nil, bytes.Repeat([]byte("abc"), 100)))
	f.Add([]byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, b := range [][]byte{src, append([]byte(xerialMagic+"\x00\x00\x00\x01\x00\x00\x00\x01"), src...)} {
			s := scratch{pool: perf.NewPool(0), max: 1 << 20}
			_ = decodeSnappy(b, &s)
			if len(s.data()) > 1<<20 {
				t.Fatal(len(s.data()))
			}
			s.release()
		}
	})
}

// FuzzDecompress: no bytes make a codec panic or pass the limit.
func FuzzDecompress(f *testing.F) {
	raw := bytes.Repeat([]byte("some text that compresses well "), 300)
	for codec := model.CodecGzip; codec <= model.CodecZstd; codec++ {
		f.Add(uint8(codec), compressBody(f, codec, raw))
	}
	d := NewDecoder(perf.NewPool(1<<24), nil)
	f.Fuzz(func(t *testing.T, codec uint8, src []byte) {
		d.batch = Batch{Attributes: int16(1 + codec%4), Records: src}
		d.limits.DecodedBytesMax = 1 << 20
		err := d.decompress()
		if len(d.scratch.data()) > 1<<20 || err == nil && len(d.records) != len(d.scratch.data()) {
			t.Fatal(len(d.scratch.data()), err)
		}
		if err == nil && model.Codec(1+codec%4) == model.CodecLZ4 && len(d.records) > 300*len(src) {
			t.Fatal(len(d.records))
		}
		d.Close()
	})
}
