package engine

import "millrace/engine/model"

// OpenOffline returns a store in the place of a data directory that cannot be opened. It has no files and runs
// nothing: shards that are ensured answer ErrStorage with the cause, and so does everything else.
func OpenOffline(o Options, cause error) *Store {
	o.EnsureDefaults()
	s := newStore(o, nil)
	s.offline, s.clean = true, true // what is on the disk says itself, once it can be opened
	s.fail(cause)
	return s
}

// Offline tells whether the directory could not be opened.
func (s *Store) Offline() bool { return s.offline }

// Dir returns the data directory.
func (s *Store) Dir() string { return s.opts.Dir }

// Free returns the bytes that can still be written to the directory's file system.
func (s *Store) Free() (int64, error) {
	if err := s.Failed(); err != nil {
		return 0, err
	}
	return s.fs.Free(s.opts.Dir)
}

// Holds tells whether the shard is on record here, ensured or not.
func (s *Store) Holds(id model.ShardID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.shards[id] != nil || s.orphans[id] != nil
}

// Store returns the store that the shard is in.
func (sh *Shard) Store() *Store { return sh.store }

// Unwritten counts the ensured shards that have no segment yet.
func (s *Store) Unwritten() (n int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, sh := range s.shards {
		if len(sh.list.Load().segments) == 0 {
			n++
		}
	}
	return n
}

// SyncRecords makes what ShardSpec.Record asked for durable. It blocks.
func (s *Store) SyncRecords() error {
	if s.offline {
		return nil
	}
	b := s.index.db.NewBatch()
	b.LogData(nil, nil)
	return s.index.commit(b, true)
}
