package diskio

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fakeKernel plays the kernel's side of a ring over ordinary memory. It takes submissions, keeps them, and
// completes them as decide says, in the order that shuffle says.
type fakeKernel struct {
	ring                           *ring
	sqHead, sqTail, cqHead, cqTail uint32
	taken                          []sqe
	submitted                      int
	// decide returns the result of one submission, and false to leave it for a later call.
	decide func(s *sqe) (res int32, done bool)
	// refuse, where set, returns what enter fails with; how many entries it takes at most otherwise.
	refuse func() (takeMax int, err error)
	random *rand.Rand
}

func newFakeRing(t *testing.T, size int) *fakeKernel {
	const seed = 11
	k := &fakeKernel{random: rand.New(rand.NewPCG(seed, seed))}
	k.ring = &ring{
		fd:     -1,
		sqHead: &k.sqHead, sqTail: &k.sqTail, sqMask: uint32(size - 1), sqes: make([]sqe, size),
		cqHead: &k.cqHead, cqTail: &k.cqTail, cqMask: uint32(2*size - 1), cqes: make([]cqe, 2*size),
		enter: func(submit, wait uint32) (uint32, error) { return k.enter(t, submit, wait) },
	}
	k.decide = func(s *sqe) (int32, bool) { return k.carryOut(s, 1<<30), true }
	// The counters wrap in the course of each test.
	start := ^uint32(0) - 3
	k.sqHead, k.sqTail, k.cqHead, k.cqTail, k.ring.tail = start, start, start, start, start
	return k
}

func (k *fakeKernel) enter(t *testing.T, submit, wait uint32) (uint32, error) {
	if submit != k.sqTail-k.sqHead {
		t.Errorf("asked to submit %d of %d", submit, k.sqTail-k.sqHead)
	}
	takeMax := int(submit)
	if k.refuse != nil {
		var err error
		if takeMax, err = k.refuse(); err != nil {
			return 0, err
		}
	}
	took := uint32(0)
	for ; took < submit && int(took) < takeMax; took++ {
		k.taken = append(k.taken, k.ring.sqes[k.sqHead&k.ring.sqMask])
		k.sqHead++
	}
	k.submitted += int(took)
	if took < submit {
		return took, nil
	}
	for int(wait) > int(k.cqTail-k.cqHead) {
		if len(k.taken) == 0 {
			t.Fatalf("waits for %d completions of nothing", wait)
		}
		k.completeOne(t)
	}
	return took, nil
}

// completeOne completes any submission, or puts it off.
func (k *fakeKernel) completeOne(t *testing.T) {
	i := k.random.IntN(len(k.taken))
	res, done := k.decide(&k.taken[i])
	if !done {
		return
	}
	if int(k.cqTail-k.cqHead) == len(k.ring.cqes) {
		t.Fatal("completion queue overflows")
	}
	k.ring.cqes[k.cqTail&k.ring.cqMask] = cqe{userData: k.taken[i].userData, res: res}
	k.cqTail++
	k.taken = append(k.taken[:i], k.taken[i+1:]...)
}

// carryOut does what a submission asks for, but writes at most so many bytes.
func (k *fakeKernel) carryOut(s *sqe, bytesMax uint64) int32 {
	var iov []unix.Iovec
	switch s.opcode {
	case opFsync:
		return 0
	case opWrite:
		iov = []unix.Iovec{{Base: addressed[byte](s.addr), Len: uint64(s.len)}}
	case opWritev:
		iov = append(iov, unsafe.Slice(addressed[unix.Iovec](s.addr), s.len)...)
	}
	for i := range iov {
		iov[i].Len = min(iov[i].Len, bytesMax)
		bytesMax -= iov[i].Len
	}
	n, err := pwritev(int(s.fd), iov, int64(s.off))
	if err != nil {
		return -int32(err.(unix.Errno))
	}
	return int32(n)
}

