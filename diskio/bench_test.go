package diskio_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"millrace/diskio"
)

// BenchmarkAppend appends one op to each of 16 files a batch, into preallocated blocks, and starts over at
// 4 MiB, so that it measures the calls and the copy rather than fresh memory.
func BenchmarkAppend(b *testing.B) {
	const files, wrap = 16, 4 << 20
	for _, size := range []int{4 << 10, 64 << 10, 256 << 10} {
		for _, backend := range backends {
			b.Run(fmt.Sprintf("%dK/%s", size>>10, backend), func(b *testing.B) {
				disk, dir := openBackend(b, diskio.Options{Backend: backend})
				ops := batchOf(b, disk, dir, files, size)
				for i := range ops {
					_ = ops[i].File.Preallocate(0, wrap)
					for pos := int64(0); pos < wrap; pos += int64(size) {
						ops[i].Pos = pos
						disk.Write(ops[i : i+1])
					}
				}
				checkWritten(b, ops)
				pos := int64(0)
				b.SetBytes(int64(files * size))
				b.ReportAllocs()
				for b.Loop() {
					for i := range ops {
						ops[i].Pos = pos
					}
					disk.Write(ops)
					if pos += int64(size); pos == wrap {
						pos = 0
					}
				}
				checkWritten(b, ops)
			})
		}
	}
}

// processorTime returns what this process used, the kernel's workers for its rings included.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// BenchmarkSync100 makes 16 KiB in each of 100 files durable. auto writes as the file system likes it.
func BenchmarkSync100(b *testing.B) {
	for _, backend := range append([]string{diskio.BackendAuto}, backends...) {
		b.Run(backend, func(b *testing.B) {
			disk, dir := openBackend(b, diskio.Options{Backend: backend})
			ops := batchOf(b, disk, dir, 100, 16<<10)
			syncs := make([]diskio.SyncOp, len(ops))
			for i := range ops {
				syncs[i].File = ops[i].File
				_ = ops[i].File.Preallocate(0, 1<<20)
			}
			round, before := int64(0), processorTime(b)
			for b.Loop() {
				for i := range ops {
					ops[i].Pos = round % 64 * (16 << 10)
				}
				disk.Write(ops)
				disk.Sync(syncs)
				round++
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(round), "cpu-ns/op")
			checkWritten(b, ops)
			for i := range syncs {
				if syncs[i].Err != nil {
					b.Fatal(syncs[i].Err)
				}
			}
		})
	}
}

// BenchmarkResident asks about 1 MiB that is resident.
func BenchmarkResident(b *testing.B) {
	disk, dir := openBackend(b, diskio.Options{})
	ops := batchOf(b, disk, dir, 1, 1<<20)
	disk.Write(ops)
	checkWritten(b, ops)
	m, err := ops[0].File.Map(1 << 20)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Unmap() }()
	for b.Loop() {
		if !m.Resident(0, 1<<20) {
			b.Fatal("not resident")
		}
	}
}
