package engine

import (
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// benchSink counts what finishes; windows wait on it.
type benchSink struct{ done chan *Append }

func (s *benchSink) Complete(done *Append, _ []*Shard) {
	for a := done; a != nil; {
		next := a.Next
		s.done <- a
		a = next
	}
}

func benchmarkAppend(b *testing.B, shards, records, size, window int) {
	s := openTest(b, testOptions(b, b.TempDir()))
	sink := &benchSink{done: make(chan *Append, 4*window)}
	s.SetSinks([]Sink{sink})
	var all []*Shard
	for i := range shards {
		all = append(all, s.shard(i, ShardConfig{RetentionAge: Forever}))
	}
	batch := batchOf(records, size, 1)
	for range window {
		sink.done <- appendOf(batch)
	}
	b.SetBytes(int64(records * size))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		a := <-sink.done
		if a.Err != nil {
			b.Fatal(a.Err)
		}
		if err := all[i%shards].Submit(a, batch); err != nil {
			b.Fatal(err)
		}
	}
	for range window {
		<-sink.done
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

func BenchmarkAppend(b *testing.B) {
	b.Run("1KBx100", func(b *testing.B) { benchmarkAppend(b, 1, 100, 1024, 4) })
	b.Run("100Bx1000_16shards", func(b *testing.B) { benchmarkAppend(b, 16, 1000, 100, 16) })
	b.Run("100Bx1", func(b *testing.B) { benchmarkAppend(b, 1, 1, 100, 64) })
	b.Run("100Bx1_window1", func(b *testing.B) { benchmarkAppend(b, 1, 1, 100, 1) })
}

func BenchmarkRead(b *testing.B) {
	s := openTest(b, testOptions(b, b.TempDir()))
	sh := s.shard(1, ShardConfig{})
	for i := range 2000 {
		s.append(sh, batchOf(100, 1000, int64(i)))
	}
	var sp Span
	if err := sh.ReadBlocking(&sp, 0, 1<<62, 1); err != nil {
		b.Fatal(err)
	}
	end := sh.State().LogEnd
	for _, c := range []struct {
		name string
		step int64
	}{{"sequential", 1000}, {"random", 77_711}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			offset := int64(0)
			for range b.N {
				if err := sh.Read(&sp, offset, 1<<62, 1<<20); err != nil {
					b.Fatal(err)
				}
				if !sp.Resident() {
					if err := sp.Load(); err != nil { // others on the machine may want the memory
						b.Fatal(err)
					}
				}
				offset = (offset + c.step) % end
				sp.Release()
			}
		})
	}
}

// BenchmarkRecovery scans a log that was not stopped cleanly.
func BenchmarkRecovery(b *testing.B) {
	dir := b.TempDir()
	o := testOptions(b, dir)
	s := openTest(b, o)
	sh := s.shard(1, ShardConfig{SegmentBytes: 256 << 20})
	batch := batchOf(100, 1000, 1)
	for range 5000 {
		s.append(sh, batch)
	}
	size := sh.Size()
	s.Close()
	b.SetBytes(size)
	b.ResetTimer()
	for range b.N {
		again := openTest(b, o)
		b.StopTimer()
		if again.metrics.RecoveredBytes.Load() > 0 && again.Clean() {
			b.Fatal("scanned after a clean stop")
		}
		// The next start finds no clean stop and no checkpoint.
		x := again.index
		if err := x.dropShards(sh.ID()); err != nil {
			b.Fatal(err)
		}
		if err := again.markUnclean(); err != nil {
			b.Fatal(err)
		}
		again.failed.Store(new(error))
		*again.failed.Load() = ErrClosed
		again.Close()
		b.StartTimer()
	}
}

// BenchmarkOpen opens a directory of many shards after a clean stop.
func BenchmarkOpen(b *testing.B) {
	const shards = 10_000
	o := testOptions(b, b.TempDir())
	s := openTest(b, o)
	start := time.Now()
	var all []*Shard
	for i := range shards {
		all = append(all, s.shard(i, ShardConfig{}))
	}
	made := time.Since(start)
	batch := batchOf(1, 100, 1)
	for i := range shards {
		if err := all[i].Submit(appendOf(batch), batch); err != nil {
			b.Fatal(err)
		}
	}
	s.sink.wait(b, shards)
	touched := time.Since(start)
	s.Close()
	b.Logf("%d shards made in %v, touched in %v, closed in %v", shards, made, touched, time.Since(start))
	b.ResetTimer()
	for range b.N {
		again := openTest(b, o)
		b.StopTimer()
		again.Close()
		b.StartTimer()
	}
}

// BenchmarkOpenEmpty opens a directory that does not exist yet.
func BenchmarkOpenEmpty(b *testing.B) {
	root := b.TempDir()
	o := testOptions(b, root)
	for i := range b.N {
		o.Dir = filepath.Join(root, strconv.Itoa(i))
		s := openTest(b, o)
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

// TestMemory tells what an idle store and a crowd of producers cost; the limits are generous.
func TestMemory(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s := openTest(t, testOptions(t, t.TempDir()))
	idle := heap() - before
	for i := range 10_000 {
		s.shard(i, ShardConfig{})
	}
	shards := heap() - before - idle
	d := producerDriver{t: t}
	for i := range int64(200_000) {
		d.want(i, 0, 0, 1, i, false, nil)
	}
	producers := heap() - before - idle - shards
	t.Logf("idle store %d KiB, shard without files %d bytes, producer %d bytes", idle>>10, shards/10_000, producers/200_000)
	if idle > 16<<20 || shards/10_000 > 3<<10 || producers/200_000 > 400 {
		t.Errorf("idle store %d bytes, 10,000 shards %d, 200,000 producers %d", idle, shards, producers)
	}
	runtime.KeepAlive(d)
}

// BenchmarkIdempotence is what a batch of an idempotent producer costs beyond one of any other: the look at
// its last five batches and the note of this one, with what undoes it.
func BenchmarkIdempotence(b *testing.B) {
	const records = 100
	table := producerTable{byID: map[int64]*producerState{}, max: 100_000}
	var undo producerUndo
	h := appendOf(batchOf(records, 100, 1)).Header
	h.ProducerID, h.ProducerEpoch, h.RecordCount = 7, 0, records
	b.ReportAllocs()
	for i := range b.N {
		h.BaseSequence = int32(int64(i) * records % (1 << 31))
		h.LastSequence = int32((int64(i)*records + records - 1) % (1 << 31))
		h.BaseOffset, h.LastOffset = int64(i)*records, int64(i)*records+records-1
		if repeated, err := table.check(&h); err != nil || repeated != nil {
			b.Fatal(repeated, err)
		}
		table.apply(&h, int64(i), &undo)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}
