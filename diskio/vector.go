package diskio

import (
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vectorEntriesMax is the kernel's limit of buffers in one vectored call (UIO_MAXIOV).
const vectorEntriesMax = 1024

// vectorsKept bounds the vectors that a backend keeps for reuse: 16 KiB each once grown to the limit.
const vectorsKept = 32

// vector walks the bytes of one WriteOp and shows what is left as the array that vectored calls take.
//
// The array holds Go pointers in a Go type, so the collector sees the buffers for as long as the vector is
// reachable. Buffers and array are on the heap, where objects do not move: a pointer that is stored in a
// heap object cannot be to a stack.
type vector struct {
	iov  []unix.Iovec
	bufs [][]byte
	next int // first buffer with bytes left
	skip int // bytes of it that are written
	left int64
	pos  int64 // where the next byte goes
}

// begin sets the vector to the whole of op.
func (v *vector) begin(op *WriteOp) {
	v.bufs, v.next, v.skip, v.pos, v.left = op.Bufs, 0, 0, op.Pos, 0
	for _, buf := range op.Bufs {
		v.left += int64(len(buf))
	}
}

// end lets go of the buffers.
func (v *vector) end() {
	clear(v.iov[:cap(v.iov)])
	v.iov, v.bufs = v.iov[:0], nil
}

// fill returns the first buffers that are left, at most vectorEntriesMax.
func (v *vector) fill() []unix.Iovec {
	v.iov = v.iov[:0]
	skip := v.skip
	for _, buf := range v.bufs[v.next:] {
		buf, skip = buf[skip:], 0
		if len(buf) == 0 {
			continue
		}
		if len(v.iov) == vectorEntriesMax {
			break
		}
		entry := unix.Iovec{Base: unsafe.SliceData(buf)}
		entry.SetLen(len(buf))
		v.iov = append(v.iov, entry)
	}
	return v.iov
}

// advance takes n bytes as written. It panics where there are fewer: no call writes more than it was given.
func (v *vector) advance(n int64) {
	if n < 0 || n > v.left {
		panic("diskio: more bytes written than given")
	}
	v.left -= n
	v.pos += n
	for n > 0 {
		rest := int64(len(v.bufs[v.next]) - v.skip)
		if n < rest {
			v.skip += int(n)
			return
		}
		n -= rest
		v.next, v.skip = v.next+1, 0
	}
}

// pwritevFunc is the system call pwritev: a seam for tests that make it fail or write less.
type pwritevFunc func(fd int, iov []unix.Iovec, pos int64) (int64, error)

// pwritev writes iov at pos. The 64-bit kernel takes the position whole in the fourth argument.
func pwritev(fd int, iov []unix.Iovec, pos int64) (int64, error) {
	n, _, errno := unix.Syscall6(unix.SYS_PWRITEV, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(iov))), uintptr(len(iov)), uintptr(pos), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int64(n), nil
}

// writeRest writes what is left of v by plain calls.
func (v *vector) writeRest(fd int, call pwritevFunc) error {
	for v.left > 0 {
		n, err := call(fd, v.fill(), v.pos)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		v.advance(n)
	}
	return nil
}

// vectorPool lends vectors. Unlike sync.Pool it keeps them over a collection, so that the steady state does
// not allocate.
type vectorPool struct{ free chan *vector }

func newVectorPool() vectorPool { return vectorPool{free: make(chan *vector, vectorsKept)} }

func (p vectorPool) get() *vector {
	select {
	case v := <-p.free:
		return v
	default:
		return &vector{iov: make([]unix.Iovec, 0, 16)}
	}
}

func (p vectorPool) put(v *vector) {
	v.end()
	select {
	case p.free <- v:
	default: // more writers at once than we keep vectors for
	}
}
