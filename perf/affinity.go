package perf

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// affinityPasses bounds how often SetProcessAffinity looks for threads that were started meanwhile.
const affinityPasses = 100

// AllowedCPUs returns the processors that the calling thread may run on, in ascending order.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the processors of this thread: %w", err)
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// SetThreadAffinity lets the calling thread run on the given processors only. Processes that it starts inherit
// that. The caller has locked its goroutine to the thread.
func SetThreadAffinity(cpus []int) error { return setAffinity(0, cpus) }

// SetProcessAffinity lets all threads of this process run on the given processors only, those that it starts
// later included.
func SetProcessAffinity(cpus []int) error {
	var done []int
	for range affinityPasses {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		fresh := false
		for _, e := range entries {
			thread, err := strconv.Atoi(e.Name())
			if err != nil || slices.Contains(done, thread) {
				continue
			}
			if err := setAffinity(thread, cpus); err != nil && err != unix.ESRCH {
				return fmt.Errorf("let thread %d run on processors %v: %w", thread, cpus, err)
			}
			fresh, done = true, append(done, thread)
		}
		// A thread inherits from the one that started it, which may not have been changed yet.
		if !fresh {
			return nil
		}
	}
	return fmt.Errorf("processors %v: threads are started faster than they can be told", cpus)
}

func setAffinity(thread int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return unix.SchedSetaffinity(thread, &set)
}
