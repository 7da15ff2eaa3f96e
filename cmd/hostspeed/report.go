package hostspeed

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"millrace/diskio"
	"millrace/perf"
)

// Figure is one measurement.
type Figure struct {
	What      string  `json:"what"`
	Directory string  `json:"directory,omitempty"` // of several the one it is about
	Backend   string  `json:"backend,omitempty"`   // ring, posix or "": it has nothing to do with it
	Value     float64 `json:"value"`
	Unit      string  `json:"unit"`
	// CPU is the processor time of this process, io_uring's workers included, in seconds a GB; 0: not of bytes.
	CPU float64 `json:"cpu_seconds_per_gb,omitempty"`
}

// Report is what was measured.
type Report struct {
	Probe   diskio.Report `json:"-"`
	Figures []Figure      `json:"figures"`
	// Missing says what could not be measured, and why.
	Missing []string `json:"missing,omitempty"`
}

// Measure measures for about the given time in all, below each of dirs, at least one, in a directory of its own that it
// removes. It ends early with ctx, with its cause.
func Measure(ctx context.Context, dirs []string, budget time.Duration) (*Report, error) {
	r := &Report{Probe: diskio.Probe(dirs[0])}
	backends := []string{diskio.BackendPosix}
	if r.Probe.Uring {
		backends = append(backends, diskio.BackendRing)
	} else {
		r.Missing = append(r.Missing, "io_uring: "+r.Probe.UringReason)
	}
	each := budget / time.Duration(len(dirs)*len(backends)*len(kinds())+3)
	for _, dir := range dirs {
		if err := r.disk(ctx, dir, backends, each); err != nil {
			return nil, err
		}
		if len(dirs) > 1 {
			for i := range r.Figures {
				r.Figures[i].Directory = cmp.Or(r.Figures[i].Directory, dir)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	r.memory(each)
	if err := r.loopback(ctx, each); err != nil {
		r.Missing = append(r.Missing, "loopback: "+err.Error())
	}
	return r, nil
}

// disk measures one directory by each backend.
func (r *Report) disk(ctx context.Context, dir string, backends []string, each time.Duration) error {
	work, err := os.MkdirTemp(dir, "millrace-hostspeed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	d := disk{ctx: ctx, dir: work, report: r, each: each}
	for _, backend := range backends {
		if err := d.backend(backend); err != nil {
			return fmt.Errorf("%s: %w", backend, err)
		}
	}
	return nil
}

// memoryBytes is more than the caches hold, so that it is memory that is measured.
const memoryBytes = 64 << 20

// memory measures copying, and checksums of bytes that are in the cache.
func (r *Report) memory(each time.Duration) {
	from, to := make([]byte, memoryBytes), make([]byte, memoryBytes)
	copy(to, from) // touched once before it counts
	r.add("copy memory", "", "GB/s", each, func() int64 { return int64(copy(to, from)) })
	block := from[:64<<10]
	r.add("CRC-32C of 64 KiB in the cache", "", "GB/s", each, func() int64 {
		perf.CRC32C(block)
		return int64(len(block))
	})
}

// add measures what f does again and again, which says how many bytes it moved.
func (r *Report) add(what, backend, unit string, each time.Duration, f func() int64) {
	began, cpu := time.Now(), processorTime()
	var bytes int64
	for time.Since(began) < each {
		bytes += f()
	}
	seconds := time.Since(began).Seconds()
	used := (processorTime() - cpu).Seconds()
	r.Figures = append(r.Figures, Figure{What: what, Backend: backend, Value: round(float64(bytes) / 1e9 / seconds), Unit: unit, CPU: round(used / (float64(bytes) / 1e9))})
}

// processorTime is that of this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// round keeps three digits.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
