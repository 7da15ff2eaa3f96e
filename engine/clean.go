package engine

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"millrace/perf"
)

// errCleanStopped ends a compaction that is not wanted any more: the store closes, or the shard was dropped,
// truncated, or lost the segments to retention.
var errCleanStopped = errors.New("compaction stopped")

// cleanState is how far compaction came in a shard.
type cleanState struct {
	upTo    atomic.Int64 // every record below was taken into account
	horizon atomic.Int64 // the earliest at which a tombstone below may go, milliseconds; 0: there is none
	cuts    atomic.Int64 // truncations, which may end the log below what was looked at
	damaged atomic.Bool  // it met damage: not again before the next start
}

// cleaner is the goroutine that compacts shards, one after the other, the one with the most to do first. It
// works on sealed segments only, through reads of its own, and gives way to others every few hundred
// microseconds; no lock of the hot path is held meanwhile.
type cleaner struct {
	store *Store
	stop  chan struct{}
	// upkept: the settings of Upkeep changed.
	upkept chan struct{}

	clock    clockWatch
	throttle throttle
	reader   appendReader
	output   segmentOutput
	records  []judgedRecord // of an append
	kept     []bool         // of them, which stay
	touched  int64          // see keyMap.touch
}

func newCleaner(s *Store) *cleaner {
	c := &cleaner{store: s, stop: make(chan struct{}), upkept: make(chan struct{}, 1)}
	c.throttle.perSecond, c.throttle.stop = func() int64 { return s.upkeep.Load().CleanBytesPerSecond }, c.stop
	c.reader.cleaner, c.output.cleaner = c, c
	return c
}

func (c *cleaner) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(max(c.store.upkeep.Load().CleanInterval, time.Millisecond))
		select {
		case <-c.stop:
			return
		case <-c.upkept:
		case <-timer.C:
			c.look(c.store.opts.Now(), time.Now())
		}
	}
}

// look compacts what is due. Where the clock jumped, nothing is done until it can be believed: it decides about
// tombstones.
func (c *cleaner) look(wall, mono time.Time) {
	if !c.clock.trusted(wall, mono) {
		return
	}
	now := wall.UnixMilli()
	c.rollIdle(now)
	failed := make(map[*Shard]bool)
	for c.usable() {
		plan := c.pick(now, failed)
		if plan == nil {
			return
		}
		if err := c.clean(plan); err != nil {
			failed[plan.shard] = true
			c.failed(plan.shard, err)
		} else if !plan.moved {
			failed[plan.shard] = true // nothing to gain at the moment
		}
	}
}

// usable tells whether compaction may go on.
func (c *cleaner) usable() bool { return !c.store.closing.Load() && c.store.Failed() == nil }

// rollIdle seals active segments that hold back for too long what is to be compacted, and get no appends that
// would do it.
func (c *cleaner) rollIdle(now int64) {
	for _, sh := range c.store.all() {
		config := sh.config.Load()
		if !config.Compact || sh.unusable() != nil || !c.usable() {
			continue
		}
		active := sh.list.Load().active()
		if active != nil && !active.empty() && now-active.begun() >= config.MaxCompactionLag.Milliseconds() {
			sh.rollAndWait()
		}
	}
}

// pick returns the plan of the dirtiest of the shards that are due, nil where none is.
func (c *cleaner) pick(now int64, but map[*Shard]bool) *cleanPlan {
	var best *cleanPlan
	dirtiest := 0.0
	for _, sh := range c.store.all() {
		if but[sh] {
			continue
		}
		plan, due := sh.planClean(now)
		dirtiest = max(dirtiest, plan.ratio)
		if due && (best == nil || plan.ratio > best.ratio) {
			best = &plan
		}
	}
	c.store.metrics.DirtiestPermille.Store(int64(dirtiest * 1000))
	return best
}

// failed tells of a compaction that did not succeed. Damage ends compaction of the shard: what it holds is
// served as it is.
func (c *cleaner) failed(sh *Shard, err error) {
	if errors.Is(err, errCleanStopped) || c.store.closing.Load() {
		return
	}
	c.store.metrics.CleanErrors.Add(1)
	if errors.Is(err, ErrCorrupt) {
		sh.cleaned.damaged.Store(true)
		c.store.metrics.UncleanableShards.Add(1)
	}
	c.store.log.Error("compaction failed", "shard", sh.id.String(), "topic", sh.name(), "again",
		!sh.cleaned.damaged.Load(), "err", err)
}

