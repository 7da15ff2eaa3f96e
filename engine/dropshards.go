package engine

import (
	"errors"
	"fmt"
	"slices"

	"millrace/engine/model"
)

// leaveTogether is how many shards leave a store with the same two syncs.
const leaveTogether = 256

// DropShards deletes shards, ensured or not: what waits in them fails, and their directories are renamed at once and
// removed after FileDeleteDelay. Readers that hold a Span keep their bytes. A shard that is not there is no error. What could
// not be deleted is an orphan after the next start. It blocks.
func (s *Store) DropShards(ids ...model.ShardID) error {
	return s.leaveStore(ids, func(*Shard) bool { return false })
}

// SetOrphansAside takes shards that were not ensured out of the store. One that has records is kept under another
// name, for whoever misses it; others are deleted. It blocks.
func (s *Store) SetOrphansAside() error {
	return s.leaveStore(s.Orphans(), func(sh *Shard) bool {
		return sh.quarantine.Load() != nil || sh.logEnd.Load() > sh.logStart.Load()
	})
}

// leaving is a shard that leaves the store.
type leaving struct {
	*Shard
	keep  bool   // its directory stays
	aside string // the directory's new name
}

// leaveStore takes shards out of the store: their entries leave the index store, and their directories are renamed, to
// be removed or, where keep says so, to stay.
func (s *Store) leaveStore(ids []model.ShardID, keep func(*Shard) bool) error {
	var errs []error
	for chunk := range slices.Chunk(ids, leaveTogether) {
		var group []leaving
		s.mu.Lock()
		for _, id := range chunk {
			for _, from := range []map[model.ShardID]*Shard{s.shards, s.orphans} {
				if sh := from[id]; sh != nil {
					delete(from, id)
					group = append(group, leaving{Shard: sh, keep: keep(sh)})
				}
			}
		}
		s.mu.Unlock()
		errs = append(errs, s.letGo(group))
	}
	return errors.Join(errs...)
}

func (s *Store) letGo(all []leaving) error {
	var group []leaving
	var shards []*Shard
	for _, sh := range all {
		sh.maintain.Lock()
		defer sh.maintain.Unlock()
		if sh.markDeleted() {
			group, shards = append(group, sh), append(shards, sh.Shard)
		}
	}
	if s.offline || len(group) == 0 {
		return nil // a directory is an orphan once it can be opened
	}
	if err := s.forgetRecords(shards...); err != nil {
		return err
	}
	var errs []error
	renamed := false
	for i := range group {
		errs = append(errs, group[i].rename())
		renamed = renamed || group[i].aside != ""
	}
	if renamed {
		if err := s.fs.SyncDir(s.opts.Dir); err != nil {
			return s.fail(err)
		}
	}
	for i := range group {
		group[i].remove()
	}
	return errors.Join(errs...)
}

// markDeleted fails what waits. It returns false where the shard was dropped before.
func (sh *Shard) markDeleted() bool {
	if err := sh.enter(); err != nil {
		return false
	}
	sh.mu.Lock()
	sh.deleted.Store(true)
	sh.mu.Unlock()
	sh.leave()
	sh.notify()
	if sh.store.offline {
		return true
	}
	if sh.quarantine.Swap(nil) != nil {
		sh.store.metrics.QuarantinedShards.Add(-1)
	}
	if sh.cleaned.damaged.Swap(false) {
		sh.store.metrics.UncleanableShards.Add(-1)
	}
	return true
}

func (l *leaving) rename() error {
	if !l.dirMade.Load() {
		return nil
	}
	suffix := deletedSuffix
	if l.keep {
		suffix = orphanSuffix
	}
	aside := fmt.Sprintf("%s.%d%s", l.dir, l.store.nowMillis(), suffix)
	if err := l.store.fs.Rename(l.dir, aside); err != nil {
		return fmt.Errorf("drop shard %s: %w: %w", l.id, ErrStorage, err)
	}
	l.aside = aside
	return nil
}

// remove follows a rename that is durable.
func (l *leaving) remove() {
	if l.aside == "" {
		return
	}
	if l.keep {
		l.store.log.Warn("shard of a topic that does not exist is set aside: remove it when nothing of it is missed",
			"shard", l.id.String(), "topic", l.topicName, "dir", l.aside)
		return
	}
	l.store.log.Info("shard dropped", "shard", l.id.String(), "topic", l.topicName)
	l.store.janitor.remove(l.aside, true, l.config.Load().FileDeleteDelay)
}

// forgetRecords takes deleted shards off the index store, durably, and closes their files.
func (s *Store) forgetRecords(shards ...*Shard) error {
	ids := make([]model.ShardID, len(shards))
	s.catalogue.Lock()
	for i, sh := range shards {
		ids[i] = sh.id
		sh.checkpoint.version.Add(1)
	}
	err := s.index.dropShards(ids...)
	s.catalogue.Unlock()
	if err != nil {
		return fmt.Errorf("drop %d shards, %s the first: %w: %w", len(shards), ids[0], ErrStorage, err)
	}
	for _, sh := range shards {
		list := sh.list.Load()
		for _, seg := range append(list.segments, sh.active) {
			if seg != nil && !seg.removed.Swap(true) {
				sh.cursors.forget(seg)
				s.handles.forget(seg)
			}
		}
		sh.mu.Lock()
		sh.unsynced = nil
		sh.mu.Unlock()
	}
	return nil
}
