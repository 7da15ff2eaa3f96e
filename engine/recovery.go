package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/engine/model"
)

// recover finds every shard of the data directory.
func (s *Store) recover(ctx context.Context) error {
	_, err := s.opts.IndexFS.Stat(filepath.Join(s.opts.Dir, indexDirName))
	first := errors.Is(err, fs.ErrNotExist)
	x, fresh, err := openIndexStore(&s.opts, func(err error) { s.fail(err) })
	if err != nil {
		return err
	}
	s.index = x
	catalogue, err := s.loadCatalogue()
	if err != nil {
		if catalogue, err = s.replaceIndexStore(err); err != nil {
			return err
		}
		fresh = true
	}
	s.clean = !fresh && s.index.clean()
	s.cleanMark.Store(s.clean)
	dirs, err := s.listShards()
	if err != nil {
		return err
	}
	// Where nothing was ever written that is as good as a clean stop. That there are no shards does not tell: a
	// power cut may have taken the only ones, with records that were read.
	s.clean = s.clean || first && !fresh && len(dirs) == 0
	s.indexLost = (first || fresh) && len(dirs) > 0
	for id := range catalogue {
		if _, ok := dirs[id]; !ok {
			s.missingShard(id, catalogue[id])
		}
	}
	return s.recoverShards(ctx, dirs, catalogue)
}

// replaceIndexStore sets an index store aside that opened but cannot be read.
func (s *Store) replaceIndexStore(cause error) (map[model.ShardID]*known, error) {
	s.index.close()
	dir := s.index.dir
	s.index = nil // or Open closes it again where what follows fails
	aside := fmt.Sprintf("%s.damaged-%d", dir, s.opts.Now().UnixMilli())
	s.log.Error("index store cannot be read: set aside and made again from the segments", "dir", dir,
		"aside", aside, "err", cause)
	if err := s.opts.IndexFS.Rename(dir, aside); err != nil {
		return nil, fmt.Errorf("set index store %s aside: %w", dir, err)
	}
	x, _, err := openIndexStore(&s.opts, func(err error) { s.fail(err) })
	if err != nil {
		return nil, err
	}
	s.index = x
	return s.loadCatalogue()
}

// listShards finds the shards' directories and has those removed that were dropped.
func (s *Store) listShards() (map[model.ShardID]string, error) {
	names, err := s.fs.List(s.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("list data directory %s: %w", s.opts.Dir, err)
	}
	dirs := make(map[model.ShardID]string)
	for _, name := range names {
		path := filepath.Join(s.opts.Dir, name)
		if id, ok := parseShardName(name); ok {
			dirs[id] = path
			continue
		}
		if first, _, _ := strings.Cut(name, "."); strings.HasSuffix(name, deletedSuffix) || strings.HasSuffix(name, futureSuffix) {
			if _, ok := parseShardName(first); ok {
				s.janitor.remove(path, true, 0)
			}
		}
	}
	return dirs, nil
}

// missingShard deals with a shard that is on record and has no directory. Where segments of it are on record
// it is kept out of service. Where only a log start is, nothing was appended (see ShardSpec.Record), or a power cut
// took the directory before any of it was durable: the offsets below were given out and do not come again.
func (s *Store) missingShard(id model.ShardID, k *known) {
	if len(k.segments) == 0 && k.logStart < 0 {
		return
	}
	sh := newEmptyShard(s, id, k.logStart)
	s.orphans[id] = sh
	if len(k.segments) > 0 {
		sh.setQuarantine(fmt.Errorf("directory %s is missing; `millrace inspect --repair` brings the shard back without its records", sh.dir))
	}
}

// newEmptyShard makes a shard without records whose log begins at an offset.
func newEmptyShard(s *Store, id model.ShardID, start int64) *Shard {
	sh := newShard(s, id)
	start = max(start, 0)
	sh.logStart.Store(start)
	sh.logEnd.Store(start)
	sh.highWatermark.Store(start)
	sh.next = start
	return sh
}

// recoverShards recovers all shards on as many goroutines as there are processors.
func (s *Store) recoverShards(ctx context.Context, dirs map[model.ShardID]string, catalogue map[model.ShardID]*known) error {
	s.progress.begin(s, len(dirs))
	defer s.progress.end()
	work := make(chan model.ShardID)
	var group sync.WaitGroup
	var mu sync.Mutex
	var faults []error
	for range min(runtime.GOMAXPROCS(0), max(len(dirs), 1)) {
		group.Go(func() {
			for id := range work {
				k := catalogue[id]
				if k == nil {
					k = &known{logStart: -1}
				}
				sh, err := s.recoverShard(ctx, id, k)
				mu.Lock()
				if err != nil {
					faults = append(faults, err)
				} else {
					s.orphans[id] = sh
				}
				mu.Unlock()
				s.progress.shards.Add(1)
			}
		})
	}
	for id := range dirs {
		work <- id
	}
	close(work)
	group.Wait()
	return errors.Join(faults...)
}

// progress reports on long recoveries.
type progress struct {
	store  *Store
	total  int
	start  time.Time
	shards atomic.Int64
	bytes  atomic.Int64
	stop   chan struct{}
	ended  sync.WaitGroup
}

const progressInterval = 2 * time.Second

func (p *progress) begin(s *Store, shards int) {
	p.store, p.total, p.start, p.stop = s, shards, time.Now(), make(chan struct{})
	p.ended.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-ticker.C:
				s.log.Info("recovery goes on", "shards", p.shards.Load(), "of", p.total, "scanned_bytes", p.bytes.Load())
			}
		}
	})
}

func (p *progress) scanned(bytes int64) {
	p.bytes.Add(bytes)
	p.store.metrics.RecoveredBytes.Add(bytes)
}

func (p *progress) end() {
	close(p.stop)
	p.ended.Wait()
	p.store.log.Info("shards recovered", "shards", p.total, "clean", p.store.Clean(), "scanned_bytes", p.bytes.Load(),
		"took_ms", time.Since(p.start).Milliseconds())
}
