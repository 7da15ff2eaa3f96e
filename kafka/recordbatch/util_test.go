package recordbatch

import (
	"encoding/binary"
	"math"
	"testing"

	"millrace/engine/model"
	"millrace/perf"
)

// testRecord is a record as the tests know it; nil and empty differ.
type testRecord struct {
	timestamp  int64
	key, value []byte
	headers    []testHeader
}

type testHeader struct{ name, value []byte }

const testNow = 1_700_000_000_000

func testLimits() Limits {
	return Limits{DecodedBytesMax: 64 << 20, RecordBytesMax: math.MaxInt32, Now: testNow,
		TimestampBeforeMax: math.MaxInt64, TimestampAfterMax: math.MaxInt64}
}

// appendTestRecord writes a v2 record with encoding/binary's varints, apart from the package's own.
func appendTestRecord(dst []byte, r *testRecord, base int64, offsetDelta int) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, r.timestamp-base)
	body = binary.AppendVarint(body, int64(offsetDelta))
	body = appendTestBytes(body, r.key)
	body = appendTestBytes(body, r.value)
	body = binary.AppendVarint(body, int64(len(r.headers)))
	for _, h := range r.headers {
		body = appendTestBytes(body, h.name)
		body = appendTestBytes(body, h.value)
	}
	return append(binary.AppendVarint(dst, int64(len(body))), body...)
}

func appendTestBytes(dst, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(v))), v...)
}

// testRecords encodes records' bytes without a batch header.
func testRecords(records []testRecord) (raw []byte, base, most int64) {
	base, most = -1, -1
	if len(records) > 0 {
		base = records[0].timestamp
	}
	for i := range records {
		raw = appendTestRecord(raw, &records[i], base, i)
		most = max(most, records[i].timestamp)
	}
	return raw, base, most
}

// testHeaderFields is what a test may change of a batch.
type testBatch struct {
	baseOffset    int64
	epoch         int32
	magic         byte
	attributes    uint16
	lastDelta     int32
	baseTimestamp int64
	maxTimestamp  int64
	producerID    int64
	producerEpoch int16
	baseSequence  int32
	count         int32
	body          []byte
}

func newTestBatch(records []testRecord) testBatch {
	raw, base, most := testRecords(records)
	return testBatch{magic: 2, lastDelta: int32(len(records) - 1), baseTimestamp: base, maxTimestamp: most,
		producerID: -1, producerEpoch: -1, baseSequence: -1, count: int32(len(records)), body: raw}
}

func (b *testBatch) encode() []byte {
	be := binary.BigEndian
	out := be.AppendUint64(nil, uint64(b.baseOffset))
	out = be.AppendUint32(out, uint32(49+len(b.body)))
	out = be.AppendUint32(out, uint32(b.epoch))
	out = append(out, b.magic)
	out = be.AppendUint32(out, 0)
	out = be.AppendUint16(out, b.attributes)
	out = be.AppendUint32(out, uint32(b.lastDelta))
	out = be.AppendUint64(out, uint64(b.baseTimestamp))
	out = be.AppendUint64(out, uint64(b.maxTimestamp))
	out = be.AppendUint64(out, uint64(b.producerID))
	out = be.AppendUint16(out, uint16(b.producerEpoch))
	out = be.AppendUint32(out, uint32(b.baseSequence))
	out = be.AppendUint32(out, uint32(b.count))
	out = append(out, b.body...)
	be.PutUint32(out[17:], perf.CRC32C(out[21:]))
	return out
}

// plainBatch is a batch of keyless records of one size, as a load generator makes it.
func plainBatch(count, size int) []byte {
	records := make([]testRecord, count)
	for i := range records {
		value := make([]byte, size)
		for j := range value {
			value[j] = byte('a' + (i+j)%26)
		}
		records[i] = testRecord{timestamp: testNow + int64(i/10), value: value}
	}
	b := newTestBatch(records)
	return b.encode()
}

// storeBatch decodes a produced batch into its stored append.
func storeBatch(tb testing.TB, wire []byte, offset int64) []byte {
	tb.Helper()
	d := NewDecoder(perf.NewPool(1<<20), nil)
	limits := testLimits()
	stored, err := storeWith(d, &limits, wire, offset)
	if err != nil {
		tb.Fatal(err)
	}
	return stored
}

func storeWith(d *Decoder, limits *Limits, wire []byte, offset int64) ([]byte, error) {
	var b Batch
	if err := b.ParseProduced(wire, math.MaxInt); err != nil {
		return nil, err
	}
	if err := d.Open(&b, limits); err != nil {
		return nil, err
	}
	defer d.Close()
	var h model.AppendHeader
	d.Header(&h)
	h.LeaderEpoch = 7
	var bld model.Builder
	bound := d.SizeBound()
	bld.Begin(make([]byte, 0, bound), testIdentity, &h, offset)
	if err := d.EncodeAppend(&bld, offset); err != nil {
		return nil, err
	}
	out := bld.Finish(nil)
	if len(out) > bound {
		panic("size bound")
	}
	return out, nil
}
