package diskio

import (
	"fmt"
	"runtime/debug"
)

// Guarded is work that reads mapped bytes.
type Guarded interface{ RunGuarded() error }

// Guard runs work that reads mapped bytes and turns a fault on them (SIGBUS: the file was cut by another
// process, or the disk cannot give the page) into ErrFault instead of the end of the process. Panics of
// other kinds go through. It does not allocate unless it faults.
func Guard(work Guarded) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			fault, ok := r.(interface{ Addr() uintptr })
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("%w (address %#x)", ErrFault, fault.Addr())
		}
	}()
	return work.RunGuarded()
}
