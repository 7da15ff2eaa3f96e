package engine

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// cleanPlan is what one compaction of a shard looks at.
type cleanPlan struct {
	shard    *Shard
	segments []*segment // sealed ones that may be compacted, from the log start on
	from     int64      // records from here on were not taken into account before
	ratio    float64    // the part of bytes that lies in segments reaching over from
	now      int64      // milliseconds
	cuts     int64      // of the shard when it was planned
	moved    bool       // it got on
}

// planClean finds out what of a shard can be compacted, and whether that is due: because enough of it is new,
// because some of it has waited for the longest time allowed, or because the time of a tombstone has come.
func (sh *Shard) planClean(now int64) (p cleanPlan, due bool) {
	config := sh.config.Load()
	if !config.Compact || sh.cleaned.damaged.Load() || sh.unusable() != nil {
		return p, false
	}
	start, below := sh.logStart.Load(), sh.highWatermark.Load()
	p = cleanPlan{shard: sh, cuts: sh.cleaned.cuts.Load(), from: max(sh.cleaned.upTo.Load(), start), now: now}
	list := sh.list.Load().segments
	clean, dirty := int64(0), int64(0)
	late := false
	for _, s := range list[:max(len(list)-1, 0)] {
		end := s.next.Load()
		if end <= start {
			continue
		}
		fresh := end > p.from
		if end > below || fresh && config.MinCompactionLag > 0 && now-s.retentionTime() < config.MinCompactionLag.Milliseconds() {
			break
		}
		p.segments = append(p.segments, s)
		if !fresh {
			clean += s.published.Load()
			continue
		}
		dirty += s.published.Load()
		late = late || now-s.begun() >= config.MaxCompactionLag.Milliseconds()
	}
	if len(p.segments) == 0 {
		return p, false
	}
	p.ratio = float64(dirty) / float64(clean+dirty)
	horizon := sh.cleaned.horizon.Load()
	return p, dirty > 0 && (late || p.ratio > config.MinDirtyRatio) || horizon != 0 && horizon <= now
}

// cleanGroup is a run of segments that become one.
type cleanGroup struct {
	segments []*segment
	next     []int64 // their bounds when they were looked at first: a truncation changes them
	bytes    int64
}

// groups divides the plan's segments that begin below end: neighbours that together are no larger than a segment
// may be become one.
func (p *cleanPlan) groups(end int64) []*cleanGroup {
	var out []*cleanGroup
	var last *cleanGroup
	most := p.shard.config.Load().SegmentBytes
	for _, s := range p.segments {
		if s.base >= end {
			break
		}
		bytes := s.published.Load()
		if last == nil || last.bytes+bytes > most {
			last = &cleanGroup{}
			out = append(out, last)
		}
		last.segments = append(last.segments, s)
		last.next = append(last.next, s.next.Load())
		last.bytes += bytes
	}
	return out
}

// end returns the offset after the group's last record.
func (g *cleanGroup) end() int64 { return g.next[len(g.next)-1] }

// noteCleaned remembers how far compaction came. It is not synced: what a power cut takes of it is done again.
func (p *cleanPlan) noteCleaned(v cleanedValue) error {
	sh := p.shard
	store := sh.store
	store.catalogue.Lock()
	defer store.catalogue.Unlock()
	if sh.deleted.Load() || sh.cleaned.cuts.Load() != p.cuts {
		return errCleanStopped
	}
	b := store.index.db.NewBatch()
	sh.setCleaned(b, v)
	if err := store.index.commit(b, false); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	sh.cleaned.upTo.Store(v.upTo)
	sh.cleaned.horizon.Store(v.horizon)
	return nil
}

// setCleaned adds to a batch how far compaction came.
func (sh *Shard) setCleaned(b *pebble.Batch, v cleanedValue) {
	b.Set(appendShardKey(nil, keyCleaned, sh.id), v.append(nil), nil)
}

// name returns the topic's name for people.
func (sh *Shard) name() string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.topicName
}
