package engine

import (
	"errors"
	"sync"
	"time"

	"millrace/diskio"
)

const indexFlushInterval = time.Second

// indexer is the goroutine that carries index entries to the index store, in batches and without sync: they
// can be made again from the segments at any time.
type indexer struct {
	store *Store
	stop  chan struct{}

	mu    sync.Mutex
	queue []*segment

	round   sync.Mutex // one flush at a time
	entries []indexEntry
	key     []byte
	value   []byte
}

func newIndexer(s *Store) *indexer { return &indexer{store: s, stop: make(chan struct{})} }

// enqueue takes note of a segment with new entries.
func (x *indexer) enqueue(s *segment) {
	x.mu.Lock()
	x.queue = append(x.queue, s)
	x.mu.Unlock()
}

func (x *indexer) run() {
	ticker := time.NewTicker(indexFlushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-x.stop:
			return
		case <-ticker.C:
			x.flush()
		}
	}
}

// flush writes all entries that are not in the index store yet.
func (x *indexer) flush() {
	x.round.Lock()
	defer x.round.Unlock()
	x.mu.Lock()
	queue := x.queue
	x.queue = nil
	x.mu.Unlock()
	if len(queue) == 0 || x.store.index.failure.Load() != nil {
		return
	}
	// What a truncation or deletion removes must not be put back by a flush that began before.
	x.store.catalogue.Lock()
	defer x.store.catalogue.Unlock()
	b := x.store.index.db.NewBatch()
	count := 0
	for _, s := range queue {
		x.entries = s.index.unflushed(x.entries[:0])
		if s.removed.Load() || s.shard.deleted.Load() {
			continue
		}
		for i := range x.entries {
			e := &x.entries[i]
			x.key = appendIndexKey(x.key[:0], s.shard.id, s.number, s.generation, e.offset)
			x.value = appendIndexValue(x.value[:0], e)
			b.Set(x.key, x.value, nil)
		}
		count += len(x.entries)
	}
	if err := x.store.index.commit(b, false); err != nil {
		x.store.log.Warn("index flush failed", "err", err)
		return
	}
	x.store.metrics.IndexFlushes.Add(1)
	x.store.metrics.IndexEntries.Add(int64(count))
}

// loadIndex brings a segment's index into memory: from the index store, or, where nothing is there, by a
// scan. It blocks.
func (sh *Shard) loadIndex(s *segment) error {
	if s.index.complete() {
		return nil
	}
	entries, err := sh.store.index.segmentIndex(s)
	if err != nil {
		sh.store.log.Warn("index entries cannot be read", "segment", s.path, "err", err)
		return sh.rebuildIndex(s)
	}
	if len(entries) == 0 && s.published.Load() > segmentHeaderSize+walkMax {
		return sh.rebuildIndex(s)
	}
	s.index.loaded(entries, true)
	return nil
}

// rebuildIndex makes a segment's index again from its appends' headers. It blocks for as long as reading the
// segment takes. Behind an append header that is damaged only what the index store knows is kept.
func (sh *Shard) rebuildIndex(s *segment) error {
	h, err := sh.store.handles.openSegment(s)
	if err != nil {
		return err
	}
	defer h.release()
	limit := s.published.Load()
	mapping, err := h.mapTo(limit)
	if err != nil {
		return err
	}
	stored, _ := sh.store.index.segmentIndex(s)
	scan := headerScan{segment: s, mapping: mapping, limit: limit}
	scan.index.reset(true)
	for pos := int64(segmentHeaderSize); ; {
		scan.position = pos
		scanErr := diskio.Guard(&scan)
		if scanErr == nil {
			break
		}
		sh.store.log.Error("segment is damaged", "segment", s.path, "position", scan.position, "err", scanErr)
		// Go on where the index store has the next entry.
		pos = 0
		for _, e := range stored {
			if e.position > scan.position && !e.block {
				pos = e.position
				break
			}
		}
		if pos == 0 {
			break
		}
	}
	s.index.replace(&scan.index, limit, s.written.Load())
	sh.store.metrics.IndexRebuilds.Add(1)
	sh.store.log.Info("segment index made again", "segment", s.path, "entries", len(scan.index.entries))
	sh.store.indexer.enqueue(s)
	return nil
}

// repairAndRead makes the index of the segment again that holds the offset, and reads once more.
func (sh *Shard) repairAndRead(sp *Span, offset, upTo int64, maxBytes int, cause error) error {
	list := sh.list.Load()
	i := list.find(offset)
	if i == len(list.segments) {
		return cause
	}
	s := list.segments[i]
	sh.store.log.Warn("segment index is wrong", "segment", s.path, "offset", offset, "err", cause)
	if err := sh.rebuildIndex(s); err != nil && !errors.Is(err, ErrOffsetOutOfRange) {
		return err // out of range: it was replaced
	}
	sh.cursors.forget(s)
	return sh.read(sp, offset, upTo, maxBytes, true)
}
