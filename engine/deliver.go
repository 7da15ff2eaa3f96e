package engine

// deliverer collects what finished and tells each loop's Sink once a batch. A writer and the syncer have
// one each.
type deliverer struct {
	store *Store
	loops []loopBatch
}

type loopBatch struct {
	head, tail *Append
	advanced   []*Shard
}

// done hands an append to its loop.
func (d *deliverer) done(a *Append) {
	b := d.loop(a.Loop)
	a.Next = nil
	if b.tail == nil {
		b.head = a
	} else {
		b.tail.Next = a
	}
	b.tail = a
}

func (d *deliverer) loop(i int) *loopBatch {
	for i >= len(d.loops) {
		d.loops = append(d.loops, loopBatch{})
	}
	return &d.loops[i]
}

// advanced notes that a shard's watermarks moved.
func (d *deliverer) advanced(sh *Shard) {
	mask := sh.watchers.Load()
	if mask == 0 {
		return
	}
	for i := range d.store.sinkList() {
		if mask&(1<<(uint(i)&63)) == 0 {
			continue
		}
		if b := d.loop(i); len(b.advanced) == 0 || b.advanced[len(b.advanced)-1] != sh {
			b.advanced = append(b.advanced, sh)
		}
	}
}

// flush tells the sinks.
func (d *deliverer) flush() {
	sinks := d.store.sinkList()
	for i := range d.loops {
		b := &d.loops[i]
		if b.head == nil && len(b.advanced) == 0 {
			continue
		}
		head := b.head
		b.head, b.tail = nil, nil
		if i < len(sinks) && sinks[i] != nil {
			sinks[i].Complete(head, b.advanced)
		}
		clear(b.advanced)
		b.advanced = b.advanced[:0]
	}
}

// publish makes the written entries of a chunk visible, acknowledges them and gives the chunk back.
func (d *deliverer) publish(c *chunk) {
	sh := c.shard
	metrics := d.store.metrics
	records, bytes, appends := int64(0), int64(0), int64(0)
	for i := range c.parts {
		p := &c.parts[i]
		for j := p.from; j < p.to; j++ {
			e := &c.entries[j]
			if e.length != 0 {
				p.segment.indexAppend(e, c.bytesOf(e), p.position)
				p.position += int64(e.length)
				records += int64(e.records)
				bytes += int64(e.length)
				appends++
			}
		}
	}
	sh.publishParts(c)
	for i := range c.entries[:c.good] {
		a := c.entries[i].append
		a.LogStartOffset, a.LeaderEpoch = sh.logStart.Load(), sh.leaderEpoch.Load()
		d.done(a)
	}
	if appends > 0 {
		d.advanced(sh)
		metrics.Appends.Add(appends)
		metrics.Records.Add(records)
		metrics.AppendBytes.Add(bytes)
		metrics.GatheredBytes.Add(-bytes)
		sh.noteCheckpoint(bytes)
	}
	d.store.chunks.put(c)
}

// publishParts moves the watermarks over a chunk's written entries.
func (sh *Shard) publishParts(c *chunk) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	logEnd := sh.logEnd.Load()
	for i := range c.parts {
		p := &c.parts[i]
		s := p.segment
		sh.enlist(s)
		logEnd = c.nextAfter(p)
		s.published.Store(p.end)
		s.next.Store(logEnd)
	}
	sh.logEnd.Store(logEnd)
	// On one node the high watermark follows the log end.
	sh.highWatermark.Store(logEnd)
	sh.finishLocked(c)
}

// enlist puts a new segment at the end of the log; the one before is sealed by that.
func (sh *Shard) enlist(s *segment) {
	list := sh.list.Load()
	last := list.active()
	if last == s {
		return
	}
	s.previous = nil // or the chain would keep every segment
	sh.list.Store(list.with(s))
	if last != nil {
		last.sealed.Store(true)
		sh.store.janitor.sealed(last)
	}
}

// fail reverts and answers the entries of a chunk from index from on, and what gathered behind them.
func (d *deliverer) fail(c *chunk, from int, err error) {
	sh := c.shard
	sh.mu.Lock()
	behind := sh.gather
	sh.gather = nil
	if behind != nil {
		sh.revertLocked(behind, 0)
	}
	sh.revertLocked(c, from)
	// Cut under the lock: a checkpoint must not take the reverted appends for ones that are under way.
	refused := c.entries[from:]
	c.entries = c.entries[:from]
	sh.epochs = sh.epochs.truncateEnd(sh.next)
	if from == 0 {
		sh.finishLocked(c)
	}
	sh.signalLocked()
	sh.mu.Unlock()
	d.refuse(sh, refused, err)
	if from == 0 {
		d.store.chunks.put(c)
	}
	if behind != nil {
		d.refuse(sh, behind.entries, err)
		d.store.chunks.put(behind)
	}
}

func (d *deliverer) refuse(sh *Shard, entries []entry, err error) {
	bytes := int64(0)
	for i := range entries {
		e := &entries[i]
		bytes += int64(e.length)
		a := e.append
		a.Err, a.BaseOffset, a.LastOffset, a.MaxTimestamp = err, -1, -1, -1
		a.LogStartOffset, a.LeaderEpoch = sh.logStart.Load(), sh.leaderEpoch.Load()
		d.done(a)
	}
	d.store.metrics.AppendErrors.Add(int64(len(entries)))
	d.store.metrics.GatheredBytes.Add(-bytes)
	clear(entries)
}
