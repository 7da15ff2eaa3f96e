// Package perftest has what tests of several packages need of the kernel.
package perftest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// RefuseCalls makes system calls fail with errno, as a container's seccomp profile does: on the calling thread and the
// threads and programs that it starts, for good. So lock the goroutine to its thread before.
func RefuseCalls(errno unix.Errno, calls ...uint32) error {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{{Code: load, K: 0}} // the number of the call
	for i, call := range calls {
		filter = append(filter, unix.SockFilter{Code: equal, K: call, Jt: uint8(len(calls) - i)}) // to the last line
	}
	filter = append(filter, unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ALLOW}, unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(errno)})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	// The kernel copies the program before the call returns.
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
