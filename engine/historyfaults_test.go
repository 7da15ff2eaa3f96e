package engine

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

	"millrace/diskio/disktest"
	"millrace/engine/model"
)

// publish notes what can be read at an offset of an epoch, for good.
func (h *history) publish(i int, epoch int32, offset int64, value []byte) {
	m, at := h.shards[i], epochOffset{epoch, offset}
	if old := m.epochs[at]; old != nil && !bytes.Equal(old, value) {
		h.t.Errorf("shard %d offset %d of epoch %d was %x and is %x", i, offset, epoch, head(old), head(value))
	}
	m.epochs[at] = value
}

// recreate drops a shard and begins another, as a topic does that is deleted and made again.
func (h *history) recreate(i int) {
	old := h.shards[i]
	h.shard(i)
	err := h.store.DropShards(old.id)
	h.note("drop shard %d: %v", i, err)
	if err != nil && !h.disk.IsCut() {
		h.t.Errorf("drop: %v", err)
	}
	h.shards[i] = h.newModel(i)
	h.next[i], h.epochs[i] = [4]int32{}, [4]int16{}
}

// removeOrphans removes shards whose drop a power cut undid, as a broker does.
func (h *history) removeOrphans() {
	known := map[model.ShardID]bool{}
	for _, m := range h.shards {
		known[m.id] = true
	}
	for _, id := range h.store.Orphans() {
		if known[id] {
			continue
		}
		if err := h.store.DropShards(id); err != nil && !h.disk.IsCut() {
			h.t.Errorf("remove orphan: %v", err)
		}
	}
}

// compact compacts a shard whose policy says so: of each key all but the last record may go, for good.
func (h *history) compact(i int) {
	sh, m := h.shard(i), h.shards[i]
	plan, _ := sh.planClean(h.clock.UnixMilli())
	if len(plan.segments) == 0 {
		return
	}
	last := map[string]int64{}
	for o := m.start; o < plan.segments[len(plan.segments)-1].next.Load(); o++ {
		if v := m.values[o]; v != nil {
			if before, ok := last[string(keyOf(v))]; ok {
				m.replaced[before] = true
			}
			last[string(keyOf(v))] = o
		}
	}
	err := h.store.cleaner.clean(&plan)
	h.note("compaction of %d, %d segments up to %d: %v", i, len(plan.segments), sh.cleaned.upTo.Load(), err)
	if err != nil && !h.disk.IsCut() {
		h.t.Errorf("compaction: %v", err)
	}
}

// flip turns a bit of a segment over and reads everything: what is served is right, and so is all of it when the
// bit is back.
func (h *history) flip(i int) {
	sh, m := h.shard(i), h.shards[i]
	names, err := h.disk.List(sh.dir)
	if err != nil || h.disk.IsCut() {
		return
	}
	for _, name := range names {
		path := filepath.Join(sh.dir, name)
		size, err := h.disk.Size(path)
		if filepath.Ext(name) != segmentSuffix || err != nil || size == 0 || h.random.IntN(3) > 0 {
			continue
		}
		position := h.random.Int64N(size)
		h.note("flip %s at %d", path, position)
		if err := h.disk.FlipBit(path, position, uint(h.random.IntN(8)), h.random.IntN(2) == 0); err != nil {
			h.t.Fatal(err)
		}
	}
	h.readPast(i, sh, m)
	h.disk.ClearFlips()
	h.compare(i, sh, m.start, 1<<20)
}

// readPast reads a whole log and goes on behind what cannot be read.
func (h *history) readPast(i int, sh *Shard, m *modelShard) {
	var sp Span
	defer sp.Release()
	for next := m.start; next < m.end && !h.t.Failed(); {
		err := sh.ReadBlocking(&sp, next, 1<<62, 1<<h.random.IntN(18))
		if err == nil && !sp.Resident() {
			err = sp.Load()
		}
		after := next
		values := map[int64][]byte{}
		if err == nil && sp.Len() > 0 {
			after, err = verifiedValues(sh, &sp, values)
		}
		for o, v := range values {
			if o < m.end && o >= m.start && !bytes.Equal(v, m.values[o]) {
				h.t.Errorf("shard %d offset %d: got %x of a damaged log, want %x", i, o, head(v), head(m.values[o]))
			}
		}
		if err != nil || after <= next {
			after = next + 1 + h.random.Int64N(8)
		}
		next = after
	}
}

// verifiedValues verifies a span as whoever serves it does, and collects the values of the blocks that are good.
func verifiedValues(sh *Shard, sp *Span, values map[int64][]byte) (next int64, err error) {
	b, h, inside := sp.Bytes(), sp.Header, sp.AtBlock
	for len(b) > 0 {
		if !inside {
			if err := h.Parse(b, sh.Identity()); err != nil {
				return next, err
			}
			b, inside, next = b[model.HeaderSize:], h.BlockCount > 0, h.LastOffset+1
			continue
		}
		var block model.BlockHeader
		if err := block.Verify(b, sh.Identity()); err != nil {
			return next, err
		}
		for rest := b[model.BlockHeaderSize:block.Size()]; len(rest) > 0; {
			var r model.Record
			n, err := model.ParseRecord(rest, &r)
			if err != nil {
				return next, err
			}
			values[r.Offset] = bytes.Clone(r.Value)
			next, rest = r.Offset+1, rest[n:]
		}
		b = b[block.Size():]
		if block.Last {
			inside, next = false, h.LastOffset+1
		}
	}
	return next, nil
}

