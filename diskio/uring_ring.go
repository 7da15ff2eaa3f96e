package diskio

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is one io_uring. It belongs to one goroutine at a time; who hands it on synchronises with the next
// owner (lanes go over a channel).
//
// Set-up flags: none that ties the ring to a thread (SINGLE_ISSUER, DEFER_TASKRUN), since goroutines change
// threads between calls; not COOP_TASKRUN, which leaves completions of the submitting thread undone while
// that thread runs Go code and the goroutine waits on another; no SQPOLL, which costs a core. Registered
// files and buffers are left out: they save a reference count an op, which is far below what a write or a
// sync costs, and tie buffers to a ring.
//
// Memory ordering: the kernel shares four words. The owner writes sqTail and cqHead and the kernel sqHead and
// cqTail, each with release and acquire on the other side. Go's atomics are sequentially consistent, which
// includes that. All else in the queues is plain memory that these words publish.
type ring struct {
	fd      int
	queues  []byte // mapping of both queues
	entries []byte // mapping of the submission entries

	sqHead *uint32
	sqTail *uint32
	sqMask uint32
	sqes   []sqe
	tail   uint32 // what sqTail holds after publish

	cqHead *uint32
	cqTail *uint32
	cqMask uint32
	cqes   []cqe

	// enter submits up to submit entries and, where all went in, waits for wait completions. A seam: tests
	// play the kernel.
	enter func(submit, wait uint32) (uint32, error)
}

// ringWorkersMax is how many of the kernel's workers serve one submitting thread. The kernel's own bound is four
// a CPU, which on two CPUs makes a batch of 100 syncs slower than 17 plain threads are (14.3 against 10.9 ms);
// with 32 it is faster in most pairs of runs (11.6 against 13.3 ms) and costs a tenth less CPU. Idle ones end.
const ringWorkersMax = 32

// errRingTooOld says that the kernel's io_uring lacks what this package uses.
var errRingTooOld = errors.New("io_uring of this kernel is too old")

// openRing makes a ring for size ops in flight (the kernel rounds up to a power of two). The completion queue
// is twice as large as the submission queue, so that ops in flight never overflow it.
func openRing(size int) (*ring, error) {
	params := ringParams{flags: setupClamp | setupCqSize, cqEntries: 2 * uint32(size)}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(size), uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
	// The kernel sets FD_CLOEXEC itself.
	r := &ring{fd: int(fd)}
	r.enter = r.enterKernel
	if err := r.attach(&params); err != nil {
		r.close()
		return nil, err
	}
	// Older kernels refuse, and are slower.
	workers := [2]uint32{ringWorkersMax, 0}
	_, _, _ = unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerWorkers,
		uintptr(unsafe.Pointer(&workers)), 2, 0, 0)
	return r, nil
}

func (r *ring) attach(params *ringParams) error {
	if need := uint32(featSingleMmap | featNoDrop); params.features&need != need || !r.supports(opWritev, opWrite, opFsync) {
		return errRingTooOld
	}
	queueBytes := max(params.sq.array+params.sqEntries*4, params.cq.cqes+params.cqEntries*uint32(unsafe.Sizeof(cqe{})))
	var err error
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if r.queues, err = unix.Mmap(r.fd, mmapQueues, int(queueBytes), prot, flags); err != nil {
		return fmt.Errorf("map the queues of io_uring: %w", err)
	}
	entryBytes := int(params.sqEntries) * int(unsafe.Sizeof(sqe{}))
	if r.entries, err = unix.Mmap(r.fd, mmapEntries, entryBytes, prot, flags); err != nil {
		return fmt.Errorf("map the entries of io_uring: %w", err)
	}
	// Sound: the mappings are page aligned, outlive every use (close is the last call), and the offsets and
	// counts come from the kernel that made them.
	word := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.queues[offset])) }
	r.sqHead, r.sqTail, r.sqMask = word(params.sq.head), word(params.sq.tail), *word(params.sq.mask)
	r.cqHead, r.cqTail, r.cqMask = word(params.cq.head), word(params.cq.tail), *word(params.cq.mask)
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&r.entries[0])), params.sqEntries)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&r.queues[params.cq.cqes])), params.cqEntries)
	// Entry i of the queue is always submission i: the indirection of the kernel is not used.
	array := unsafe.Slice(word(params.sq.array), params.sqEntries)
	for i := range array {
		array[i] = uint32(i)
	}
	r.tail = atomic.LoadUint32(r.sqTail)
	return nil
}

// supports asks the kernel for opcodes; Linux before 5.6 cannot answer and lacks one of them.
func (r *ring) supports(opcodes ...uint8) bool {
	var probe opProbe
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerProbe,
		uintptr(unsafe.Pointer(&probe)), probedOps, 0, 0)
	if errno != 0 {
		return false
	}
	for _, op := range opcodes {
		if probe.ops[op].flags&probeOpSupported == 0 {
			return false
		}
	}
	return true
}

// close gives the ring back to the kernel. No op may be in flight.
func (r *ring) close() {
	for _, mapped := range [][]byte{r.queues, r.entries} {
		if mapped != nil {
			_ = unix.Munmap(mapped)
		}
	}
	_ = unix.Close(r.fd)
}

// enterKernel is an ordinary system call for the scheduler: it may block, and then another thread takes over
// the processor.
func (r *ring) enterKernel(submit, wait uint32) (uint32, error) {
	n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), uintptr(wait),
		enterGetEvents, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return uint32(n), nil
}

// push returns the next submission entry, cleared. The owner must have room: no more entries than size.
func (r *ring) push() *sqe {
	if r.unsubmitted() >= uint32(len(r.sqes)) {
		panic("diskio: submission queue is full")
	}
	entry := &r.sqes[r.tail&r.sqMask]
	*entry = sqe{}
	r.tail++
	return entry
}

// unsubmitted returns how many pushed entries the kernel has not taken.
func (r *ring) unsubmitted() uint32 { return r.tail - atomic.LoadUint32(r.sqHead) }

// submit publishes what was pushed, hands it to the kernel and waits for wait completions.
func (r *ring) submit(wait uint32) error {
	atomic.StoreUint32(r.sqTail, r.tail)
	_, err := r.enter(r.unsubmitted(), wait)
	return err
}

// retract takes back the last entry that the kernel has not taken and returns its user data. The kernel looks
// at the queue only inside enter, so that the owner may do so between calls.
func (r *ring) retract() (userData uint64, ok bool) {
	if r.unsubmitted() == 0 {
		return 0, false
	}
	r.tail--
	atomic.StoreUint32(r.sqTail, r.tail)
	return r.sqes[r.tail&r.sqMask].userData, true
}

// reap takes the next completion where there is one.
func (r *ring) reap() (done cqe, ok bool) {
	head := *r.cqHead // only the owner writes it
	if head == atomic.LoadUint32(r.cqTail) {
		return cqe{}, false
	}
	done = r.cqes[head&r.cqMask]
	atomic.StoreUint32(r.cqHead, head+1)
	return done, true
}
