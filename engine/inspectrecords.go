package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/diskio"
	"millrace/engine/model"
)

// inspection is one run of Inspect.
type inspection struct {
	dir     string
	fs      diskio.FS
	visitor *Visitor
	// records is what the index store had on record at the beginning.
	records map[model.ShardID]*known
	// again is the same, read after a segment was found missing; nil: not read yet.
	again map[model.ShardID]*known
}

// readRecords reads what the index store has on record.
func (in *inspection) readRecords(names []string) (err error) {
	if !slices.ContainsFunc(names, func(name string) bool { return name == indexDirName }) {
		if slices.ContainsFunc(names, func(name string) bool { _, ok := parseShardName(name); return ok }) {
			return in.note("there is no index store: the segments are not compared with what is on record")
		}
		return nil
	}
	if in.records, err = readRecords(filepath.Join(in.dir, indexDirName)); err != nil {
		return in.note(fmt.Sprintf("the segments are not compared with what is on record: %v", err))
	}
	return nil
}

func (in *inspection) note(text string) error {
	if in.visitor.Note == nil {
		return nil
	}
	return in.visitor.Note(text)
}

// stillRecorded tells whether a segment that has no file is on record now. A running broker deletes segments:
// it takes them off the record before their files go.
func (in *inspection) stillRecorded(id model.ShardID, number uint64) bool {
	if in.again == nil {
		var err error
		if in.again, err = readRecords(filepath.Join(in.dir, indexDirName)); err != nil {
			in.again = in.records
		}
	}
	k := in.again[id]
	return k != nil && slices.ContainsFunc(k.segments, func(m segmentMeta) bool { return m.number == number })
}

// missingShards reports the shards of which segments are on record and that have no directory.
func (in *inspection) missingShards(seen map[model.ShardID]bool) error {
	var missing []model.ShardID
	for id, k := range in.records {
		if !seen[id] && len(k.segments) > 0 && in.stillRecorded(id, k.segments[0].number) {
			missing = append(missing, id)
		}
	}
	slices.SortFunc(missing, func(a, b model.ShardID) int {
		return slices.Compare(appendShardKey(nil, keySegment, a), appendShardKey(nil, keySegment, b))
	})
	for _, id := range missing {
		info := ShardInfo{ID: id, Dir: filepath.Join(in.dir, id.String()), LogStart: max(in.records[id].logStart, 0)}
		if in.visitor.Shard != nil {
			if err := in.visitor.Shard(&info); errors.Is(err, ErrSkipShard) {
				continue
			} else if err != nil {
				return err
			}
		}
		cause := fmt.Errorf("%w: the directory is missing, %d segments are on record", ErrCorrupt, len(in.records[id].segments))
		if err := in.visitor.damage(&Damage{Path: info.Dir, Offset: info.LogStart, Err: cause}); err != nil {
			return err
		}
	}
	return nil
}

// findMissing finds the segments that are on record and have no file.
func (d *shardInspection) findMissing() {
	if d.record == nil {
		return
	}
	for i := range d.record.segments {
		m := &d.record.segments[i]
		if d.files[m.number] || !d.stillRecorded(d.info.ID, m.number) {
			continue
		}
		d.found(filepath.Join(d.info.Dir, segmentName(m.number)), m.base,
			fmt.Errorf("%w: the segment is missing, %d bytes are on record", ErrCorrupt, m.bytes))
	}
}

// recordedBytes returns the length that a segment is known to have had, 0 where nothing is.
func (d *shardInspection) recordedBytes(number uint64) (bytes int64) {
	if d.record == nil || d.record.damaged {
		return 0
	}
	for i := range d.record.segments {
		if m := &d.record.segments[i]; m.number == number {
			bytes = m.bytes
		}
	}
	if c := d.record.checkpoint; c != nil && c.segment == number {
		bytes = max(bytes, c.position)
	}
	return bytes
}

// recordReads is how often a store is read that changes meanwhile.
const recordReads = 3

// readRecords reads the segments that an index store has on record. It takes no lock and writes nothing; the
// files of one that a broker has open may go while they are read, and then it is read again.
func readRecords(dir string) (records map[model.ShardID]*known, err error) {
	for range recordReads {
		if records, err = tryReadRecords(dir); err == nil {
			return records, nil
		}
	}
	return nil, err
}

func tryReadRecords(dir string) (records map[model.ShardID]*known, err error) {
	silent := slog.New(slog.DiscardHandler)
	defer func() {
		// Damage shows up as a panic in places.
		if r := recover(); r != nil {
			err = fmt.Errorf("index store %s: %v", dir, r)
		}
	}()
	db, err := pebble.Open(dir, &pebble.Options{
		FS: readOnlyFS{vfs.Default}, ReadOnly: true, Logger: indexLogger{silent},
		EventListener:     &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}},
		DisableTableStats: true,
	})
	if err != nil {
		return nil, fmt.Errorf("index store %s: %w", dir, err)
	}
	x := &indexStore{db: db, dir: dir, log: silent}
	records, err = x.catalogue(keyStart, keyCheckpoint, keySegment)
	return records, errors.Join(err, db.Close())
}

// readOnlyFS is a file system that cannot be changed, and needs no lock for it.
type readOnlyFS struct{ vfs.FS }

// Lock implements vfs.FS.
func (readOnlyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Create implements vfs.FS.
func (readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, fs.ErrPermission
}

// ReuseForWrite implements vfs.FS.
func (readOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, fs.ErrPermission
}

// OpenReadWrite implements vfs.FS.
func (readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, fs.ErrPermission
}

// Link implements vfs.FS.
func (readOnlyFS) Link(string, string) error { return fs.ErrPermission }

// Remove implements vfs.FS.
func (readOnlyFS) Remove(string) error { return fs.ErrPermission }

// RemoveAll implements vfs.FS.
func (readOnlyFS) RemoveAll(string) error { return fs.ErrPermission }

// Rename implements vfs.FS.
func (readOnlyFS) Rename(string, string) error { return fs.ErrPermission }

// MkdirAll implements vfs.FS.
func (readOnlyFS) MkdirAll(string, fs.FileMode) error { return fs.ErrPermission }
