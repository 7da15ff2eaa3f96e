package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	warmChunk = 4 << 20
	warmShare = 0.5 // of the memory that is free, at most
	// warmRate is what a broker takes at most, in bytes a second.
	warmRate = 1e9

	aheadBytes = 128 << 20
	aheadLife  = time.Second // by then the host may have taken it
	aheadEvery = 10 * time.Millisecond
)

// WarmPages keeps memory that was used just now for a broker's page cache. The host of a virtual machine takes back what
// is free for some seconds, and to use it again costs several times as much as the write itself: the broker that wrote more or
// later would pay for it. So memory is held here, and given back to the kernel just before others take it: always
// aheadBytes more than they did.
type WarmPages struct {
	file *os.File // lives in memory only; what is held is [freed, held)

	freed, held int64
	cancel      context.CancelFunc
	giving      sync.WaitGroup
}

// NewWarmPages holds nothing yet.
func NewWarmPages() (*WarmPages, error) {
	fd, err := unix.MemfdCreate("warm", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("hold memory: %w", err)
	}
	return &WarmPages{file: os.NewFile(uintptr(fd), "warm"), cancel: func() {}}, nil
}

// holdFor makes ready for a part of a workload: Hold with what it may take.
func (w *WarmPages) holdFor(ctx context.Context, s Settings) error {
	rate, lasts := float64(warmRate), s.Duration.Seconds()
	if s.Rate > 0 {
		rate = min(rate, s.Rate*float64(s.Batch*s.Size))
	}
	if byBytes := float64(s.Bytes) / rate; lasts == 0 || s.Bytes > 0 && byBytes < lasts {
		lasts = byBytes
	}
	lasts += s.Warmup.Seconds()
	return w.Hold(ctx, int64(lasts*(rate+aheadBytes/aheadLife.Seconds())))
}

// Hold takes memory until it has so many bytes, but no more than half of what is free, and gives back of them from now on.
func (w *WarmPages) Hold(ctx context.Context, bytes int64) error {
	w.stop()
	bytes = min(bytes, w.held-w.freed+int64(warmShare*float64(memory("MemAvailable"))))
	for chunk := make([]byte, warmChunk); w.held-w.freed < bytes; w.held += warmChunk {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := w.file.WriteAt(chunk, w.held); err != nil {
			return fmt.Errorf("hold memory: %w", err)
		}
	}
	giving, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	w.giving.Go(func() { w.give(giving) })
	return nil
}

// Close gives back all.
func (w *WarmPages) Close() {
	w.stop()
	w.file.Close()
}

func (w *WarmPages) stop() {
	w.cancel()
	w.giving.Wait()
}

// give looks at what is free in all: what it shrinks by was taken from what is ahead.
func (w *WarmPages) give(ctx context.Context) {
	tick := time.NewTicker(aheadEvery)
	defer tick.Stop()
	ahead, free := int64(0), memory("MemFree")
	for ctx.Err() == nil && w.freed < w.held {
		if n := min((aheadBytes-ahead)/warmChunk*warmChunk, w.held-w.freed); n > 0 {
			if unix.Fallocate(int(w.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, w.freed, n) != nil {
				return // what is left goes with Close
			}
			w.freed, ahead, free = w.freed+n, ahead+n, free+n
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		now := memory("MemFree")
		ahead = min(max(ahead+now-free-int64(aheadBytes*aheadEvery/aheadLife), 0), aheadBytes)
		free = now
	}
}

// memory returns a line of /proc/meminfo in bytes, 0 where the kernel does not tell.
func memory(name string) int64 {
	raw, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == name {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}
