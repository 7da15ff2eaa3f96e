package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	warmChunk = 4 << 20
	// warmShare of the memory, and of the room on the disk, that is free is used at most.
	warmShare = 0.5
)

// WarmPages writes so many bytes, where that much is free, to a file below dir and removes it: memory that was free for a while costs
// the next to use it several times as much on some hosts, and now the kernel has pages that were used just now.
func WarmPages(ctx context.Context, dir string, bytes int64) error {
	bytes = min(bytes, int64(warmShare*float64(availableMemory())), int64(warmShare*float64(FreeRoom(dir))))
	f, err := os.CreateTemp(dir, "warm-")
	if err != nil {
		return fmt.Errorf("warm the page cache: %w", err)
	}
	defer f.Close()
	// Removed first: its pages go whatever happens.
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	chunk := make([]byte, warmChunk)
	for ; bytes > 0; bytes -= warmChunk {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return fmt.Errorf("warm the page cache: %w", err)
		}
	}
	return nil
}

// availableMemory is 0 where the kernel does not tell.
func availableMemory() int64 {
	kb, _, _ := strings.Cut(field(text("/proc/meminfo"), "MemAvailable"), " ")
	n, _ := strconv.ParseInt(kb, 10, 64)
	return n << 10
}

// FreeRoom returns the bytes that can still be written on the file system of dir, 0 where it cannot be told.
func FreeRoom(dir string) int64 {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil {
		return 0
	}
	return int64(stat.Bavail) * stat.Bsize
}
