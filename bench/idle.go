package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"millrace/bench/wire"
)

const (
	dialers     = 32 // connections are opened at the same time
	spareFiles  = 100
	settleEvery = 100 * time.Millisecond
	settleMax   = 20 // looks at the memory until it stands still
)

// runIdle is S1: what an idle connection costs, then a load over few of many connections.
func runIdle(ctx context.Context, r *runner, s Settings) ([]*Figures, error) {
	if err := enoughFiles(s.Connections + s.Idle + spareFiles); err != nil {
		return nil, &UsageError{err}
	}
	l, err := r.prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	extras, err := r.idleCost(ctx, l, s.Idle)
	if err != nil {
		return nil, err
	}
	idleCtx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	if _, err := r.openIdle(idleCtx, l, s.Connections-s.producers()); err != nil {
		return nil, err
	}
	f, err := r.produce(ctx, l)
	if err != nil {
		return nil, err
	}
	f.Part = fmt.Sprintf("%d of %d active", s.producers(), s.Connections)
	f.Extras = append(f.Extras, extras...)
	return []*Figures{f}, nil
}

func enoughFiles(need int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Cur < uint64(need) {
		return fmt.Errorf("%d connections need %d open files; the limit is %d (ulimit -n)", need-spareFiles, need, limit.Cur)
	}
	return nil
}

// idleCost opens idle connections, looks at the broker's memory, and closes them.
func (r *runner) idleCost(ctx context.Context, l *loadOf, n int) ([]Extra, error) {
	if n == 0 {
		return nil, nil
	}
	before, err := r.restingMemory(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	idleCtx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	if _, err := r.openIdle(idleCtx, l, n); err != nil {
		return nil, err
	}
	took := time.Since(began)
	after, err := r.restingMemory(ctx)
	if err != nil {
		return nil, err
	}
	extras := []Extra{{"idle connections", float64(n), ""}, {"opened in", took.Seconds(), "s"}}
	if r.process != nil {
		extras = append(extras, Extra{"memory of an idle connection", float64(after-before) / float64(n), "B"})
	}
	return extras, nil
}

// restingMemory is the broker's own memory once it stands still, 0 when its process is not known.
func (r *runner) restingMemory(ctx context.Context) (int64, error) {
	if r.process == nil {
		return 0, nil
	}
	var before int64
	for range settleMax {
		m, err := r.process.Memory()
		if err != nil {
			return 0, err
		}
		if change := m.Own - before; max(change, -change) < before/200 {
			return m.Own, nil
		}
		before = m.Own
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(settleEvery):
		}
	}
	return before, nil
}

// openIdle opens connections to the topic's leaders that say who they are and then nothing, until ctx ends.
func (r *runner) openIdle(ctx context.Context, l *loadOf, n int) ([]*wire.Conn, error) {
	r.phase = "opening connections"
	all := make([]*wire.Conn, n)
	errs := make(chan error, dialers)
	var group sync.WaitGroup
	for d := range dialers {
		group.Go(func() {
			for i := d; i < n; i += dialers {
				c, err := greet(ctx, l.topic.leaders[i%len(l.topic.leaders)])
				if err != nil {
					errs <- fmt.Errorf("connection %d of %d: %w", i+1, n, err)
					return
				}
				all[i] = c
			}
		})
	}
	group.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
		return all, nil
	}
}

// greet connects and asks for the broker's versions, as every client does first.
func greet(ctx context.Context, address string) (*wire.Conn, error) {
	c, err := wire.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := c.Write(wire.AppendApiVersions(nil)); err != nil {
		return nil, err
	}
	if _, err = c.Read(); errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		err = fmt.Errorf("%w: the broker may have reached its limit of connections or open files: raise it, or lower --idle or --connections", err)
	}
	return c, err
}
