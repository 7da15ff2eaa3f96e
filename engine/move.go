package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"millrace/diskio"
	"millrace/engine/model"
)

const (
	// futureSuffix marks the directory of a shard that is being copied. The next start removes it.
	futureSuffix   = ".future"
	moveChunkBytes = 1 << 20
	// moveRestBytes is how much may be left to copy when appends are kept out for the rest.
	moveRestBytes = 4 << 20
)

// MoveProgress is how far a move came. It may be read at any time.
type MoveProgress struct {
	Bytes atomic.Int64 // copied
	Next  atomic.Int64 // offset after the last record copied
}

// Move copies the shard into another store, catches up, and gives it up here when it is there in full. Readers and
// writers go on; for the last few megabytes appends are answered ErrBackpressure, and from then on, as after a drop,
// ErrShardDeleted: who asks for the shard again finds it there. A crash leaves it whole in one store or in both, see
// SettleMoves. It ends early with ErrShardDeleted when the shard is dropped, and with ctx. rate, which may be nil, says how
// many bytes may be copied in a second, 0 for any number; it does not hold while producers wait. It blocks.
func (sh *Shard) Move(ctx context.Context, to *Store, rate func() int64, progress *MoveProgress) error {
	m := shardMove{ctx: ctx, from: sh, to: to, dir: filepath.Join(to.opts.Dir, sh.id.String()+futureSuffix),
		copied: make(map[string]int64), progress: progress, rate: rate, throttle: throttle{perSecond: rate, stop: ctx.Done()}}
	err := m.run()
	if err != nil && !m.done {
		left := to.fs.RemoveAll(m.dir)
		if m.named {
			left = errors.Join(left, to.fs.RemoveAll(filepath.Join(to.opts.Dir, sh.id.String())))
		}
		if left != nil {
			to.log.Warn("copy of a shard stays until the next start", "dir", m.dir, "err", left)
		}
		return fmt.Errorf("move shard %s to %s: %w", sh.id, to.opts.Dir, err)
	}
	return err
}

// shardMove is one move under way.
type shardMove struct {
	ctx      context.Context
	from     *Shard
	to       *Store
	dir      string
	copied   map[string]int64 // bytes by file name
	buffer   []byte
	progress *MoveProgress
	rate     func() int64 // nil: none
	throttle throttle
	named    bool // the copy's directory has its name
	done     bool // the shard is in the other store
}

func (m *shardMove) run() error {
	if err := errors.Join(m.from.unusable(), m.to.refusal()); err != nil {
		return err
	}
	free, err := m.to.fs.Free(m.to.opts.Dir)
	if err != nil {
		return err
	}
	if size := m.from.Size(); free-size < m.to.opts.ReserveBytes {
		return fmt.Errorf("%w: %d bytes free, %d to be copied", ErrStorage, free, size)
	}
	if err := errors.Join(m.to.fs.RemoveAll(m.dir), m.to.fs.MkdirAll(m.dir), m.to.markUnclean(), m.from.store.markUnclean()); err != nil {
		return err
	}
	m.buffer = make([]byte, moveChunkBytes)
	for {
		n, err := m.catchUp()
		if err != nil {
			return err
		}
		if n <= moveRestBytes {
			return m.swap()
		}
	}
}

// catchUp copies what was published since the last time and makes it durable.
func (m *shardMove) catchUp() (bytes int64, err error) {
	for _, s := range m.from.list.Load().segments {
		next, upTo := s.next.Load(), s.published.Load()
		name := filepath.Base(s.path)
		at, begun := m.copied[name]
		if at > upTo {
			return 0, fmt.Errorf("segment %s was cut while it was copied", s.path)
		}
		if at == upTo {
			continue
		}
		err := m.copySegment(s, filepath.Join(m.dir, name), at, upTo, begun)
		if s.removed.Load() && errors.Is(err, ErrOffsetOutOfRange) {
			continue // it left the log meanwhile
		}
		if err != nil {
			return 0, err
		}
		m.copied[name] = upTo
		m.progress.Next.Store(next)
		bytes += upTo - at
	}
	return bytes, nil
}

func (m *shardMove) copySegment(s *segment, path string, at, upTo int64, begun bool) error {
	h, err := m.from.store.handles.openSegment(s)
	if err != nil {
		return err
	}
	defer h.release()
	var out diskio.File
	if begun {
		out, err = m.to.fs.Open(path)
	} else {
		out, err = m.to.fs.Create(path)
	}
	if err != nil {
		return err
	}
	defer out.Close()
	for at < upTo {
		if m.ctx.Err() != nil {
			return m.ctx.Err()
		}
		if m.from.deleted.Load() {
			return ErrShardDeleted
		}
		chunk, err := m.pace(min(upTo-at, moveChunkBytes))
		if err != nil {
			return err
		}
		b := m.buffer[:chunk]
		if _, err := h.file.ReadAt(b, at); err != nil {
			return fmt.Errorf("read segment %s: %w: %w", s.path, ErrStorage, err)
		}
		if _, err := out.WriteAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
		m.progress.Bytes.Add(int64(len(b)))
	}
	return out.Sync()
}

// pace waits until more bytes may be copied and returns how many, at most so many.
func (m *shardMove) pace(most int64) (bytes int64, err error) {
	if m.rate == nil || m.rate() == 0 {
		return most, nil
	}
	bytes = min(most, max(m.rate()/10, 4<<10)) // little, so that it is looked at again soon
	if m.throttle.wait(int(bytes)) != nil {
		return 0, m.ctx.Err() // which alone stops it
	}
	return bytes, nil
}

