package broker

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"millrace/perf"
)

// memoryKeeper gives memory back that a burst of work left behind. Where little happens afterwards, nothing else would:
// the pool keeps its buffers, and the collector, which runs when enough was allocated, does not run.
type memoryKeeper struct {
	pool      *perf.Pool
	samples   []metrics.Sample
	cycles    uint64 // of the collector, when it was looked at last
	collected bool   // once since it came to rest
	before    bool   // there was much to give back when it was looked at last
	end       chan struct{}
	ended     chan struct{}
}

const (
	// memoryInterval is the time from one look to the next. What is needless at two of them is given back.
	memoryInterval = 10 * time.Second
	// memorySlack is left to the runtime, beside the garbage that it lets gather.
	memorySlack = 32 << 20
)

func newMemoryKeeper(pool *perf.Pool) *memoryKeeper {
	return &memoryKeeper{pool: pool, end: make(chan struct{}), ended: make(chan struct{}), samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}}
}

// run looks again and again until close.
func (k *memoryKeeper) run() {
	defer close(k.ended)
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	for {
		select {
		case <-k.end:
			return
		case <-tick.C:
			k.look()
		}
	}
}

func (k *memoryKeeper) close() {
	close(k.end)
	<-k.ended
}

// look trims the pool and, where much of the heap is needless for the second time, gives it back. What is live is known
// from the last collection: where that may have been amid the burst, there is one more.
func (k *memoryKeeper) look() {
	k.pool.Trim()
	metrics.Read(k.samples)
	value := func(i int) uint64 { return k.samples[i].Value.Uint64() }
	if value(4) != k.cycles {
		k.collected = false
	} else if !k.collected && value(0) > memorySlack {
		runtime.GC()
		k.collected = true
		metrics.Read(k.samples)
	}
	k.cycles = value(4)
	live, heap := value(0), value(1)+value(2)+value(3)
	much := heap > live+live/2+memorySlack
	if k.before && much {
		debug.FreeOSMemory()
		k.cycles++ // which was a collection
		much = false
	}
	k.before = much
}
