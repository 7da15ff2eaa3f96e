package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"millrace/engine/model"
)

// BenchmarkClean compacts a log of 100-byte records of a million keys, in batches of 100. MB/s is of the log's
// bytes, which are read twice: for the keys, and to copy what stays.
func BenchmarkClean(b *testing.B) {
	const keys, records, perAppend = 1_000_000, 5_000_000, 100
	for b.Loop() {
		b.StopTimer()
		o := testOptions(b, b.TempDir())
		o.CleanInterval = time.Hour
		s := openTest(b, o)
		sh := s.shard(1, ShardConfig{Compact: true, SegmentBytes: 128 << 20})
		random := rand.New(rand.NewPCG(1, 2))
		batch := &keyed{timestamp: 1, records: make([]keyedRecord, perAppend)}
		value := make([]byte, 100)
		for range records / perAppend {
			for i := range batch.records {
				batch.records[i] = keyedRecord{binary.BigEndian.AppendUint64(nil, uint64(random.IntN(keys))), value}
			}
			a := &Append{ExpectedEpoch: -1}
			a.Header = model.AppendHeader{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1, LastOffset: perAppend - 1}
			if err := sh.Submit(a, batch); err != nil {
				b.Fatal(err)
			}
			s.sink.wait(b, 1)
		}
		roll(sh)
		if err := s.keeper.checkpointAll(s.all()); err != nil {
			b.Fatal(err)
		}
		size := sh.Size()
		b.StartTimer()
		start := time.Now()
		if err := cleanNow(b, s, sh); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(size)/1e6/time.Since(start).Seconds(), "MB/s")
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/records, "ns/record")
		b.ReportMetric(float64(sh.Size())/float64(size), "left")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
