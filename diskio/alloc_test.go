package diskio_test

import (
	"fmt"
	"testing"

	"millrace/diskio"
)

// backends are those that tests and benchmarks compare.
var backends = []string{diskio.BackendPosix, diskio.BackendRing}

// batchOf opens files and makes one op of size bytes in two buffers for each.
func batchOf(t testing.TB, disk diskio.FS, dir string, files, size int) []diskio.WriteOp {
	t.Helper()
	ops := make([]diskio.WriteOp, files)
	for i := range ops {
		f, err := disk.Create(fmt.Sprintf("%s/%d", dir, i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		b := make([]byte, size)
		ops[i] = diskio.WriteOp{File: f, Bufs: [][]byte{b[:size/2], b[size/2:]}}
	}
	return ops
}

func checkWritten(t testing.TB, ops []diskio.WriteOp) {
	t.Helper()
	for i := range ops {
		if ops[i].Err != nil {
			t.Fatal(ops[i].Err)
		}
	}
}

func TestWriteAndReadDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			disk, dir := openBackend(t, diskio.Options{Backend: backend})
			ops := batchOf(t, disk, dir, 16, 4096)
			ops = append(ops, ops[:3]...) // some files twice
			pin(t, "write", func() { disk.Write(ops) })
			pin(t, "write of one", func() { disk.Write(ops[:1]) })
			checkWritten(t, ops)

			m, err := ops[0].File.Map(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = m.Unmap() }()
			r := sum{b: m.Slice(0, 4096)}
			pin(t, "resident", func() { _ = m.Resident(0, 4096) })
			pin(t, "resident beyond the end", func() { _ = m.Resident(0, 1<<20) })
			pin(t, "load", func() { _ = m.Load(0, 4096) })
			pin(t, "guard", func() { _ = diskio.Guard(&r) })
			b := make([]byte, 100)
			pin(t, "read", func() { _, _ = ops[0].File.ReadAt(b, 0) })
		})
	}
}

func TestRingSyncDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	disk, dir := openBackend(t, diskio.Options{Backend: diskio.BackendRing})
	var syncs []diskio.SyncOp
	for _, op := range batchOf(t, disk, dir, 4, 4096) {
		syncs = append(syncs, diskio.SyncOp{File: op.File})
	}
	pin(t, "sync", func() { disk.Sync(syncs) })
}

// pin fails where f allocates.
func pin(t *testing.T, name string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(50, f); n != 0 {
		t.Errorf("%s: %v allocations", name, n)
	}
}

type sum struct {
	b   []byte
	sum byte
}

// RunGuarded implements diskio.Guarded.
func (s *sum) RunGuarded() error {
	for _, c := range s.b {
		s.sum += c
	}
	return nil
}
