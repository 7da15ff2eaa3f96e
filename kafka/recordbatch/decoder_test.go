package recordbatch

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"millrace/engine/model"
	"millrace/perf"
)

func someRecords(n int) []testRecord {
	records := make([]testRecord, n)
	for i := range records {
		records[i] = testRecord{timestamp: testNow + int64(i), key: []byte{'k', byte(i)}, value: []byte{'v', byte(i)}}
	}
	return records
}

// verdict decodes and returns the record index and the sentinel.
func verdict(wire []byte, limits *Limits) (index int32, err error) {
	d := NewDecoder(perf.NewPool(1<<20), nil)
	_, err = storeWith(d, limits, wire, 0)
	if err == nil {
		return 0, nil
	}
	var b *BatchError
	if !errors.As(err, &b) {
		panic(err)
	}
	return b.Index, b.Err
}

func wantVerdict(t *testing.T, what string, wire []byte, want error) {
	t.Helper()
	limits := testLimits()
	if _, got := verdict(wire, &limits); got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestC05ShortRecords(t *testing.T) {
	good := plainBatch(3, 10)
	for n := range HeaderSize {
		want := ErrInvalidRecord
		if n >= logOverhead && n < magicEnd && int32(binary.BigEndian.Uint32(good[8:])) < legacyOverhead {
			want = ErrCorrupt
		}
		wantVerdict(t, "cut", good[:n], want)
	}
	wantVerdict(t, "empty", nil, ErrInvalidRecord)
	for _, length := range []int32{13, 0, -1, math.MinInt32} {
		bad := append([]byte(nil), good...)
		binary.BigEndian.PutUint32(bad[8:], uint32(length))
		wantVerdict(t, "batch length", bad, ErrCorrupt)
	}
}

func TestC06TwoBatches(t *testing.T) {
	good := plainBatch(3, 10)
	wantVerdict(t, "two", append(append([]byte(nil), good...), good...), ErrInvalidRecord)
}

func TestC07Counts(t *testing.T) {
	for _, c := range [][2]int32{{0, -1}, {0, 0}, {3, 1}, {3, 3}, {-1, 2}, {math.MinInt32, 2}, {math.MaxInt32, math.MaxInt32 - 1}} {
		b := newTestBatch(someRecords(3))
		b.count, b.lastDelta = c[0], c[1]
		wantVerdict(t, "counts", b.encode(), ErrInvalidRecord)
	}
}

func TestC08BaseOffset(t *testing.T) {
	b := newTestBatch(someRecords(3))
	b.baseOffset = 5
	wantVerdict(t, "base offset 5", b.encode(), ErrInvalidRecord)
}

func TestC09FlippedBits(t *testing.T) {
	good := plainBatch(2, 10)
	for i := crcStart * 8; i < len(good)*8; i++ {
		bad := append([]byte(nil), good...)
		bad[i/8] ^= 1 << (i % 8)
		wantVerdict(t, "flipped", bad, ErrCorrupt)
	}
}

func TestC10BatchLength(t *testing.T) {
	good := plainBatch(2, 10)
	length := binary.BigEndian.Uint32(good[8:])
	for _, delta := range []int32{1, -1, 100, math.MaxInt32 - 1000, -20} {
		bad := append([]byte(nil), good...)
		binary.BigEndian.PutUint32(bad[8:], length+uint32(delta))
		limits := testLimits()
		if _, got := verdict(bad, &limits); got != ErrCorrupt && got != ErrInvalidRecord {
			t.Errorf("length %+d: %v", delta, got)
		}
	}
}

func TestC11Magic(t *testing.T) {
	for magic, want := range map[byte]error{0: ErrInvalidRecord, 1: ErrInvalidRecord, 3: ErrCorrupt, 255: ErrCorrupt} {
		b := newTestBatch(someRecords(3))
		b.magic = magic
		wantVerdict(t, "magic", b.encode(), want)
	}
}

func TestC15UnknownCodec(t *testing.T) {
	for codec := uint16(5); codec < 8; codec++ {
		b := newTestBatch(someRecords(1))
		b.attributes = codec
		wantVerdict(t, "codec", b.encode(), ErrUnsupportedCodec)
	}
}

func TestC17WireSize(t *testing.T) {
	wire := plainBatch(3, 10)
	var b Batch
	if err := b.ParseProduced(wire, len(wire)); err != nil {
		t.Error(err)
	}
	if err := b.ParseProduced(wire, len(wire)-1); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestC19ControlBit(t *testing.T) {
	b := newTestBatch(someRecords(1))
	b.attributes = attributeControl
	wantVerdict(t, "control", b.encode(), ErrInvalidRecord)
	b.attributes |= attributeTransactional
	wantVerdict(t, "control", b.encode(), ErrInvalidRecord)
}

func TestC20TimestampTypeOfClient(t *testing.T) {
	b := newTestBatch(someRecords(1))
	b.attributes = attributeLogAppendTime
	limits := testLimits()
	if _, got := verdict(b.encode(), &limits); got != nil {
		t.Error(got)
	}
	h, _, err := model.ScanAppend(storeBatch(t, b.encode(), 0), testIdentity, 0, 7)
	if err != nil || h.Flags != 0 {
		t.Error(err, h.Flags)
	}
	limits.LogAppendTime = true
	if _, got := verdict(b.encode(), &limits); got != ErrTimestamp {
		t.Error(got)
	}
}

func TestC21CreateTime(t *testing.T) {
	year := int64(365 * 86400000)
	records := []testRecord{{timestamp: -1}, {timestamp: 0}, {timestamp: 1}, {timestamp: testNow}, {timestamp: testNow - 10*year},
		{timestamp: testNow + 10*year}, {timestamp: testNow - 5}, {timestamp: -2}, {timestamp: math.MinInt64 / 2}}
	b := newTestBatch(records)
	b.maxTimestamp = 17
	back := roundTrip(t, b.encode(), 50)
	sameRecords(t, records, back)
	h, _, _ := model.ScanAppend(storeBatch(t, b.encode(), 50), testIdentity, 50, 0)
	if h.MaxTimestamp != testNow+10*year {
		t.Error("max timestamp", h.MaxTimestamp)
	}
	b = newTestBatch([]testRecord{{timestamp: -5}, {timestamp: -7}})
	if h, _, _ = model.ScanAppend(storeBatch(t, b.encode(), 0), testIdentity, 0, 0); h.MaxTimestamp != -1 {
		t.Error("max timestamp of times below -1", h.MaxTimestamp)
	}
	limits := testLimits()
	limits.TimestampAfterMax = 3600000
	limits.TimestampBeforeMax = 3600000
	for _, c := range []struct {
		timestamp int64
		want      error
	}{{testNow + 3600000, nil}, {testNow + 3600001, ErrTimestamp}, {testNow - 3600000, nil}, {testNow - 3600001, ErrTimestamp},
		{-1, nil}, {-2, ErrTimestamp}, {math.MaxInt64, ErrTimestamp}, {math.MinInt64, ErrTimestamp}} {
		b := newTestBatch([]testRecord{{timestamp: testNow}, {timestamp: c.timestamp}})
		b.baseTimestamp = c.timestamp
		raw := appendTestRecord(nil, &testRecord{timestamp: c.timestamp}, c.timestamp, 0)
		b.body = appendTestRecord(raw, &testRecord{timestamp: c.timestamp}, c.timestamp, 1)
		index, got := verdict(b.encode(), &limits)
		if got != c.want || index != 0 {
			t.Errorf("timestamp %d: %v at %d, want %v", c.timestamp, got, index, c.want)
		}
	}
}

func TestC21TimestampOverflow(t *testing.T) {
	for _, c := range [][2]int64{{math.MaxInt64, 1}, {math.MinInt64, -1}, {math.MaxInt64 - 5, math.MaxInt64}} {
		b := newTestBatch(someRecords(1))
		b.baseTimestamp = c[0]
		b.body = appendTestRecord(nil, &testRecord{timestamp: c[1]}, 0, 0)
		wantVerdict(t, "overflow", b.encode(), ErrInvalidRecord)
	}
}

func TestC22LogAppendTime(t *testing.T) {
	b := newTestBatch([]testRecord{{timestamp: 1000, value: []byte("a")}, {timestamp: 2000, value: []byte("b")}})
	limits := testLimits()
	limits.LogAppendTime = true
	limits.TimestampAfterMax, limits.TimestampBeforeMax = 0, 0
	stored, err := storeWith(NewDecoder(perf.NewPool(0), nil), &limits, b.encode(), 3)
	if err != nil {
		t.Fatal(err)
	}
	wire := encodeAll(t, stored, 3)
	var got Batch
	if _, err := got.Parse(wire); err != nil {
		t.Fatal(err)
	}
	if !got.LogAppendTime() || got.MaxTimestamp != testNow || got.BaseTimestamp != testNow {
		t.Errorf("%+v", got)
	}
	for _, r := range readBatches(t, wire) {
		if r.timestamp != testNow {
			t.Error(r.timestamp)
		}
	}
}

func TestC24KeyRequired(t *testing.T) {
	records := someRecords(3)
	records[1].key = nil
	b := newTestBatch(records)
	limits := testLimits()
	limits.KeyRequired = true
	if index, got := verdict(b.encode(), &limits); got != ErrInvalidRecord || index != 1 {
		t.Error(got, index)
	}
}

func TestC25OffsetDeltas(t *testing.T) {
	for _, deltas := range [][3]int{{0, 0, 0}, {0, 5, 2}, {0, 1, 3}, {1, 2, 3}, {0, -1, 2}, {0, 1, math.MaxInt32}} {
		b := newTestBatch(someRecords(3))
		b.body = nil
		for i, r := range someRecords(3) {
			b.body = appendTestRecord(b.body, &r, b.baseTimestamp, deltas[i])
		}
		wantVerdict(t, "deltas", b.encode(), ErrInvalidRecord)
		b.body = compressBody(t, model.CodecGzip, b.body)
		b.attributes = uint16(model.CodecGzip)
		wantVerdict(t, "compressed deltas", b.encode(), ErrInvalidRecord)
	}
}

func TestC26PayloadAgainstCount(t *testing.T) {
	records := someRecords(3)
	for _, n := range []int{2, 4} {
		b := newTestBatch(someRecords(n))
		b.count, b.lastDelta = 3, 2
		wantVerdict(t, "payload", b.encode(), ErrInvalidRecord)
	}
	b := newTestBatch(records)
	b.body = append(b.body, 0)
	wantVerdict(t, "junk", b.encode(), ErrInvalidRecord)
	for _, delta := range []int{1, -1} {
		b = newTestBatch(records)
		b.body[0] += byte(2 * delta)
		wantVerdict(t, "record length", b.encode(), ErrInvalidRecord)
	}
}

func TestC27Varints(t *testing.T) {
	v := func(n int64) []byte { return binary.AppendVarint(nil, n) }
	over := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02}
	long := append(strings2bytes(strings.Repeat("\x80", 5)), 0)
	cat := func(parts ...[]byte) []byte {
		var out []byte
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	record := func(timestamp, offset, key, value, headers []byte) []byte {
		return cat([]byte{0}, timestamp, offset, key, value, headers)
	}
	null, zero := v(-1), v(0)
	for name, body := range map[string][]byte{
		"key length -2":            record(zero, zero, v(-2), null, zero),
		"key length beyond":        record(zero, zero, v(1<<20), null, zero),
		"key length 2^31-1":        record(zero, zero, v(math.MaxInt32), null, zero),
		"value length -2":          record(zero, zero, null, v(-2), zero),
		"value length beyond":      record(zero, zero, null, v(100), zero),
		"header count -1":          record(zero, zero, null, null, v(-1)),
		"header count 2^31-1":      record(zero, zero, null, null, v(math.MaxInt32)),
		"header count without any": record(zero, zero, null, null, v(1)),
		"header name null":         record(zero, zero, null, null, cat(v(1), null, null)),
		"header name -2":           record(zero, zero, null, null, cat(v(1), v(-2), null)),
		"header name beyond":       record(zero, zero, null, null, cat(v(1), v(9), null)),
		"header value -2":          record(zero, zero, null, null, cat(v(1), zero, v(-2))),
		"header value beyond":      record(zero, zero, null, null, cat(v(1), zero, v(9))),
		"bytes after headers":      record(zero, zero, null, null, cat(v(1), zero, null, zero)),
		"bytes after no headers":   record(zero, zero, null, null, cat(zero, zero)),
		"timestamp overflow":       record(over, zero, null, null, zero),
		"offset too long":          record(zero, long, null, null, zero),
		"offset 33 bits":           record(zero, v(1<<32), null, null, zero),
		"no headers":               record(zero, zero, null, null, nil),
		"nothing":                  {},
		"attributes only":          {0},
	} {
		for _, pad := range []int{0, 60} { // with and without a value before it is long enough for short paths
			b := newTestBatch(someRecords(1))
			b.body = append(binary.AppendVarint(nil, int64(len(body))), body...)
			b.body = append(b.body, make([]byte, pad)...)
			wantVerdict(t, name, b.encode(), ErrInvalidRecord)
		}
	}
	good := record(zero, zero, null, v(40), append(make([]byte, 40), 0))
	for name, length := range map[string][]byte{"-1": v(-1), "2^31-1": v(math.MaxInt32), "min": v(math.MinInt32), "over": over,
		"long": append([]byte{0x80 | byte(len(good)*2), 0x80, 0x80, 0x80, 0x80}, 0)} {
		b := newTestBatch(someRecords(1))
		b.body = append(append([]byte(nil), length...), good...)
		wantVerdict(t, "record length "+name, b.encode(), ErrInvalidRecord)
	}
	b := newTestBatch(someRecords(1))
	b.body = append(binary.AppendVarint(nil, int64(len(good))), good...)
	wantVerdict(t, "good", b.encode(), nil)
}

func strings2bytes(s string) []byte { return []byte(s) }

func TestC31Transactional(t *testing.T) {
	b := newTestBatch(someRecords(2))
	b.attributes = attributeTransactional
	b.producerID, b.producerEpoch, b.baseSequence = 9, 1, 0
	wantVerdict(t, "transactional", b.encode(), ErrTransactional)
	limits := testLimits()
	limits.AllowTransactional = true
	stored, err := storeWith(NewDecoder(perf.NewPool(0), nil), &limits, b.encode(), 3)
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := model.ScanAppend(stored, testIdentity, 3, 7)
	if err != nil || h.Flags != model.FlagTransactional || h.ProducerID != 9 || h.ProducerEpoch != 1 || h.LastSequence != 1 {
		t.Errorf("%v %+v", err, h)
	}
}

func TestD07ProducerWithoutSequence(t *testing.T) {
	b := newTestBatch(someRecords(2))
	b.producerID = 3
	wantVerdict(t, "no sequence", b.encode(), ErrInvalidRecord)
	b.producerID = -2
	wantVerdict(t, "producer -2", b.encode(), nil)
}

func TestM02Tail(t *testing.T) {
	good := plainBatch(3, 10)
	with := func(tail ...byte) []byte { return append(append([]byte(nil), good...), tail...) }
	wantVerdict(t, "5 junk bytes", with(1, 2, 3, 4, 5), nil)
	wantVerdict(t, "half a batch", with(good[:len(good)/2]...), nil)
	wantVerdict(t, "12 zero bytes", with(make([]byte, 12)...), ErrCorrupt)
	if stored := storeBatch(t, with(good[:70]...), 0); len(stored) != len(storeBatch(t, good, 0)) {
		t.Error("the tail was stored")
	}
}

func TestM03IgnoredBits(t *testing.T) {
	records := someRecords(2)
	b := newTestBatch(records)
	b.attributes = 0x40 | 0x80 | 0x4000
	b.epoch = 99
	b.maxTimestamp = 4
	b.body[1] = 0xff // attributes of the first record
	stored := storeBatch(t, b.encode(), 0)
	h, _, err := model.ScanAppend(stored, testIdentity, 0, 0)
	if err != nil || h.Flags != 0 || h.LeaderEpoch != 7 || h.MaxTimestamp != testNow+1 {
		t.Errorf("%v %+v", err, h)
	}
	wire := encodeAll(t, stored, 0)
	var got Batch
	if _, err := got.Parse(wire); err != nil || got.Attributes != 0 || got.LeaderEpoch != 7 || got.MaxTimestamp != testNow+1 {
		t.Errorf("%v %+v", err, got)
	}
	sameRecords(t, records, readBatches(t, wire))
}

func TestPerRecordLimit(t *testing.T) {
	b := newTestBatch([]testRecord{{value: make([]byte, 100)}, {value: make([]byte, 200)}})
	limits := testLimits()
	limits.RecordBytesMax = 150
	if _, got := verdict(b.encode(), &limits); got != nil {
		t.Error("the limit is for compressed records", got)
	}
	b.body, b.attributes = compressBody(t, model.CodecZstd, b.body), uint16(model.CodecZstd)
	if index, got := verdict(b.encode(), &limits); got != ErrInvalidRecord || index != 1 {
		t.Error(got, index)
	}
}
