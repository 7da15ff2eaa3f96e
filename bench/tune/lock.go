package tune

import (
	"os"
	"syscall"
)

// lockNames are the files that a broker holds locks on in its data directory.
func lockNames() []string { return []string{"broker.lock", "LOCK"} }

// locked tells that a process holds a lock on the file. It leaves the file as it is, and takes none where there is
// none: a shared lock that is given back at once shows it.
func locked(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false // nobody works there, or not as this user
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == syscall.EWOULDBLOCK
}
