package diskio

import (
	"io"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// opTriesMax bounds how often an op without progress goes through the ring again before a plain call
	// takes over.
	opTriesMax = 8
	// enterTriesMax bounds how often the kernel may refuse a submission for want of resources in a row.
	enterTriesMax = 64
	// brokenPoll is how often completions are looked for once waiting for them in the kernel fails.
	brokenPoll = time.Millisecond
)

// none stands for no op.
const none = int32(-1)

// lane carries one batch at a time through a ring of its own. The batch's ops take slots; a slot's number and
// the batch's number are the user data of its submission, so that a completion finds its op.
//
// The kernel reads the bytes, and for vectored writes the slot's array of buffers, until the op completes.
// They stay where they are: they are heap objects that the batch's ops and the lane keep reachable, Go does
// not move heap objects, and run returns only after the last completion.
type lane struct {
	ring     *ring
	slots    []slot
	free     []uint32 // slots without an op
	inFlight int      // slots with an op
	batch    uint32
	broken   bool // the ring failed and must not be used again

	writes []WriteOp // the batch, if it is of writes
	syncs  []SyncOp  // the batch, if it is of syncs

	// ready holds the ops that may start, from index started on; next the op that follows each on the same
	// file: ops of one file go one after the other, since the kernel runs those in flight in any order.
	ready   []int32
	started int
	next    []int32
	last    map[*file]int32

	call pwritevFunc // for what the ring cannot do
}

// slot is an op in flight.
type slot struct {
	op    int32
	tries int
	file  *file
	vec   vector
}

func newLane(r *ring) *lane {
	l := &lane{ring: r, slots: make([]slot, len(r.sqes)), last: make(map[*file]int32), call: pwritev}
	for i := range l.slots {
		l.slots[i].op = none
		l.free = append(l.free, uint32(i))
	}
	return l
}

// write carries out ops and sets their errors.
func (l *lane) write(ops []WriteOp) {
	l.writes = ops
	l.next = l.next[:0]
	for i := range ops {
		l.next = append(l.next, none)
		ops[i].Err = nil
		f, ok := ops[i].File.(*file)
		if !ok {
			ops[i].Err = ErrForeignFile
			continue
		}
		if len(ops) > 1 {
			before, found := l.last[f]
			l.last[f] = int32(i)
			if found {
				l.next[before] = int32(i)
				continue
			}
		}
		l.ready = append(l.ready, int32(i))
	}
	l.run()
	clear(l.last)
	l.writes = nil
	runtime.KeepAlive(ops)
}

// sync makes the files of ops durable and sets their errors.
func (l *lane) sync(ops []SyncOp) {
	l.syncs = ops
	for i := range ops {
		ops[i].Err = nil
		if _, ok := ops[i].File.(*file); !ok {
			ops[i].Err = ErrForeignFile
			continue
		}
		l.ready = append(l.ready, int32(i))
	}
	l.run()
	l.syncs = nil
	runtime.KeepAlive(ops)
}

// run starts what is ready and waits until every op is done.
func (l *lane) run() {
	l.batch++
	refused := 0
	for l.started < len(l.ready) || l.inFlight > 0 {
		if l.broken {
			l.finishBroken()
			break
		}
		for l.started < len(l.ready) && len(l.free) > 0 {
			l.start(l.ready[l.started])
			l.started++
		}
		if l.inFlight == 0 {
			continue // ops without bytes
		}
		switch err := l.ring.submit(l.waitFor()); err {
		case nil:
			refused = 0
		case unix.EINTR:
		case unix.EAGAIN, unix.EBUSY:
			// The kernel is short of memory, or of room for completions: take those and try again.
			refused++
			l.broken = refused > enterTriesMax
			runtime.Gosched()
		default:
			l.broken = true
		}
		l.reap()
	}
	l.ready, l.started = l.ready[:0], 0
}

// waitFor returns how many completions to wait for: all, or half where more ops wait for a slot.
func (l *lane) waitFor() uint32 {
	if l.started < len(l.ready) {
		return uint32(l.inFlight+1) / 2
	}
	return uint32(l.inFlight)
}

// start gives op a slot and pushes it.
func (l *lane) start(op int32) {
	number := l.take(op)
	if l.writes != nil && l.slots[number].vec.left == 0 {
		l.finish(number, nil)
		return
	}
	l.push(number)
}

// take puts op into a free slot.
func (l *lane) take(op int32) (number uint32) {
	number = l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	l.inFlight++
	s := &l.slots[number]
	s.op, s.tries = op, 0
	if l.writes == nil {
		s.file = l.syncs[op].File.(*file)
		return number
	}
	s.file = l.writes[op].File.(*file)
	s.vec.begin(&l.writes[op])
	return number
}

