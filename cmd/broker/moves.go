package broker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"millrace/engine"
	"millrace/engine/model"
)

// moves carries out moves of shards between directories, one after the other. The zero value takes none; begin starts
// it. What is asked is kept in memory: a stop ends all moves, and the shards are where they were.
type moves struct {
	mu    sync.Mutex
	due   []*move
	of    map[model.ShardID]*move // asked and not done
	rate  atomic.Int64            // bytes a second, 0: any number
	wake  chan struct{}
	stop  context.CancelFunc
	ended sync.WaitGroup
}

type move struct {
	shard    *engine.Shard
	to       *engine.Store
	progress engine.MoveProgress
	ctx      context.Context
	cancel   context.CancelFunc
}

func (m *moves) begin(log *slog.Logger) {
	ctx, stop := context.WithCancel(context.Background())
	m.of, m.wake, m.stop = make(map[model.ShardID]*move), make(chan struct{}, 1), stop
	m.ended.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-m.wake:
			}
			for next := m.next(); next != nil && ctx.Err() == nil; next = m.next() {
				m.carryOut(ctx, next, log)
			}
		}
	})
}

// end ends what is under way and waits for it.
func (m *moves) end() {
	if m.stop != nil {
		m.stop()
		m.ended.Wait()
	}
}

func (m *moves) next() *move {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.due) == 0 {
		return nil
	}
	next := m.due[0]
	m.due = m.due[1:]
	return next
}

func (m *moves) carryOut(ctx context.Context, next *move, log *slog.Logger) {
	defer context.AfterFunc(ctx, next.cancel)()
	fields := []any{"shard", next.shard.ID().String(), "from", next.shard.Store().Dir(), "to", next.to.Dir()}
	var err error
	if next.ctx.Err() == nil {
		log.Info("shard is being moved", append(fields, "bytes", next.shard.Size())...)
		err = next.shard.Move(next.ctx, next.to, m.rate.Load, &next.progress)
		switch {
		case err == nil:
			log.Info("shard moved", append(fields, "bytes", next.progress.Bytes.Load())...)
		case next.ctx.Err() != nil || errors.Is(err, engine.ErrShardDeleted):
			log.Info("move of a shard ended: it was taken back, or the shard was deleted", fields...)
		default:
			log.Error("shard not moved", append(fields, "err", err)...)
		}
	}
	next.cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[next.shard.ID()] == next {
		delete(m.of, next.shard.ID())
	}
}

// Move asks that a shard goes to another store. It does not block.
func (d *directories) Move(sh *engine.Shard, to *engine.Store) {
	m := &d.moves
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.of[sh.ID()]
	if before != nil && before.to == to && before.shard == sh {
		return
	}
	if before != nil {
		before.cancel()
		delete(m.of, sh.ID())
		m.due = slices.DeleteFunc(m.due, func(o *move) bool { return o == before })
	}
	if sh.Store() == to {
		return
	}
	next := &move{shard: sh, to: to}
	next.ctx, next.cancel = context.WithCancel(context.Background())
	m.of[sh.ID()] = next
	m.due = append(m.due, next)
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Moving returns where a shard is moved to and how far that came, nil where it is not.
func (d *directories) Moving(id model.ShardID) (*engine.Store, *engine.MoveProgress) {
	d.moves.mu.Lock()
	defer d.moves.mu.Unlock()
	if next := d.moves.of[id]; next != nil {
		return next.to, &next.progress
	}
	return nil, nil
}
