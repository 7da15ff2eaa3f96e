package engine

import (
	"millrace/engine/model"
	"millrace/perf"
)

// cleanPass is the compaction of one group of segments: which records stay, and what is written.
type cleanPass struct {
	*cleaner
	plan  *cleanPlan
	keys  *keyMap
	group *cleanGroup
	end   int64 // records from here on are not judged
	// earliest is the earliest delete horizon of what stays, 0 where there is none.
	earliest int64
	removed  int64
	writing  bool // something changed: the output is open and has everything before
}

// cleanGroup compacts a group of segments: it writes what stays beside them and puts that into their place. A
// single segment of which everything stays as it is costs no write.
func (c *cleaner) cleanGroup(p *cleanPlan, keys *keyMap, group *cleanGroup, end int64) (earliest int64, err error) {
	pass := &cleanPass{cleaner: c, plan: p, keys: keys, group: group, end: end}
	defer c.output.abandon()
	if err := perf.Aside(pass.run); err != nil {
		return 0, err
	}
	if pass.writing {
		if err := c.replace(pass); err != nil {
			return 0, err
		}
		c.store.metrics.CleanedRecords.Add(pass.removed)
	}
	return pass.earliest, nil
}

// run reads the group and writes what stays.
func (p *cleanPass) run() error {
	group := p.group
	if len(group.segments) > 1 {
		if err := p.begin(); err != nil {
			return err
		}
	}
	final := len(group.segments) - 1
	for final > 0 && group.segments[final].empty() {
		final--
	}
	for i, s := range group.segments {
		if err := p.reader.open(s); err != nil {
			return err
		}
		for p.reader.more() {
			position := p.reader.position
			var h model.AppendHeader
			b, err := p.reader.read(&h)
			if err == nil {
				last := i == final && !p.reader.more()
				err = p.append(&h, b, position, last)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// begin opens the output.
func (p *cleanPass) begin() error {
	p.writing = true
	return p.output.open(p.plan.shard, p.group)
}

// change is called before the first append that does not stay as it is, with its position in the segment.
func (p *cleanPass) change(position int64) error {
	if p.writing {
		return nil
	}
	if err := p.begin(); err != nil {
		return err
	}
	return p.output.copyPrefix(p.group.segments[0], position)
}

// verdict is what becomes of an append's records.
type verdict struct {
	kept       int
	tombstones bool  // of what stays and was looked at
	latest     int64 // largest timestamp delta of what stays
}

// append copies, changes or drops an append, whose bytes are b. The last of a group stays in any case, so that
// the segment's end is known from its bytes.
func (p *cleanPass) append(h *model.AppendHeader, b []byte, position int64, last bool) error {
	switch h.Kind {
	case model.KindData:
	case model.KindEmpty:
		if last || p.plan.shard.isLastOfProducer(h) {
			return p.copy(h, b)
		}
		return p.change(position)
	default:
		return p.copy(h, b) // no marker is taken away while nothing tells that its transaction is
	}
	v, err := p.judge(h, b)
	if err != nil {
		return err
	}
	horizon := h.DeleteHorizon
	if h.Flags&model.FlagDeleteHorizon == 0 {
		horizon = 0
	}
	if v.tombstones && horizon == 0 {
		horizon = max(p.plan.now+p.plan.shard.config.Load().DeleteRetention.Milliseconds(), 1)
	} else if !v.tombstones {
		horizon = 0
	}
	if horizon != 0 && (p.earliest == 0 || horizon < p.earliest) {
		p.earliest = horizon
	}
	p.removed += int64(h.RecordCount) - int64(v.kept)
	same := horizon == h.DeleteHorizon && (horizon != 0) == (h.Flags&model.FlagDeleteHorizon != 0)
	if v.kept == int(h.RecordCount) && same {
		return p.copy(h, b)
	}
	if err := p.change(position); err != nil {
		return err
	}
	changed := *h
	changed.DeleteHorizon, changed.Flags = horizon, h.Flags&^model.FlagDeleteHorizon
	if horizon != 0 {
		changed.Flags |= model.FlagDeleteHorizon
	}
	switch {
	case v.kept == int(h.RecordCount):
		return p.output.addHeader(&changed, b)
	case v.kept > 0:
		return p.output.addKept(&changed, b, p.kept, v.latest)
	case last || p.plan.shard.isLastOfProducer(h):
		return p.output.addEmpty(&changed)
	}
	return nil
}

// copy takes an append over as it is.
func (p *cleanPass) copy(h *model.AppendHeader, b []byte) error {
	if !p.writing {
		return nil
	}
	return p.output.add(h, b)
}

// judge decides about each record of an append, in p.kept: it stays if it is the last of its key and no
// tombstone whose time is over (KIP-58, KIP-534).
func (p *cleanPass) judge(h *model.AppendHeader, b []byte) (v verdict, err error) {
	if err := p.parse(p.keys, h, b, 0, p.keys.settled); err != nil {
		return v, err
	}
	p.kept = p.kept[:0]
	v.latest = noTimestamp
	expired := h.Flags&model.FlagDeleteHorizon != 0 && h.DeleteHorizon <= p.plan.now
	for left := p.records; len(left) > 0; {
		batch := left[:min(judgeBatch, len(left))]
		left = left[len(batch):]
		if batch[0].offset < p.keys.settled {
			p.touched += p.keys.touch(batch)
		}
		for i := range batch {
			r := &batch[i]
			stays := true
			if r.offset < p.end {
				if r.offset < p.keys.settled {
					stays = r.keyed && p.keys.get(r.hash) <= r.offset
				} else {
					stays = !r.replaced
				}
				stays = stays && !(r.tombstone && expired)
				v.tombstones = v.tombstones || stays && r.tombstone
			}
			if stays {
				v.kept++
				v.latest = max(v.latest, r.timestampDelta)
			}
			p.kept = append(p.kept, stays)
		}
	}
	return v, nil
}

// isLastOfProducer tells whether an append is the last of a producer that the shard remembers: it stays, without
// records if need be, so that its repetition is known again.
func (sh *Shard) isLastOfProducer(h *model.AppendHeader) bool {
	if h.ProducerID < 0 {
		return false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	p := sh.producers.byID[h.ProducerID]
	if p == nil || p.epoch != h.ProducerEpoch || len(p.batches) == 0 {
		return false
	}
	b := &p.batches[len(p.batches)-1]
	return b.lastSequence == h.LastSequence && b.lastOffset == h.LastOffset
}