// push submits what is left of the op in a slot. There is room: one entry a slot.
func (l *lane) push(number uint32) {
	s := &l.slots[number]
	entry := l.ring.push()
	entry.fd = int32(s.file.fd.get())
	entry.userData = uint64(l.batch)<<32 | uint64(number)
	if l.writes == nil {
		entry.opcode, entry.opFlags = opFsync, fsyncDatasync
		return
	}
	entry.off = uint64(s.vec.pos)
	iov := s.vec.fill()
	if len(iov) == 1 {
		entry.opcode = opWrite
		entry.addr = uint64(uintptr(unsafe.Pointer(iov[0].Base)))
		// One write moves at most 2 GiB less a page; the rest is continued.
		entry.len = uint32(min(iov[0].Len, 1<<30))
		return
	}
	entry.opcode = opWritev
	entry.addr = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(iov))))
	entry.len = uint32(len(iov))
}

// reap takes every completion that is there.
func (l *lane) reap() {
	for {
		done, ok := l.ring.reap()
		if !ok {
			return
		}
		l.complete(l.slotOf(done.userData), done.res)
	}
}

// slotOf returns the slot that user data names. It must be one with an op of this batch: anything else is a
// bug, and the bytes of an op that we take for done might still be read.
func (l *lane) slotOf(userData uint64) uint32 {
	number := uint32(userData)
	if uint32(userData>>32) != l.batch || number >= uint32(len(l.slots)) || l.slots[number].op == none {
		panic("diskio: completion of an op that is not in flight")
	}
	return number
}

// complete takes the result of an op: done, to be continued, or failed.
func (l *lane) complete(number uint32, res int32) {
	s := &l.slots[number]
	if res < 0 {
		l.failed(number, unix.Errno(-res))
		return
	}
	if l.writes == nil {
		l.finish(number, nil)
		return
	}
	if res == 0 {
		l.finish(number, s.file.fail("write", io.ErrShortWrite))
		return
	}
	s.vec.advance(int64(res))
	if s.vec.left == 0 {
		l.finish(number, nil)
		return
	}
	s.tries = 0
	l.again(number)
}

// failed decides what an error means. The first three say that the op was not carried out, for reasons that
// pass; a sync that failed for any other reason is never repeated, since the kernel tells of lost pages once.
func (l *lane) failed(number uint32, errno unix.Errno) {
	s := &l.slots[number]
	switch errno {
	case unix.EAGAIN, unix.EINTR, unix.ECANCELED:
		s.tries++
		if s.tries <= opTriesMax {
			l.again(number)
			return
		}
		l.finishPlain(number)
	case unix.EINVAL, unix.EOPNOTSUPP:
		// Not taken by the ring; a plain call gives the definite answer.
		l.finishPlain(number)
	default:
		l.finish(number, s.file.fail(l.verb(), errno))
	}
}

// again pushes the rest of an op, unless the ring is not to be used any more.
func (l *lane) again(number uint32) {
	if l.broken {
		l.finishPlain(number)
		return
	}
	l.push(number)
}

// finishPlain carries out the rest of an op by a plain call.
func (l *lane) finishPlain(number uint32) {
	s := &l.slots[number]
	if l.writes == nil {
		l.finish(number, s.file.Sync())
		return
	}
	err := s.vec.writeRest(s.file.fd.get(), l.call)
	if err != nil {
		err = s.file.fail("write", err)
	}
	l.finish(number, err)
}

// finish sets the op's error, frees its slot and lets the next op of its file start, or fail with it.
func (l *lane) finish(number uint32, err error) {
	s := &l.slots[number]
	op := s.op
	s.op, s.file = none, nil
	s.vec.end()
	l.free = append(l.free, number)
	l.inFlight--
	if l.writes == nil {
		l.syncs[op].Err = err
		return
	}
	l.writes[op].Err = err
	following := l.next[op]
	if err == nil && following != none {
		l.ready = append(l.ready, following)
		return
	}
	for ; following != none; following = l.next[following] {
		l.writes[following].Err = err
	}
}

// finishBroken ends a batch whose ring failed: what the kernel has not taken and what has not started goes by
// plain calls, what it has taken is waited for, since the kernel may still read the bytes.
func (l *lane) finishBroken() {
	for {
		userData, ok := l.ring.retract()
		if !ok {
			break
		}
		l.finishPlain(l.slotOf(userData))
	}
	for l.inFlight > 0 {
		if err := l.ring.submit(1); err != nil && err != unix.EINTR {
			time.Sleep(brokenPoll)
		}
		l.reap()
	}
	for ; l.started < len(l.ready); l.started++ {
		l.finishPlain(l.take(l.ready[l.started]))
	}
}

func (l *lane) verb() string {
	if l.writes == nil {
		return "sync"
	}
	return "write"
}
