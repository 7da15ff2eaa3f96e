package diskio

// What this package uses of the kernel's io_uring interface (include/uapi/linux/io_uring.h). Layouts are
// those of 64-bit kernels; a test pins their sizes.

// Opcodes. WRITE exists since Linux 5.6, the others since 5.1.
const (
	opWritev = 2
	opFsync  = 3
	opWrite  = 23
)

const (
	fsyncDatasync = 1 << 0 // sqe.opFlags of opFsync

	setupCqSize = 1 << 3 // params.cqEntries is given
	setupClamp  = 1 << 4 // too many entries are cut to what the kernel allows

	featSingleMmap = 1 << 0 // both queues lie in one mapping (Linux 5.4)
	featNoDrop     = 1 << 1 // completions are never dropped (Linux 5.5)

	enterGetEvents = 1 << 0

	registerProbe    = 8
	registerWorkers  = 19 // Linux 5.15
	probeOpSupported = 1 << 0

	mmapQueues  = 0
	mmapEntries = 0x10000000
)

// sqe is one submission.
type sqe struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32
	off      uint64
	addr     uint64
	len      uint32
	opFlags  uint32
	userData uint64
	_        [3]uint64 // buffer, personality and fields of other opcodes
}

// cqe is one completion.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// ringParams goes to io_uring_setup and comes back filled.
type ringParams struct {
	sqEntries    uint32
	cqEntries    uint32
	flags        uint32
	sqThreadCPU  uint32
	sqThreadIdle uint32
	features     uint32
	wqFd         uint32
	_            [3]uint32
	sq           queueOffsets
	cq           completionOffsets
}

// queueOffsets tells where the words of the submission queue lie in the mapping.
type queueOffsets struct {
	head, tail, mask, entries, flags, dropped, array, _ uint32
	_                                                   uint64
}

// completionOffsets tells where the words of the completion queue lie in the mapping.
type completionOffsets struct {
	head, tail, mask, entries, overflow, cqes, flags, _ uint32
	_                                                   uint64
}

// probedOps is how many opcodes the probe asks about: up to the highest in use.
const probedOps = opWrite + 1

// opProbe is the answer to registerProbe.
type opProbe struct {
	lastOp uint8
	opsLen uint8
	_      [14]byte
	ops    [probedOps]struct {
		op    uint8
		_     uint8
		flags uint16
		_     uint32
	}
}
