package model

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/perf"
)

const identity = 0x5eed1234

var update = flag.Bool("update", false, "write the golden bytes anew")

// goldenHeader and goldenRecords are what testdata/append-v1.hex holds; docs/format.md shows the same bytes.
func goldenHeader() AppendHeader {
	return AppendHeader{Kind: KindData, Flags: FlagTransactional, Codec: CodecLZ4, LeaderEpoch: 3, LastOffset: 4,
		BaseTimestamp: 1_700_000_000_000, MaxTimestamp: 1_700_000_000_070, ProducerID: 0x0102030405, ProducerEpoch: 6,
		BaseSequence: 2147483646, LastSequence: 2}
}

func goldenRecords() []Record {
	return []Record{
		{Offset: 1000, Value: []byte("value")},
		{Offset: 1001, TimestampDelta: 70, Key: []byte("key"), Value: []byte{}},
		{Offset: 1002, TimestampDelta: -1, Key: []byte{}},
		{Offset: 1003, Value: []byte("v"), Headers: []byte{4, 2, 'h', 2, 'x', 0, 1}},
		{Offset: 1004, Value: []byte("e"), Expiry: 0x1122334455667788, ProtocolData: []byte{9, 'p'}},
	}
}

func buildAppend(h AppendHeader, base int64, records []Record) []byte {
	var b Builder
	b.Begin(nil, identity, &h, base)
	for i := range records {
		b.Add(&records[i])
	}
	return b.Finish(nil)
}

func goldenAppends() map[string][]byte {
	control := AppendHeader{Kind: KindControl, Flags: FlagControl | FlagTransactional, LeaderEpoch: 3, BaseTimestamp: 5,
		MaxTimestamp: 5, ProducerID: 7, ProducerEpoch: 1, BaseSequence: -1, LastSequence: -1}
	empty := AppendHeader{Kind: KindEmpty, Flags: FlagDeleteHorizon | FlagLogAppendTime, LeaderEpoch: 4, LastOffset: 9,
		BaseTimestamp: -1, MaxTimestamp: -1, ProducerID: 7, ProducerEpoch: 1, BaseSequence: 10, LastSequence: 19, DeleteHorizon: 99}
	return map[string][]byte{
		"append-v1":  buildAppend(goldenHeader(), 1000, goldenRecords()),
		"control-v1": buildAppend(control, 1005, []Record{{Offset: 1005, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)}}),
		"empty-v1":   buildAppend(empty, 1006, nil),
	}
}

// hexLines writes bytes as lines of 32 digits.
func hexLines(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		n := min(16, len(b))
		s.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return s.String()
}