// swap keeps appends out, copies the rest, and lets the other store take over.
func (m *shardMove) swap() error {
	sh, store := m.from, m.from.store
	m.rate = nil
	sh.maintain.Lock()
	defer sh.maintain.Unlock()
	if err := sh.enter(); err != nil {
		return err
	}
	defer sh.leave()
	if _, err := m.catchUp(); err != nil {
		return err
	}
	if err := m.dropGone(); err != nil {
		return err
	}
	// What is on record here says everything of the files there.
	store.indexer.flush()
	if err := store.keeper.checkpointAll([]*Shard{sh}); err != nil {
		return err
	}
	made := sh.dirMade.Load()
	if made {
		if err := replaceFile(m.to.fs, filepath.Join(m.dir, shardFileName), sh.fileContent(sh.logStart.Load()), true); err != nil {
			return err
		}
	}
	known, err := m.copyRecords()
	if err != nil {
		return errors.Join(err, m.to.index.dropShards(sh.id))
	}
	moved, err := m.adopt(known, made)
	if err != nil {
		return errors.Join(err, m.to.index.dropShards(sh.id))
	}
	m.done = true
	m.to.mu.Lock()
	m.to.shards[sh.id] = moved
	m.to.mu.Unlock()
	store.mu.Lock()
	delete(store.shards, sh.id)
	store.mu.Unlock()
	return sh.leaveMoved()
}

// dropGone removes copies of segments that left the log.
func (m *shardMove) dropGone() error {
	kept := make(map[string]bool)
	for _, s := range m.from.list.Load().segments {
		kept[filepath.Base(s.path)] = true
	}
	for name := range m.copied {
		if !kept[name] {
			if err := m.to.fs.Remove(filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// copyRecords copies what the index store has of the shard, durably, and returns it.
func (m *shardMove) copyRecords() (*known, error) {
	id, from, to := m.from.id, m.from.store.index, m.to.index
	k := &known{logStart: -1}
	b := to.db.NewBatch()
	for _, kind := range []byte(shardKinds) {
		err := from.scan(appendShardKey(nil, kind, id), shardKeyEnd(kind, id), func(key, value []byte) error {
			if b.Len() > moveChunkBytes {
				full := b
				b = to.db.NewBatch()
				if err := to.commit(full, false); err != nil {
					return err
				}
			}
			if err := b.Set(key, value, nil); err != nil {
				return err
			}
			_, rest, _ := parseShardKey(key)
			return k.take(kind, append([]byte(nil), rest...), append([]byte(nil), value...))
		})
		if err != nil {
			b.Close()
			return nil, err
		}
	}
	setLogStart(b, id, m.from.logStart.Load())
	k.logStart = m.from.logStart.Load()
	return k, to.commit(b, true)
}

// adopt gives the copy its name and makes a shard of it.
func (m *shardMove) adopt(k *known, made bool) (*Shard, error) {
	sh := m.from
	moved := newEmptyShard(m.to, sh.id, k.logStart)
	if made {
		dir := filepath.Join(m.to.opts.Dir, sh.id.String())
		if err := m.to.fs.Rename(m.dir, dir); err != nil {
			return nil, err
		}
		m.named = true
		if err := m.to.fs.SyncDir(m.to.opts.Dir); err != nil {
			return nil, err
		}
		var err error
		if moved, err = m.to.recoverShard(context.WithoutCancel(m.ctx), sh.id, k); err != nil {
			return nil, err
		}
		if err := moved.unusable(); err != nil {
			return nil, err
		}
	} else if err := m.to.fs.RemoveAll(m.dir); err != nil {
		return nil, err
	}
	if end := moved.logEnd.Load(); end != sh.logEnd.Load() {
		return nil, fmt.Errorf("%w: the copy ends at offset %d, not %d", ErrCorrupt, end, sh.logEnd.Load())
	}
	moved.SetConfig(sh.Config())
	moved.topicName = sh.topicName
	moved.SetLeaderEpoch(sh.leaderEpoch.Load())
	return moved, nil
}

// leaveMoved takes the shard out of the store that it was moved from. Its directory goes first: as long as it is there
// the log is whole in both.
func (sh *Shard) leaveMoved() error {
	sh.mu.Lock()
	sh.deleted.Store(true)
	sh.mu.Unlock()
	sh.notify()
	store := sh.store
	aside := fmt.Sprintf("%s.%d%s", sh.dir, store.nowMillis(), deletedSuffix)
	if sh.dirMade.Load() {
		if err := errors.Join(store.fs.Rename(sh.dir, aside), store.fs.SyncDir(store.opts.Dir)); err != nil {
			return fmt.Errorf("shard %s was moved, and its old directory %s stays until the next start: %w", sh.id, sh.dir, err)
		}
		store.janitor.remove(aside, true, sh.config.Load().FileDeleteDelay)
	}
	return store.forgetRecords(sh)
}

// SettleMoves drops, of shards that a crash left in two stores, the copy that took no more appends: one that is not
// whole, or the one that ends first. It is called when the stores were opened and before shards are ensured. It blocks.
func SettleMoves(stores []*Store) error {
	best := make(map[model.ShardID]*Shard)
	for _, s := range stores {
		for _, id := range s.Orphans() {
			s.mu.RLock()
			keep, lose := s.orphans[id], best[id]
			s.mu.RUnlock()
			if lose != nil && (keep.State().Quarantined || !lose.State().Quarantined && lose.logEnd.Load() > keep.logEnd.Load()) {
				keep, lose = lose, keep
			}
			best[id] = keep
			if lose == nil {
				continue
			}
			s.log.Info("shard is in two directories after a move that did not end: one is dropped", "shard", id.String(),
				"kept", keep.dir, "dropped", lose.dir)
			if err := lose.store.DropShards(id); err != nil {
				return err
			}
		}
	}
	return nil
}