// addressed turns an address of a submission back into a pointer, as the kernel does. The object is alive:
// the op under way refers to it.
func addressed[T any](addr uint64) *T { return *(**T)(unsafe.Pointer(&addr)) }

// laneBatch makes ops over files, many ops a file, and what the files hold afterwards.
func laneBatch(t *testing.T, files, opsPerFile int) (ops []WriteOp, want map[File][]byte) {
	const seed = 12
	random := rand.New(rand.NewPCG(seed, seed))
	want = make(map[File][]byte)
	var open []File
	for range files {
		open = append(open, newTestFile(t, newPosixFS("test")))
	}
	for range opsPerFile {
		for _, f := range open {
			var bufs [][]byte
			pos := int64(len(want[f]))
			for range 1 + random.IntN(4) {
				b := bytes.Repeat([]byte{byte(random.Uint32())}, random.IntN(900))
				bufs, want[f] = append(bufs, b), append(want[f], b...)
			}
			ops = append(ops, WriteOp{File: f, Pos: pos, Bufs: bufs})
		}
	}
	return ops, want
}

// checkLane runs a batch on the fake and checks that every byte is in its place and nothing is left over.
func checkLane(t *testing.T, k *fakeKernel) *lane {
	t.Helper()
	ops, want := laneBatch(t, 5, 9)
	l := newLane(k.ring)
	l.write(ops)
	for i := range ops {
		if ops[i].Err != nil {
			t.Fatalf("op %d: %v", i, ops[i].Err)
		}
	}
	for f, b := range want {
		if !bytes.Equal(content(t, f), b) {
			t.Fatalf("%s holds other bytes than were written", f.Name())
		}
	}
	checkIdle(t, l)
	return l
}

func checkIdle(t *testing.T, l *lane) {
	t.Helper()
	if l.inFlight != 0 || len(l.free) != len(l.slots) || len(l.ready) != 0 || len(l.last) != 0 {
		t.Fatalf("after a batch: %d in flight, %d of %d slots free, %d ready", l.inFlight, len(l.free), len(l.slots), len(l.ready))
	}
}

// K12: results shorter than asked are continued, completions come in any order and find their op, and a batch
// larger than the ring goes through in turns.
func TestK12ShortResultsAreContinued(t *testing.T) {
	k := newFakeRing(t, 4)
	k.decide = func(s *sqe) (int32, bool) {
		if k.random.IntN(3) == 0 {
			return 0, false
		}
		return k.carryOut(s, 1+k.random.Uint64N(700)), true
	}
	checkLane(t, k)
	if k.submitted <= 45 {
		t.Errorf("only %d submissions", k.submitted)
	}
}

// K12: errors that pass are tried again through the ring, and by a plain call where they do not end.
func TestK12PassingErrorsAreRetried(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EAGAIN, unix.EINTR, unix.ECANCELED} {
		k := newFakeRing(t, 4)
		k.decide = func(s *sqe) (int32, bool) {
			if k.random.IntN(2) == 0 {
				return -int32(errno), true
			}
			return k.carryOut(s, 1<<30), true
		}
		checkLane(t, k)

		k = newFakeRing(t, 4)
		k.decide = func(*sqe) (int32, bool) { return -int32(errno), true }
		checkLane(t, k)
		if k.submitted == 0 {
			t.Error("the ring was not tried")
		}
	}
}

// K12: an error that stays is the op's, and stops only later ops of its file.
func TestK12LastingErrorsSurface(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EIO} {
		ops, _ := laneBatch(t, 3, 4)
		bad := ops[1].File
		k := newFakeRing(t, 8)
		tried := 0
		k.decide = func(s *sqe) (int32, bool) {
			if int(s.fd) != bad.(*file).fd.get() {
				return k.carryOut(s, 1<<30), true
			}
			tried++
			if tried == 2 {
				return -int32(errno), true
			}
			return k.carryOut(s, 1<<30), true
		}
		l := newLane(k.ring)
		l.write(ops)
		seen := 0
		for i := range ops {
			var want error
			if ops[i].File == bad {
				if seen++; seen > 1 {
					want = errno
				}
			}
			if !errors.Is(ops[i].Err, want) {
				t.Errorf("op %d: %v, want %v", i, ops[i].Err, want)
			}
		}
		if tried != 2 {
			t.Errorf("%d submissions for the file that failed", tried)
		}
		checkIdle(t, l)
	}
}

