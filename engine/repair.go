package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"millrace/diskio"
	"millrace/engine/model"
)

// Repair tells report what keeps shards of a data directory out of service, segments that are on record and have no
// file, and with apply puts an empty file into the place of each: their offsets cannot be read, all others can, and
// the shards take appends again. Nothing is removed. No store may be open on the directory. Where the index store
// cannot be read nothing is on record, and nothing is done.
func Repair(dir string, fsys diskio.FS, apply bool, report func(string)) error {
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	defer lock.Close()
	records, err := readRecords(filepath.Join(dir, indexDirName))
	if err != nil {
		return nil
	}
	ids := slices.SortedFunc(maps.Keys(records), func(a, b model.ShardID) int {
		return slices.Compare(appendShardKey(nil, keySegment, a), appendShardKey(nil, keySegment, b))
	})
	for _, id := range ids {
		if err := repairShard(filepath.Join(dir, id.String()), fsys, id, records[id], apply, report); err != nil {
			return err
		}
	}
	return nil
}

func repairShard(dir string, fsys diskio.FS, id model.ShardID, k *known, apply bool, report func(string)) error {
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	there := make(map[uint64]bool)
	for _, name := range names {
		if number, _, ok := parseSegmentName(name); ok {
			there[number] = true
		}
	}
	for i := range k.segments {
		m := &k.segments[i]
		if there[m.number] || k.damaged {
			continue // where only its generation is another the start looks at what compaction did
		}
		path := filepath.Join(dir, segmentFileName(m.number, m.generation))
		verb := "would be"
		if apply {
			verb = "was"
			if err := makeEmptySegment(fsys, path, id, m); err != nil {
				return fmt.Errorf("make segment %s: %w", path, err)
			}
		}
		report(fmt.Sprintf("%s is missing, with the offsets from %d to %d: an empty one %s made in its place, and they cannot be read",
			path, m.base, m.end-1, verb))
	}
	return nil
}

// makeEmptySegment makes a segment's file as it was before its first append, durably.
func makeEmptySegment(fsys diskio.FS, path string, id model.ShardID, m *segmentMeta) error {
	dir := filepath.Dir(path)
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	header := segmentHeader{Shard: id, Number: m.number, Generation: m.generation, BaseOffset: m.base, LeaderEpoch: m.epoch, Created: m.created}
	var frame [segmentHeaderSize]byte
	header.put(frame[:])
	_, err = f.WriteAt(frame[:], 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return errors.Join(fsys.SyncDir(dir), fsys.SyncDir(filepath.Dir(dir)))
}
