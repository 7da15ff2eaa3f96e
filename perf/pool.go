package perf

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	minClassBits = 9  // 512 B
	maxClassBits = 27 // 128 MiB
	classes      = maxClassBits - minClassBits + 1
)

// A large buffer has a page more than its class: a decoder that must see one byte beyond what it may fill to know
// that there is more would otherwise take the next class, twice the memory.
const (
	tailClassBits = 20 // 1 MiB
	tailBytes     = 4096
)

// Buffer is a byte buffer on lease from a Pool. B starts with length 0 and may be appended to and
// re-sliced; growth beyond its capacity by append is allowed and merely leaves the pool. The holder owns
// the bytes until Release; after that neither the Buffer nor a slice of B may be touched.
type Buffer struct {
	B     []byte
	full  []byte // what the pool gave, whatever becomes of B
	pool  *Pool
	class int8 // -1: too large for a class, never kept
}

// Release gives the buffer back. A nil buffer is allowed.
func (b *Buffer) Release() {
	if b != nil && b.pool != nil {
		b.pool.put(b)
	}
}

// Pool hands out buffers in power-of-two size classes and keeps at most RetainBytes of idle ones, so that
// the memory of a burst goes back to the runtime; Trim gives up those that nobody needs any more. It is safe for concurrent use; Get and Release of a kept
// buffer do not allocate.
type Pool struct {
	retainBytes int64
	idle        atomic.Int64 // bytes kept in the free lists
	leased      atomic.Int64 // bytes out on lease
	class       [classes]freeList
}

type freeList struct {
	mu    sync.Mutex
	free  []*Buffer
	least int // of free since the last Trim
}

// NewPool returns a pool that keeps at most retainBytes of idle buffers.
func NewPool(retainBytes int64) *Pool { return &Pool{retainBytes: retainBytes} }

// Get returns an empty buffer of capacity size or more.
func (p *Pool) Get(size int) *Buffer {
	class := classOf(size)
	if class >= classes {
		p.leased.Add(int64(size))
		full := make([]byte, 0, size)
		return &Buffer{B: full, full: full, pool: p, class: -1}
	}
	p.leased.Add(int64(classBytes(class)))
	l := &p.class[class]
	l.mu.Lock()
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free[n-1] = nil
		l.free = l.free[:n-1]
		l.least = min(l.least, n-1)
		l.mu.Unlock()
		p.idle.Add(-int64(cap(b.full)))
		return b
	}
	l.mu.Unlock()
	full := make([]byte, 0, classBytes(class))
	return &Buffer{B: full, full: full, pool: p, class: int8(class)}
}

// Leased returns the bytes that are out on lease.
func (p *Pool) Leased() int64 { return p.leased.Load() }

// Idle returns the bytes kept for reuse.
func (p *Pool) Idle() int64 { return p.idle.Load() }

func (p *Pool) put(b *Buffer) {
	size := int64(cap(b.full))
	p.leased.Add(-size)
	if b.class < 0 || p.idle.Add(size) > p.retainBytes {
		if b.class >= 0 {
			p.idle.Add(-size)
		}
		*b = Buffer{}
		return
	}
	b.B = b.full
	l := &p.class[b.class]
	l.mu.Lock()
	l.free = append(l.free, b)
	l.mu.Unlock()
}

// Trim lets go of the buffers that nobody needed since the last Trim, and returns their bytes.
func (p *Pool) Trim() (bytes int64) {
	for i := range p.class {
		l := &p.class[i]
		l.mu.Lock()
		for _, b := range l.free[:l.least] {
			bytes += int64(cap(b.full))
		}
		l.free = slices.Delete(l.free, 0, l.least) // those that wait longest stand first
		l.least = len(l.free)
		l.mu.Unlock()
	}
	p.idle.Add(-bytes)
	return bytes
}

// classBytes is the capacity of the buffers of a class.
func classBytes(class int) int {
	size := 1 << (class + minClassBits)
	if class+minClassBits >= tailClassBits {
		size += tailBytes
	}
	return size
}

// classOf is the class of the buffers that hold size bytes.
func classOf(size int) int {
	if size <= 1<<minClassBits {
		return 0
	}
	return bits.Len(uint(size-1)) - minClassBits
}