// K12: a kernel that takes part of the submissions, or none for a while, loses nothing.
func TestK12SubmissionsTakenInPart(t *testing.T) {
	k := newFakeRing(t, 8)
	k.refuse = func() (int, error) {
		switch k.random.IntN(5) {
		case 0:
			return 0, unix.EINTR
		case 1:
			return 0, unix.EBUSY
		case 2:
			return 0, unix.EAGAIN
		case 3:
			return 1, nil
		default:
			return 1 << 20, nil
		}
	}
	checkLane(t, k)
}

// K12: where the ring breaks in the middle of a batch, what is in flight is waited for and the rest goes by
// plain calls.
func TestK12BrokenRing(t *testing.T) {
	for after := range 4 {
		k := newFakeRing(t, 8)
		calls := 0
		k.refuse = func() (int, error) {
			calls++
			switch {
			case calls <= after:
				return 1 << 20, nil
			case len(k.taken) == 0:
				return 0, unix.ENXIO
			case calls%2 == 0:
				k.completeOne(t) // the kernel goes on with what it has, although nobody can wait for it
			}
			return 0, unix.ENXIO
		}
		l := checkLane(t, k)
		if !l.broken {
			t.Error("the lane would be used again")
		}
	}
}

func TestK12SyncErrors(t *testing.T) {
	p := newPosixFS("test")
	ops := make([]SyncOp, 20)
	for i := range ops {
		ops[i].File = newTestFile(t, p)
	}
	k := newFakeRing(t, 4)
	bad := int32(ops[7].File.(*file).fd.get())
	tried := 0
	k.decide = func(s *sqe) (int32, bool) {
		if s.opcode != opFsync || s.opFlags != fsyncDatasync {
			t.Errorf("opcode %d with flags %d", s.opcode, s.opFlags)
		}
		switch {
		case s.fd == bad:
			tried++
			return -int32(unix.EIO), true
		case k.random.IntN(3) == 0:
			return -int32(unix.EAGAIN), true
		default:
			return 0, true
		}
	}
	l := newLane(k.ring)
	l.sync(ops)
	for i := range ops {
		var want error
		if i == 7 {
			want = unix.EIO
		}
		if !errors.Is(ops[i].Err, want) {
			t.Errorf("op %d: %v, want %v", i, ops[i].Err, want)
		}
	}
	if tried != 1 {
		t.Errorf("a failed sync was tried %d times", tried)
	}
	checkIdle(t, l)
}

func TestCompletionOfUnknownOpIsABug(t *testing.T) {
	k := newFakeRing(t, 4)
	l := newLane(k.ring)
	ops, _ := laneBatch(t, 1, 1)
	k.decide = func(s *sqe) (int32, bool) {
		s.userData += 1 << 32 // of another batch
		return 1, true
	}
	defer func() {
		if recover() == nil {
			t.Error("taken for an op of this batch")
		}
	}()
	l.write(ops)
}

func TestABISizes(t *testing.T) {
	for name, pair := range map[string][2]uintptr{
		"sqe":        {unsafe.Sizeof(sqe{}), 64},
		"cqe":        {unsafe.Sizeof(cqe{}), 16},
		"ringParams": {unsafe.Sizeof(ringParams{}), 120},
		"opProbe":    {unsafe.Sizeof(opProbe{}), 16 + 8*probedOps},
		"userData":   {unsafe.Offsetof(sqe{}.userData), 32},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %d, want %d", name, pair[0], pair[1])
		}
	}
}
