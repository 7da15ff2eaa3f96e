package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"millrace/engine/model"
	"millrace/perf"
)

// compressed is a batch with a body that the test has compressed.
func compressed(codec model.Codec, records []testRecord, body []byte) []byte {
	b := newTestBatch(records)
	b.attributes, b.body = uint16(codec), body
	return b.encode()
}

// codecRecords compress well and fill more than one block of any codec.
func codecRecords() ([]testRecord, []byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	words := bytes.Fields([]byte("the quick brown fox jumps over a lazy dog while seven mills turn in the race of water"))
	records := make([]testRecord, 3000)
	for i := range records {
		var value []byte
		for range 12 {
			value = append(append(value, words[rng.IntN(len(words))]...), ' ')
		}
		records[i] = testRecord{timestamp: testNow + int64(i), value: value}
	}
	raw, _, _ := testRecords(records)
	return records, raw
}

func lz4Frame4(t *testing.T, raw []byte, options ...lz4.Option) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	if err := w.Apply(options...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// lz4Linked writes a frame of linked blocks, as the C library does by default, with content checksum. raw
// repeats after period bytes.
func lz4Linked(t *testing.T, raw []byte, period int) []byte {
	t.Helper()
	le := binary.LittleEndian
	out := le.AppendUint32(nil, lz4Magic)
	out = append(out, 1<<6|lz4FlagContentChecksum, 4<<4)
	out = append(out, byte(xxh32(out[4:6])>>8))
	const block = 64 << 10
	for at := 0; at < len(raw); at += block {
		chunk := raw[at:min(at+block, len(raw))]
		// A block that is a match into the block before and, as the format asks, five literals; else stored.
		if at >= block && len(chunk) == block && bytes.Equal(chunk, raw[at-period:at-period+block]) {
			seq := []byte{0x0f, byte(period & 0xff), byte(period >> 8)}
			length := block - 5 - 19
			for ; length >= 255; length -= 255 {
				seq = append(seq, 255)
			}
			seq = append(seq, byte(length))
			seq = append(append(seq, 0x50), chunk[block-5:]...)
			out = append(le.AppendUint32(out, uint32(len(seq))), seq...)
			continue
		}
		out = append(le.AppendUint32(out, uint32(len(chunk))|lz4Stored), chunk...)
	}
	out = le.AppendUint32(out, 0)
	return le.AppendUint32(out, xxh32(raw))
}

func xerial(version uint32, raw []byte, chunk int, emptyChunk bool) []byte {
	be := binary.BigEndian
	out := append([]byte(nil), xerialMagic...)
	out = be.AppendUint32(be.AppendUint32(out, version), version)
	for len(raw) > 0 {
		n := min(chunk, len(raw))
		block := snappy.Encode(nil, raw[:n])
		out = append(be.AppendUint32(out, uint32(len(block))), block...)
		raw = raw[n:]
		if emptyChunk {
			out = be.AppendUint32(out, 0)
			out = append(be.AppendUint32(out, 1), 0) // a block of no bytes
		}
	}
	return out
}

func zstdFrame(t *testing.T, raw []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := zstd.NewWriter(&buf, options...)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(raw); at += 10000 { // streamed: no content size
		if _, err := w.Write(raw[at:min(len(raw), at+10000)]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestC14GoodStreams(t *testing.T) {
	records, raw := codecRecords()
	half := len(raw) / 2
	cat := func(a, b []byte) []byte { return append(append([]byte(nil), a...), b...) }
	gz := func(b []byte) []byte { return compressBody(t, model.CodecGzip, b) }
	one, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		codec model.Codec
		body  []byte
	}{
		"gzip":                      {model.CodecGzip, gz(raw)},
		"gzip two members":          {model.CodecGzip, cat(gz(raw[:half]), gz(raw[half:]))},
		"gzip junk":                 {model.CodecGzip, append(gz(raw), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)},
		"gzip one byte of junk":     {model.CodecGzip, append(gz(raw), 0x1f)},
		"snappy":                    {model.CodecSnappy, snappy.Encode(nil, raw)},
		"xerial":                    {model.CodecSnappy, xerial(1, raw, 32<<10, false)},
		"xerial version 0":          {model.CodecSnappy, xerial(0, raw, 32<<10, false)},
		"xerial little-endian":      {model.CodecSnappy, xerial(0x01000000, raw, 32<<10, false)},
		"xerial empty chunks":       {model.CodecSnappy, xerial(1, raw, 32<<10, true)},
		"xerial one chunk":          {model.CodecSnappy, xerial(1, raw, len(raw), false)},
		"xerial concatenated":       {model.CodecSnappy, cat(xerial(1, raw[:half], 1000, false), xerial(1, raw[half:], 1000, false))},
		"lz4":                       {model.CodecLZ4, lz4Frame4(t, raw)},
		"lz4 no content checksum":   {model.CodecLZ4, lz4Frame4(t, raw, lz4.ChecksumOption(false))},
		"lz4 block checksum":        {model.CodecLZ4, lz4Frame4(t, raw, lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block64Kb))},
		"lz4 content size":          {model.CodecLZ4, lz4Frame4(t, raw, lz4.SizeOption(uint64(len(raw))), lz4.BlockSizeOption(lz4.Block256Kb))},
		"lz4 two frames":            {model.CodecLZ4, cat(lz4Frame4(t, raw[:half]), lz4Frame4(t, raw[half:]))},
		"lz4 skippable":             {model.CodecLZ4, cat([]byte{0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9}, lz4Frame4(t, raw))},
		"lz4 high compression":      {model.CodecLZ4, lz4Frame4(t, raw, lz4.CompressionLevelOption(lz4.Level9))},
		"zstd without content size": {model.CodecZstd, zstdFrame(t, raw)},
		"zstd with content size":    {model.CodecZstd, one.EncodeAll(raw, nil)},
		"zstd two frames":           {model.CodecZstd, cat(zstdFrame(t, raw[:half]), one.EncodeAll(raw[half:], nil))},
		"zstd checksum":             {model.CodecZstd, zstdFrame(t, raw, zstd.WithEncoderCRC(true))},
		"zstd best":                 {model.CodecZstd, zstdFrame(t, raw, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(64<<20))},
	} {
		wire := compressed(c.codec, records, c.body)
		limits := testLimits()
		if index, got := verdict(wire, &limits); got != nil {
			t.Errorf("%s: %v at %d", name, got, index)
			continue
		}
		sameRecords(t, records, readBatches(t, encodeAll(t, storeBatch(t, wire, 7), 7)))
	}
}

func TestC14LinkedLZ4(t *testing.T) {
	value := make([]byte, 60000)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	raw := bytes.Repeat(value, 5)
	frame := lz4Linked(t, raw, len(value))
	if len(frame) > 2*(64<<10)+len(value) {
		t.Fatal("no linked blocks")
	}
	s := scratch{pool: perf.NewPool(0), max: 1 << 20}
	if err := decodeLZ4(frame, &s); err != nil || !bytes.Equal(s.data(), raw) {
		t.Fatal(err)
	}
	// The same linked block as the first of a frame, behind another frame: there is nothing to look back at.
	lone := append([]byte(nil), frame[:7]...)
	lone = append(lone, frame[7+4+(64<<10):]...)
	s.release()
	if err := decodeLZ4(append(append([]byte(nil), frame...), lone...), &s); err == nil {
		t.Error("a frame looked back into the one before")
	}
	s.release()
}

func TestC14BadStreams(t *testing.T) {
	records, raw := codecRecords()
	flip := func(b []byte, at int) []byte {
		out := append([]byte(nil), b...)
		if at < 0 {
			at += len(out)
		}
		out[at] ^= 0x10
		return out
	}
	gz := compressBody(t, model.CodecGzip, raw)
	lz := lz4Frame4(t, raw, lz4.BlockChecksumOption(true))
	zs := zstdFrame(t, raw, zstd.WithEncoderCRC(true))
	xe := xerial(1, raw, 32<<10, false)
	sn := snappy.Encode(nil, raw)
	first := int(binary.LittleEndian.Uint32(lz[7:]))
	for name, c := range map[string]struct {
		codec model.Codec
		body  []byte
	}{
		"gzip truncated":         {model.CodecGzip, gz[:len(gz)-10]},
		"gzip bad CRC":           {model.CodecGzip, flip(gz, -8)},
		"gzip bad size":          {model.CodecGzip, flip(gz, -4)},
		"gzip garbage":           {model.CodecGzip, raw},
		"gzip nothing":           {model.CodecGzip, nil},
		"lz4 content checksum":   {model.CodecLZ4, flip(lz, -1)},
		"lz4 block checksum":     {model.CodecLZ4, flip(lz, 11+first)},
		"lz4 header checksum":    {model.CodecLZ4, flip(lz, 6)},
		"lz4 truncated":          {model.CodecLZ4, lz[:len(lz)-9]},
		"lz4 no end":             {model.CodecLZ4, lz[:len(lz)-4]},
		"lz4 garbage":            {model.CodecLZ4, raw},
		"lz4 nothing":            {model.CodecLZ4, nil},
		"lz4 junk":               {model.CodecLZ4, append(append([]byte(nil), lz...), 1, 2, 3, 4)},
		"zstd checksum":          {model.CodecZstd, flip(zs, -1)},
		"zstd truncated":         {model.CodecZstd, zs[:len(zs)-5]},
		"zstd garbage":           {model.CodecZstd, raw},
		"zstd nothing":           {model.CodecZstd, nil},
		"xerial chunk too long":  {model.CodecSnappy, flip(xe, 16)},
		"xerial truncated":       {model.CodecSnappy, xe[:len(xe)-1]},
		"xerial junk":            {model.CodecSnappy, append(append([]byte(nil), xe...), 1, 2)},
		"xerial header only":     {model.CodecSnappy, xe[:16]},
		"snappy truncated":       {model.CodecSnappy, sn[:len(sn)-1]},
		"snappy wrong length":    {model.CodecSnappy, flip(sn, 0)},
		"snappy announces 4 GiB": {model.CodecSnappy, append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, sn[3:]...)},
		"snappy garbage":         {model.CodecSnappy, raw[:2000]},
		"snappy nothing":         {model.CodecSnappy, nil},
	} {
		limits := testLimits()
		if _, got := verdict(compressed(c.codec, records, c.body), &limits); got != ErrInvalidRecord {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestBombs: what decompresses to far more than the limit stops there, and takes no more memory.
func TestBombs(t *testing.T) {
	const limit = 1 << 20
	raw := make([]byte, 16<<20)
	records := someRecords(1)
	bodies := map[model.Codec][][]byte{
		model.CodecGzip:   {compressBody(t, model.CodecGzip, raw)},
		model.CodecZstd:   {zstdFrame(t, raw), compressBody(t, model.CodecZstd, raw)},
		model.CodecLZ4:    {lz4Frame4(t, raw, lz4.BlockSizeOption(lz4.Block4Mb)), lz4Frame4(t, raw, lz4.BlockSizeOption(lz4.Block64Kb))},
		model.CodecSnappy: {snappy.Encode(nil, raw), xerial(1, raw, 32<<10, false)},
	}
	one, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bodies[model.CodecZstd] = append(bodies[model.CodecZstd], one.EncodeAll(raw, nil))
	for codec, list := range bodies {
		for i, body := range list {
			var held, most int64
			d := NewDecoder(perf.NewPool(0), func(n int64) bool {
				held += n
				most = max(most, held)
				return true
			})
			limits := testLimits()
			limits.DecodedBytesMax = limit
			var b Batch
			if err := b.ParseProduced(compressed(codec, records, body), 1<<30); err != nil {
				t.Fatal(err)
			}
			if err := d.Open(&b, &limits); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s %d: %v", codec, i, err)
			}
			if held != 0 || most > 2*limit {
				t.Errorf("%s %d: %d bytes held, %d at most", codec, i, held, most)
			}
		}
	}
}

func TestExactLimit(t *testing.T) {
	records := []testRecord{{timestamp: 1, value: bytes.Repeat([]byte("ab"), 300<<10)}}
	raw, _, _ := testRecords(records)
	one, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for codec := model.CodecGzip; codec <= model.CodecZstd; codec++ {
		bodies := [][]byte{compressBody(t, codec, raw)}
		if codec == model.CodecZstd {
			bodies = append(bodies, one.EncodeAll(raw, nil))
		}
		for _, body := range bodies {
			for _, c := range []struct {
				slack int64
				want  error
			}{{21, nil}, {-1, ErrTooLarge}} { // stored, the record takes up to 21 bytes more
				limits := testLimits()
				limits.DecodedBytesMax = int64(len(raw)) + c.slack
				if _, got := verdict(compressed(codec, records, body), &limits); got != c.want {
					t.Errorf("%s at %+d: %v", codec, c.slack, got)
				}
			}
		}
	}
}

func TestCountBombInside(t *testing.T) {
	b := newTestBatch(someRecords(1))
	b.count, b.lastDelta = 1<<31-1, 1<<31-2
	b.body, b.attributes = compressBody(t, model.CodecGzip, b.body), uint16(model.CodecGzip)
	wantVerdict(t, "count", b.encode(), ErrTooLarge)
	b.count, b.lastDelta = 1000, 999
	wantVerdict(t, "count", b.encode(), ErrInvalidRecord)
}

func TestChargeRefused(t *testing.T) {
	_, raw := codecRecords()
	for codec := model.CodecGzip; codec <= model.CodecZstd; codec++ {
		for allowed := range 4 {
			var held int64
			calls := 0
			d := NewDecoder(perf.NewPool(0), func(n int64) bool {
				if n > 0 {
					if calls++; calls > allowed {
						return false
					}
				}
				held += n
				return true
			})
			var b Batch
			records, _ := codecRecords()
			if err := b.ParseProduced(compressed(codec, records, compressBody(t, codec, raw)), 1<<30); err != nil {
				t.Fatal(err)
			}
			limits := testLimits()
			err := d.Open(&b, &limits)
			if err != nil && !errors.Is(err, ErrMemory) || err == nil && allowed == 0 {
				t.Errorf("%s: %v", codec, err)
			}
			d.Close()
			if held != 0 || d.pool.Leased() != 0 {
				t.Errorf("%s: %d bytes held", codec, held)
			}
		}
	}
}

func TestXXH32(t *testing.T) {
	var abc []byte
	for i := range 300 {
		abc = append(abc, byte(i*7))
	}
	for n, want := range map[int]uint32{0: 0x02cc5d05} {
		if got := xxh32(abc[:n]); got != want {
			t.Errorf("%d bytes: %08x, want %08x", n, got, want)
		}
	}
	if got := xxh32([]byte("a")); got != 0x550d7456 {
		t.Errorf("%08x", got)
	}
	if got := xxh32([]byte("Nobody inspects the spammish repetition")); got != 0xe2293b2f {
		t.Errorf("%08x", got)
	}
}