// stillKnown repeats the last batch that each producer has in a recovered log: it is known.
func (h *history) stillKnown(i int, m *modelShard, st State) {
	sh := h.shard(i)
	seen := map[int]bool{}
	for k := len(m.appends) - 1; k >= 0; k-- {
		last := m.appends[k]
		if last.producer < 0 || last.last >= st.LogEnd || seen[last.producer] {
			continue
		}
		seen[last.producer] = true
		if last.base < st.LogStart || last.epoch != h.epochs[i][last.producer] {
			continue
		}
		b := batchOf(int(last.n), 20, 1)
		a := appendOf(b)
		a.User, a.Slot = b, int32(last.producer)
		a.Header.ProducerID, a.Header.ProducerEpoch = int64(100+last.producer), last.epoch
		a.Header.BaseSequence, a.Header.LastSequence = last.sequence, last.sequence+last.n-1
		err := sh.Submit(a, b)
		if err == nil {
			a = h.store.sink.wait(h.t, 1)[0]
			err = a.Err
		}
		if err != nil || !a.Duplicate || a.BaseOffset != last.base || a.LastOffset != last.last {
			h.t.Errorf("shard %d: after a recovery %+v is answered %v, duplicate %v at %d", i, last, err, a.Duplicate, a.BaseOffset)
		}
	}
}

// withoutIndex, which runs where MILLRACE_TEST_WITHOUT_INDEX is set, opens the disk as the last start found it, but without its index store: the same logs are found.
func (h *history) withoutIndex(bare *disktest.Disk) {
	if err := bare.RemoveAll("/data/index"); err != nil {
		h.t.Fatal(err)
	}
	o := h.options()
	o.FS, o.IndexFS = bare, bare.PebbleFS()
	s, err := Open(context.Background(), o)
	if err != nil {
		h.t.Fatalf("open without index store: %v", err)
	}
	defer s.Close()
	for i, m := range h.shards {
		sh, err := s.EnsureShard(m.id, ShardSpec{TopicName: "t", LeaderEpoch: h.epoch, Config: m.config})
		if err != nil {
			h.t.Fatal(err)
		}
		st := sh.State()
		if m.start == m.end {
			continue // the log start of a shard without a file is in the index store only
		}
		if st.LogStart > m.start || st.LogEnd != m.end {
			h.t.Errorf("shard %d without index store: %+v, with it from %d to %d", i, st, m.start, m.end)
			h.noteFiles(bare, sh.dir)
			h.noteAppends(bare, m.id)
			continue
		}
		got, err := readUntil(sh, m.start, m.end)
		for o := m.start; o < m.end; o++ {
			if !m.right(o, got[o]) {
				h.t.Errorf("shard %d offset %d without index store: got %x, want %x (%v)", i, o, head(got[o]), head(m.values[o]), err)
				h.noteFiles(bare, sh.dir)
				h.noteAppends(bare, m.id)
				return
			}
		}
	}
}

// noteFiles says what a shard's directory holds.
func (h *history) noteFiles(disk *disktest.Disk, dir string) {
	names, err := disk.List(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, name := range names {
		size, _ := disk.Size(filepath.Join(dir, name))
		header, err := readSegmentHeader(disk, filepath.Join(dir, name))
		h.note("%s of %d bytes: segment %d from %d on in epoch %d (%v)", name, size, header.Number, header.BaseOffset, header.LeaderEpoch, err)
	}
}

// noteAppends says where the appends of a shard stand.
func (h *history) noteAppends(disk *disktest.Disk, id model.ShardID) {
	err := Inspect("/data", disk, &Visitor{
		Shard: func(s *ShardInfo) error {
			if s.ID != id {
				return ErrSkipShard
			}
			return nil
		},
		Append: func(s *SegmentInfo, position int64, a *model.AppendHeader) error {
			h.note("segment %d at %d: offsets %d to %d, epoch %d", s.Number, position, a.BaseOffset, a.LastOffset, a.LeaderEpoch)
			return nil
		},
		Damage: func(d *Damage) error { h.note("%v", d); return nil },
	})
	h.note("inspection: %v", err)
}

// readUntil reads and verifies a log from an offset to another, as far as it can be read.
func readUntil(sh *Shard, from, end int64) (map[int64][]byte, error) {
	values := map[int64][]byte{}
	var sp Span
	defer sp.Release()
	for next := from; next < end; {
		if err := sh.ReadBlocking(&sp, next, 1<<62, 10_000); err != nil {
			return values, err
		}
		if err := sp.Load(); err != nil {
			return values, err
		}
		after, err := verifiedValues(sh, &sp, values)
		if err != nil {
			return values, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if after <= next {
			return values, fmt.Errorf("read at %d makes no progress", next)
		}
		next = after
	}
	return values, nil
}