func TestGoldenBytes(t *testing.T) {
	document, err := os.ReadFile("../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range goldenAppends() {
		path := filepath.Join("testdata", name+".hex")
		if *update {
			if err := os.WriteFile(path, []byte(hexLines(got)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if hexLines(got) != string(want) {
			t.Errorf("%s: written\n%swant\n%s", name, hexLines(got), want)
		}
		if !bytes.Contains(document, want) {
			t.Errorf("docs/format.md does not show the bytes of %s", path)
		}
		if _, n, err := ScanAppend(got, identity, -1, 0); err != nil || n != len(got) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLayout holds the golden bytes against the places that the document gives, apart from the parser.
func TestLayout(t *testing.T) {
	b := goldenAppends()["append-v1"]
	at := func(pos int, digits string) {
		t.Helper()
		if got := hex.EncodeToString(b[pos : pos+len(digits)/2]); got != digits {
			t.Errorf("at %d: %s, want %s", pos, got, digits)
		}
	}
	at(4, "4d52"+"01"+"01"+"0002"+"03"+"00"+"5eed1234")
	at(20, "00000005"+"00000001"+"00000003"+"00000000000003e8"+"00000000000003ec")
	at(48, "0000018bcfe56800"+"0000018bcfe56846"+"0000000102030405"+"0006"+"0000"+"7ffffffe"+"00000002")
	at(84, "0000000000000000"+"000000000000000000000000")
	at(112, "00000068"+"00000005"+"03000000")
	at(124, "00000000000003e8"+"00000011"+"00000000"+"00000000"+"00000005"+hex.EncodeToString([]byte("value")))
	at(153, "00000000000003e9"+"00000013"+"00000007"+"03"+"8c01"+"03"+"6b6579"+"00000000"+"00000000")
	at(184, "00000000000003ea"+"0000000f"+"00000003"+"07"+"01"+"00"+"00000000"+"00000000")
	at(211, "00000000000003eb"+"00000015"+"00000008"+"08"+"04026802780001"+"00000000"+"00000001"+"76")
	at(244, "00000000000003ec"+"00000018"+"00000009"+"10"+"1122334455667788"+"00000002"+"0970"+"00000001"+"65")
	if len(b) != 280 {
		t.Error(len(b))
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	h := goldenHeader()
	h.Identity, h.RecordCount, h.BlockCount, h.Length, h.BaseOffset = identity, 3, 1, 500, 1<<40
	h.LastOffset = h.BaseOffset + 4
	var b [HeaderSize]byte
	h.Put(b[:])
	var got AppendHeader
	if err := got.Parse(b[:], identity); err != nil || got != h {
		t.Errorf("%v\n%+v\n%+v", err, got, h)
	}
}

// patched returns the append with its header changed and the checksum made right.
func patched(b []byte, change func(h []byte)) []byte {
	out := append([]byte(nil), b...)
	change(out)
	seed := uint32(out[12])<<24 | uint32(out[13])<<16 | uint32(out[14])<<8 | uint32(out[15])
	crc := perf.UpdateCRC32C(seed, out[4:HeaderSize])
	out[0], out[1], out[2], out[3] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
	return out
}

func TestHeaderRefusals(t *testing.T) {
	good := goldenAppends()["append-v1"]
	set := func(pos int, v ...byte) func([]byte) { return func(b []byte) { copy(b[pos:], v) } }
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"zeros":             {make([]byte, 4096), ErrNotAppend},
		"short":             {good[:HeaderSize-1], ErrShort},
		"nothing":           {nil, ErrShort},
		"records":           {good[HeaderSize+BlockHeaderSize:], ErrNotAppend},
		"version 2":         {patched(good, set(6, 2)), ErrVersion},
		"version 0":         {patched(good, set(6, 0)), ErrVersion},
		"kind 0":            {patched(good, set(7, 0)), ErrKind},
		"kind 4":            {patched(good, set(7, 4)), ErrKind},
		"flag 4":            {patched(good, set(9, 0x10)), ErrFlags},
		"flag 15":           {patched(good, set(8, 0x80)), ErrFlags},
		"body codec":        {patched(good, set(11, 4)), ErrBodyCodec},
		"foreign":           {patched(good, set(12, 1)), ErrForeign},
		"reserved 74":       {patched(good, set(75, 1)), ErrFlags},
		"reserved 103":      {patched(good, set(103, 1)), ErrFlags},
		"length 0":          {patched(good, set(16, 0, 0, 0, 0)), ErrMalformed},
		"length huge":       {patched(good, set(16, 0xff)), ErrMalformed},
		"no records":        {patched(good, set(20, 0, 0, 0, 0)), ErrMalformed},
		"too many records":  {patched(good, set(20, 0, 0, 0, 6)), ErrMalformed},
		"no blocks":         {patched(good, set(24, 0, 0, 0, 0)), ErrMalformed},
		"too many blocks":   {patched(good, set(24, 0, 0, 0, 6)), ErrMalformed},
		"negative base":     {patched(good, set(32, 0x80)), ErrMalformed},
		"last before base":  {patched(good, set(46, 0, 0)), ErrMalformed},
		"last far away":     {patched(good, set(40, 0x70)), ErrMalformed},
		"control kind":      {patched(good, set(7, 2)), ErrMalformed},
		"control flag":      {patched(good, set(9, 4)), ErrMalformed},
		"empty with blocks": {patched(good, set(7, 3)), ErrMalformed},
	} {
		var h AppendHeader
		if err := h.Parse(c.b, identity); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestFlippedBitsAreFound(t *testing.T) {
	for name, good := range goldenAppends() {
		for i := range len(good) * 8 {
			bad := append([]byte(nil), good...)
			bad[i/8] ^= 1 << (i % 8)
			if _, _, err := ScanAppend(bad, identity, -1, math.MinInt32); err == nil {
				t.Errorf("%s: bit %d", name, i)
			}
		}
		for n := range good {
			if _, _, err := ScanAppend(good[:n], identity, -1, math.MinInt32); !errors.Is(err, ErrShort) {
				t.Errorf("%s: %d bytes: %v", name, n, err)
			}
		}
		if _, _, err := ScanAppend(good, identity+1, -1, math.MinInt32); !errors.Is(err, ErrForeign) {
			t.Error(err)
		}
	}
}

func TestScanOrder(t *testing.T) {
	good := goldenAppends()["append-v1"]
	for _, c := range []struct {
		offset int64
		epoch  int32
		want   error
	}{{1000, 3, nil}, {1000, 0, nil}, {-1, 3, nil}, {999, 3, ErrOrder}, {1001, 3, ErrOrder}, {0, 3, ErrOrder}, {1000, 4, ErrOrder}} {
		if _, _, err := ScanAppend(good, identity, c.offset, c.epoch); !errors.Is(err, c.want) {
			t.Errorf("offset %d epoch %d: %v", c.offset, c.epoch, err)
		}
	}
}

func TestScanRefusesRecordsOutOfPlace(t *testing.T) {
	for name, change := range map[string]func(r []Record){
		"twice":       func(r []Record) { r[1].Offset = r[0].Offset },
		"before base": func(r []Record) { r[0].Offset = 999 },
		"falling":     func(r []Record) { r[2].Offset, r[3].Offset = r[3].Offset, r[2].Offset },
		"headers":     func(r []Record) { r[3].Headers = []byte{4, 2, 'h', 2, 'x', 0} },
	} {
		records := goldenRecords()
		change(records)
		if _, _, err := ScanAppend(buildAppend(goldenHeader(), 1000, records), identity, 1000, 0); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	records := goldenRecords()
	records[4].Offset = 1005
	h := goldenHeader()
	h.LastOffset = 5
	b := buildAppend(h, 1000, records)
	if _, _, err := ScanAppend(b, identity, 1000, 0); err != nil {
		t.Error("a gap is no damage", err)
	}
}

func TestStaleBlockIsNotTaken(t *testing.T) {
	// Two appends of one shard, the second torn so that its last block is an older append's.
	value := bytes.Repeat([]byte("x"), 100<<10)
	h := AppendHeader{Kind: KindData, LastOffset: 2}
	records := func(base int64) []Record {
		return []Record{{Offset: base, Value: value}, {Offset: base + 1, Value: value}, {Offset: base + 2, Value: value}}
	}
	old, fresh := buildAppend(h, 100, records(100)), buildAppend(h, 103, records(103))
	if len(old) != len(fresh) {
		t.Fatal(len(old), len(fresh))
	}
	for _, cut := range []int{HeaderSize, HeaderSize + (len(old)-HeaderSize)/3, HeaderSize + 2*(len(old)-HeaderSize)/3} {
		torn := append(append([]byte(nil), fresh[:cut]...), old[cut:]...)
		if _, _, err := ScanAppend(torn, identity, 103, 0); err == nil {
			t.Error("stale bytes were taken, cut at", cut)
		}
		torn = append(append([]byte(nil), fresh[:cut]...), make([]byte, len(old)-cut)...)
		if _, _, err := ScanAppend(torn, identity, 103, 0); err == nil {
			t.Error("zeros were taken, cut at", cut)
		}
	}
}

func TestBlocks(t *testing.T) {
	sizes := func(values ...int) (blocks []BlockHeader) {
		h := AppendHeader{Kind: KindData, LastOffset: int64(len(values) - 1)}
		var b Builder
		payload := 0
		for _, n := range values {
			payload += n
		}
		dst := make([]byte, 3, 3+SizeBound(len(values), payload))
		b.Begin(dst, identity, &h, 10)
		for i, n := range values {
			b.AddValue(10+int64(i), 0, make([]byte, n))
		}
		out := b.Finish(&h)
		if &out[0] != &dst[0] {
			t.Error("moved although there was room")
		}
		if _, n, err := ScanAppend(out[3:], identity, 10, 0); err != nil || n != len(out)-3 {
			t.Error(err)
		}
		for pos := 3 + HeaderSize; pos < len(out); {
			var block BlockHeader
			if err := block.Verify(out[pos:], identity); err != nil {
				t.Fatal(err)
			}
			blocks = append(blocks, block)
			pos += block.Size()
		}
		if int(h.BlockCount) != len(blocks) || int(h.RecordCount) != len(values) {
			t.Errorf("%+v", h)
		}
		return blocks
	}
	full := BlockPayloadTarget - RecordOverhead
	if b := sizes(1); len(b) != 1 || !b[0].First || !b[0].Last || b[0].Back != HeaderSize {
		t.Errorf("%+v", b)
	}
	if b := sizes(full); len(b) != 1 || b[0].Length != BlockPayloadTarget {
		t.Errorf("%+v", b)
	}
	if b := sizes(full-RecordOverhead-1, 1); len(b) != 1 {
		t.Errorf("%+v", b)
	}
	if b := sizes(full-RecordOverhead, 1); len(b) != 2 || b[0].Last || b[1].First || !b[1].Last {
		t.Errorf("%+v", b)
	}
	if b := sizes(10, 1<<20, 10, 10); len(b) != 3 || b[1].Count != 1 || b[2].Count != 2 {
		t.Errorf("%+v", b)
	}
	sizes(make([]int, 20000)...)
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		values := make([]int, 1+rng.IntN(30))
		for i := range values {
			values[i] = rng.IntN(150 << 10)
		}
		sizes(values...)
	}
}

func TestBuilderGrowsWhereRoomLacks(t *testing.T) {
	if b := buildAppend(goldenHeader(), 1000, goldenRecords()); len(b) != 280 {
		t.Error(len(b))
	}
}

// TestSmall: keyless values of 100 bytes in batches of 100 take at most 6 bytes beyond the 24 and the value.
func TestSmall(t *testing.T) {
	var b Builder
	h := AppendHeader{Kind: KindData, LastOffset: 99}
	b.Begin(nil, identity, &h, 0)
	for i := range int64(100) {
		b.AddValue(i, i, make([]byte, 100))
	}
	if perRecord := float64(len(b.Finish(nil))) / 100; perRecord > 130 {
		t.Error(perRecord)
	}
}

func TestAddValueIsAdd(t *testing.T) {
	for _, delta := range []int64{0, 1, -1, 63, -64, 64, 8191, -8192, 8192, 1 << 40, math.MaxInt64, math.MinInt64} {
		for _, value := range [][]byte{{}, []byte("v"), make([]byte, 300)} {
			h := AppendHeader{Kind: KindData}
			r := Record{Offset: 5, TimestampDelta: delta, Value: value}
			slow := buildAppend(h, 5, []Record{r})
			var b Builder
			b.Begin(nil, identity, &h, 5)
			b.AddValue(5, delta, value)
			if fast := b.Finish(nil); !bytes.Equal(fast, slow) {
				t.Errorf("delta %d: %x, want %x", delta, fast, slow)
			}
			raw := slow[HeaderSize+BlockHeaderSize:]
			offset, gotDelta, gotValue, n := ParseValue(raw)
			if n == 0 && delta >= -8192 && delta <= 8191 {
				t.Errorf("delta %d: not parsed", delta)
			}
			if n != 0 && (n != len(raw) || offset != 5 || gotDelta != delta || !bytes.Equal(gotValue, value) || gotValue == nil) {
				t.Errorf("delta %d: %d %d %x %d", delta, offset, gotDelta, gotValue, n)
			}
		}
	}
}

func TestRecordFromNewerVersion(t *testing.T) {
	b := buildAppend(AppendHeader{Kind: KindData}, 5, []Record{{Offset: 5, TimestampDelta: 1, Value: []byte("v")}})
	raw := b[HeaderSize+BlockHeaderSize:]
	raw[16] |= 0x40
	var r Record
	if _, err := ParseRecord(raw, &r); !errors.Is(err, ErrFlags) {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		KindData.String(): "data", KindControl.String(): "control", KindEmpty.String(): "empty", Kind(9).String(): "kind-9",
		Flags(0).String(): "none", (FlagControl | FlagTransactional).String(): "transactional+control",
		Flags(0x8001).String(): "log-append-time+0x8000", CodecZstd.String(): "zstd", CodecNone.String(): "none",
		Codec(7).String(): "codec-7", CodecGzip.String(): "gzip", CodecSnappy.String(): "snappy", CodecLZ4.String(): "lz4",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	records := goldenRecords()
	h := goldenHeader()
	dst := make([]byte, 0, 4096)
	var b Builder
	good := goldenAppends()["append-v1"]
	if n := testing.AllocsPerRun(100, func() {
		b.Begin(dst, identity, &h, 1000)
		for i := range records {
			b.Add(&records[i])
		}
		b.Finish(nil)
		if _, _, err := ScanAppend(good, identity, 1000, 0); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Error(n, "allocations")
	}
}
