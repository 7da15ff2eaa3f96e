package bench

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
)

const dropCachesFile = "/proc/sys/vm/drop_caches"

// canDropCaches says why the page cache of the broker's host cannot be dropped from here.
func canDropCaches(broker string) error {
	if err := isLocal(broker); err != nil {
		return fmt.Errorf("F2 drops the page cache: %w", err)
	}
	f, err := os.OpenFile(dropCachesFile, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("F2 drops the page cache, which needs root: %w", err)
	}
	return f.Close()
}

// dropCaches writes back what is dirty and empties the page cache of this host.
func dropCaches() error {
	syscall.Sync()
	if err := os.WriteFile(dropCachesFile, []byte("1"), 0); err != nil {
		return fmt.Errorf("drop the page cache: %w", err)
	}
	return nil
}

// runCold is F2: a reader of what is on disk alone, a producer at a fixed rate on another topic, or both.
func runCold(ctx context.Context, r *runner, s Settings) ([]*Figures, error) {
	var f *Figures
	var err error
	switch s.Role {
	case roleAlone:
		return runProduce(ctx, r, s)
	case roleCold:
		f, err = r.cold(ctx, s, nil)
	case roleBeside:
		var beside *loadOf
		if beside, err = r.prepare(ctx, s); err != nil {
			return nil, err
		}
		if f, err = r.cold(ctx, s, beside); err != nil {
			return nil, err
		}
		f.Verified, err = r.verify(ctx, beside)
	}
	if err != nil {
		return nil, err
	}
	return []*Figures{f}, nil
}

// cold fills a topic, drops the page cache and reads the topic once, with a producer beside it if one is given.
func (r *runner) cold(ctx context.Context, s Settings, beside *loadOf) (*Figures, error) {
	file := with(saturated(), func(f *Settings) { f.Bytes = s.Bytes })
	l, err := r.prepare(ctx, file)
	if err != nil {
		return nil, err
	}
	bytes := int64(fillBytesMax)
	if s.Bytes > 0 {
		bytes = s.Bytes
	}
	ends, err := r.fill(ctx, l, bytes)
	if err != nil {
		return nil, err
	}
	r.phase = "dropping the page cache"
	if err := r.files(); err != nil {
		return nil, err
	}
	m := &measurement{runner: r, gate: new(gate), duration: s.Duration, lead: true, fetchName: "fetch"}
	r.phase = "measuring"
	var known atomic.Pointer[[]int64]
	known.Store(&ends)
	readers, err := r.readers(ctx, l, nil, &known)
	if err != nil {
		return nil, err
	}
	for _, reader := range readers {
		reader.gate, reader.roundTrips, reader.limits = m.gate, true, catchUp()
	}
	m.readers = workers(readers)
	if beside != nil {
		m.warmup = s.Warmup
		if err := r.connect(ctx, beside, m.gate); err != nil {
			return nil, err
		}
		m.producers = workers(beside.producers)
	}
	f, err := m.run(ctx)
	if err != nil {
		return nil, err
	}
	f.describe(r.part, s)
	if u := f.Broker; u != nil && u.HasIO && u.DiskReadBytes < f.Fetched.ReceivedBytes/2 {
		f.Notes = append(f.Notes, fmt.Sprintf("only %d MB of %d MB came from the disk: the fetch was not cold", u.DiskReadBytes/mb, f.Fetched.ReceivedBytes/mb))
	}
	return f, nil
}