// clean compacts a shard as planned.
func (c *cleaner) clean(p *cleanPlan) error {
	start := time.Now()
	metrics := c.store.metrics
	read, written, removed := metrics.CleanReadBytes.Load(), metrics.CleanWrittenBytes.Load(), metrics.CleanedRecords.Load()
	defer c.rest()
	if err := c.record(p); err != nil {
		return err
	}
	keys := newKeyMap(c.store.upkeep.Load().CleanMemoryBytes)
	end := p.from
	err := perf.Aside(func() (err error) {
		end, err = c.fill(keys, p)
		return err
	})
	if err != nil {
		return err
	}
	keys.settle(p.from, end)
	metrics.CleanMapBytes.Store(keys.bytes())
	horizon := int64(0)
	for _, group := range p.groups(end) {
		earliest, err := c.cleanGroup(p, keys, group, end)
		if err != nil {
			return err
		}
		if earliest != 0 && (horizon == 0 || earliest < horizon) {
			horizon = earliest
		}
	}
	p.moved = end > p.from || horizon != p.shard.cleaned.horizon.Load()
	if err := p.noteCleaned(cleanedValue{max(end, p.from), horizon}); err != nil {
		return err
	}
	metrics.Cleanings.Add(1)
	metrics.CleanNanos.Add(int64(time.Since(start)))
	c.store.log.Info("shard compacted", "shard", p.shard.id.String(), "topic", p.shard.name(),
		"from_offset", p.from, "end_offset", end, "keys", keys.count, "records_removed", metrics.CleanedRecords.Load()-removed,
		"read_bytes", metrics.CleanReadBytes.Load()-read, "written_bytes", metrics.CleanWrittenBytes.Load()-written,
		"took_ms", time.Since(start).Milliseconds())
	return nil
}

// record makes sure that all segments of a plan are on record as sealed, and leaves out those that are not.
func (c *cleaner) record(p *cleanPlan) error {
	for range 2 {
		n := 0
		for n < len(p.segments) && p.segments[n].recorded.Load() {
			n++
		}
		if n == len(p.segments) {
			return nil
		}
		if err := c.store.keeper.checkpointSome([]*Shard{p.shard}); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: a segment is not on record yet", errCleanStopped)
}

// rest gives back what a large compaction took.
func (c *cleaner) rest() {
	c.reader.close()
	c.output.abandon()
	if cap(c.reader.buffer) > 4*cleanReadBytes {
		c.reader.buffer = nil
	}
	if cap(c.output.buffer) > 4*cleanWriteBytes {
		c.output.buffer = nil
	}
	if cap(c.records) > 1<<14 {
		c.records, c.kept = nil, nil
	}
	c.store.metrics.CleanMapBytes.Store(0)
}

// pause lets others run, and stops what is not wanted any more.
func (c *cleaner) pause(sh *Shard, bytes int) error {
	runtime.Gosched()
	if !c.usable() || sh.deleted.Load() || !sh.config.Load().Compact {
		return errCleanStopped
	}
	return c.throttle.wait(bytes)
}

// throttle keeps bytes below a rate.
type throttle struct {
	perSecond func() int64 // bytes, as it is now; 0: no bound
	stop      <-chan struct{}
	owed      float64 // bytes that were let go before their time, at
	at        time.Time
}

// throttleStep is how long a wait goes on at most before the rate is looked at again.
const throttleStep = 100 * time.Millisecond

// wait returns when so many more bytes may be read or written.
func (t *throttle) wait(bytes int) error {
	for {
		rate := float64(t.perSecond())
		if rate == 0 {
			t.owed = 0
			return nil
		}
		now := time.Now()
		t.owed, t.at = max(t.owed-rate*now.Sub(t.at).Seconds(), 0), now
		if t.owed == 0 {
			t.owed = float64(bytes)
			return nil
		}
		select {
		case <-t.stop:
			return errCleanStopped
		case <-time.After(min(time.Duration(t.owed/rate*float64(time.Second))+1, throttleStep)):
		}
	}
}
