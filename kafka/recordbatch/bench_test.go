package recordbatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"millrace/engine/model"
	"millrace/perf"
)

const testIdentity = 0x5eed1234

// times keeps how long single operations took, the last of many: on a shared machine their median and the least
// of them say what the code costs, while the mean says what the neighbours did.
type times struct {
	start time.Time
	n     int
	took  [4096]time.Duration
}

func (m *times) begin() { m.start = time.Now() }

func (m *times) end() {
	m.took[m.n%len(m.took)] = time.Since(m.start)
	m.n++
}

func (m *times) report(b *testing.B, records int) {
	took := m.took[:min(m.n, len(m.took))]
	slices.Sort(took)
	of := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(records) }
	b.ReportMetric(of(b.Elapsed())/float64(b.N), "ns/record")
	b.ReportMetric(of(took[len(took)/2]), "median-ns/record")
	b.ReportMetric(of(took[0]), "best-ns/record")
}

// BenchmarkDecode is the produce side of the codec: check the batch's checksum, walk its records and write
// the stored append with its checksums.
//
//	go test -run '^$' -bench 'Decode|Encode' -benchtime 1s -count 5 ./kafka/recordbatch
func BenchmarkDecode(b *testing.B) {
	for _, count := range []int{100, 1000} {
		b.Run(fmt.Sprintf("100B/%d", count), func(b *testing.B) {
			wire := plainBatch(count, 100)
			d := NewDecoder(perf.NewPool(64<<20), nil)
			limits := testLimits()
			buf := make([]byte, 0, 1<<20)
			var batch Batch
			var bld model.Builder
			var h model.AppendHeader
			b.ReportAllocs()
			b.SetBytes(int64(len(wire)))
			var m times
			for b.Loop() {
				m.begin()
				if err := batch.ParseProduced(wire, 1<<20); err != nil {
					b.Fatal(err)
				}
				if err := d.Open(&batch, &limits); err != nil {
					b.Fatal(err)
				}
				d.Header(&h)
				bld.Begin(buf, testIdentity, &h, 1000)
				if err := d.EncodeAppend(&bld, 1000); err != nil {
					b.Fatal(err)
				}
				bld.Finish(nil)
				m.end()
			}
			m.report(b, count)
		})
	}
}

// BenchmarkEncode is the fetch side: verify the stored checksums and encode batches with their checksums.
func BenchmarkEncode(b *testing.B) {
	for _, count := range []int{100, 1000} {
		b.Run(fmt.Sprintf("100B/%d", count), func(b *testing.B) {
			stored := storeBatch(b, plainBatch(count, 100), 1000)
			dst := make([]byte, 0, 1<<20)
			var res Result
			b.ReportAllocs()
			b.SetBytes(int64(len(stored)))
			in := Input{Identity: testIdentity, MaxBytes: 1 << 20, AtLeastOne: true}
			var m times
			for b.Loop() {
				m.begin()
				in.Span, in.AtBlock, in.From, in.UpTo = stored, false, 1000, 1<<40
				if _, err := AppendBatches(dst, &in, &res); err != nil || res.Records != count {
					b.Fatal(err, res)
				}
				m.end()
			}
			m.report(b, count)
		})
	}
}

// BenchmarkDecodeOthers shows what records with a key cost, and what decompression adds.
func BenchmarkDecodeOthers(b *testing.B) {
	records, raw := codecRecords()
	for codec := model.CodecNone; codec <= model.CodecZstd; codec++ {
		benchmarkStore(b, codec.String(), compressed(codec, records, compressBody(b, codec, raw)), len(records))
	}
	keyed := newTestBatch(someRecords(1000))
	benchmarkStore(b, "keyed", keyed.encode(), 1000)
}

func benchmarkStore(b *testing.B, name string, wire []byte, records int) {
	b.Run(name, func(b *testing.B) {
		d := NewDecoder(perf.NewPool(64<<20), nil)
		limits := testLimits()
		buf := make([]byte, 0, 2<<20)
		var batch Batch
		var bld model.Builder
		var h model.AppendHeader
		var m times
		b.ReportAllocs()
		for b.Loop() {
			m.begin()
			if err := batch.ParseProduced(wire, 1<<20); err != nil {
				b.Fatal(err)
			}
			if err := d.Open(&batch, &limits); err != nil {
				b.Fatal(err)
			}
			d.Header(&h)
			bld.Begin(buf, testIdentity, &h, 0)
			if err := d.EncodeAppend(&bld, 0); err != nil {
				b.Fatal(err)
			}
			bld.Finish(nil)
			d.Close()
			m.end()
		}
		m.report(b, records)
	})
}
