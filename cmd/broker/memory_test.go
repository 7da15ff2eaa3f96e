package broker

import (
	"runtime"
	"testing"

	"millrace/perf"
)

// TestMemoryOfABurstIsGivenBack: of what a burst leaves in the pool and as garbage nothing stays after three looks.
func TestMemoryOfABurstIsGivenBack(t *testing.T) {
	k := newMemoryKeeper(perf.NewPool(poolRetainBytes))
	held := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapSys - m.HeapReleased)
	}
	k.look()
	before := held()
	var buffers []*perf.Buffer
	for range 20 {
		b := k.pool.Get(16 << 20)
		clear(b.B[:cap(b.B)])
		buffers = append(buffers, b)
	}
	for _, b := range buffers {
		b.Release()
	}
	clear(buffers)
	if grown := held() - before; grown < 200<<20 {
		t.Fatalf("the burst took %d bytes", grown)
	}
	for range 4 {
		k.look()
	}
	if idle := k.pool.Idle(); idle != 0 {
		t.Errorf("%d bytes stay in the pool", idle)
	}
	if grown := held() - before; grown > memorySlack+32<<20 {
		t.Errorf("%d bytes stay in the heap", grown)
	}
}
