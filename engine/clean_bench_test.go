package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"millrace/engine/model"
	"millrace/perf"
)

const (
	benchKeys         = 1_000_000
	benchKeyedRecords = 5_000_000
)

// keyedBenchLog makes a log of 100-byte records of a million keys in batches of 100, all of it sealed:
// MILLRACE_TEST_CLEAN_RECORDS of them, 40,000,000 are 5 GiB, or 5 million.
func keyedBenchLog(b *testing.B) (s *testStore, sh *Shard, records int) {
	const perAppend, ahead = 100, 64
	records = benchKeyedRecords
	if text := os.Getenv("MILLRACE_TEST_CLEAN_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	o := testOptions(b, b.TempDir())
	o.CleanInterval = time.Hour
	s = openTest(b, o)
	sh = s.shard(1, ShardConfig{Compact: true, SegmentBytes: 128 << 20, FileDeleteDelay: -1})
	random := rand.New(rand.NewPCG(1, 2))
	batch := &keyed{timestamp: 1, records: make([]keyedRecord, perAppend)}
	value := make([]byte, 100)
	for n := range records / perAppend {
		for i := range batch.records {
			batch.records[i] = keyedRecord{binary.BigEndian.AppendUint64(batch.records[i].key[:0], uint64(random.IntN(benchKeys))), value}
		}
		a := &Append{ExpectedEpoch: -1}
		a.Header = model.AppendHeader{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1, LastOffset: perAppend - 1}
		if err := sh.Submit(a, batch); err != nil {
			b.Fatal(err)
		}
		if n >= ahead {
			s.sink.wait(b, 1)
		}
	}
	s.sink.wait(b, min(ahead, records/perAppend))
	roll(sh)
	if err := s.keeper.checkpointAll(s.all()); err != nil {
		b.Fatal(err)
	}
	return s, sh, records
}

// BenchmarkClean compacts it. MB/s is of the log's bytes, which are read twice: for the keys, and to copy what stays.
func BenchmarkClean(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s, sh, records := keyedBenchLog(b)
		size := sh.Size()
		b.StartTimer()
		start := time.Now()
		if err := cleanNow(b, s, sh); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(size)/1e6/time.Since(start).Seconds(), "MB/s")
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(records), "ns/record")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkCleanFloor does only what nothing of that can do without: it reads the log twice and takes its checksum
// both times, hashes an 8-byte key for each record, copies as many bytes as a record of each key has, and writes them.
func BenchmarkCleanFloor(b *testing.B) {
	s, sh, records := keyedBenchLog(b)
	path := filepath.Join(b.TempDir(), "out")
	for b.Loop() {
		start := time.Now()
		read := s.readLog(b, sh, func([]byte) {})
		keys := newKeyMap(1 << 20)
		var key [8]byte
		hashed := keyHash{}
		for i := range records {
			binary.BigEndian.PutUint64(key[:], uint64(i))
			h := keys.hash(key[:])
			hashed.high, hashed.low = hashed.high^h.high, hashed.low^h.low
		}
		file, err := s.fs.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		buffer, at, left := make([]byte, 0, 2*cleanWriteBytes), int64(0), sh.Size()/int64(records)*benchKeys
		s.readLog(b, sh, func(piece []byte) {
			if left <= 0 {
				return
			}
			if buffer = append(buffer, piece...); len(buffer) < cleanWriteBytes {
				return
			}
			if _, err := file.WriteAt(buffer, at); err != nil {
				b.Fatal(err)
			}
			at, left, buffer = at+int64(len(buffer)), left-int64(len(buffer)), buffer[:0]
		})
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(read)/1e6/time.Since(start).Seconds(), "MB/s")
		file.Close()
		if err := s.fs.Remove(path); err != nil {
			b.Fatal(err)
		}
	}
}

// readLog reads a shard's segments as compaction does, and returns how many bytes they are.
func (s *testStore) readLog(b *testing.B, sh *Shard, visit func(piece []byte)) (bytes int64) {
	buffer, sum := make([]byte, cleanReadBytes), uint32(0)
	for _, segment := range sh.list.Load().segments {
		if segment.empty() {
			continue
		}
		h, err := s.handles.openSegment(segment)
		if err != nil {
			b.Fatal(err)
		}
		for at, end := int64(0), segment.published.Load(); at < end; {
			piece := buffer[:min(int64(len(buffer)), end-at)]
			if _, err := h.file.ReadAt(piece, at); err != nil {
				b.Fatal(err)
			}
			sum = perf.UpdateCRC32C(sum, piece)
			visit(piece)
			at += int64(len(piece))
		}
		bytes += segment.published.Load()
		h.release()
	}
	return bytes
}
