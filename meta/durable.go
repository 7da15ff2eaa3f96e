package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/perf"
)

const (
	// durableName is the file that says up to which entry the log was synced: crc u32, index u64. It is written after
	// each sync of the log and never synced itself, so that what is found of it was true at some time, whatever a power
	// cut left; what the log has less than that was lost to damage.
	durableName  = "durable"
	durableBytes = 4 + 8
)

// durable is that file, open. The checksum is seeded with the cluster's id, so that another directory's is no promise.
type durable struct {
	file vfs.File
	seed uint32
	log  *slog.Logger
}

// openDurable opens the file of a directory and returns what it promises, 0 where that is nothing.
func openDurable(o *Options, clusterID string) (*durable, uint64, error) {
	path := o.FS.PathJoin(o.Dir, durableName)
	f, err := o.FS.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, 0, fmt.Errorf("open %s: %w", path, err)
	}
	d := &durable{file: f, seed: perf.UpdateCRC32C(0, []byte(clusterID)), log: o.Logger}
	var b [durableBytes]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	if n < len(b) || binary.BigEndian.Uint32(b[:]) != perf.UpdateCRC32C(d.seed, b[4:]) {
		return d, 0, nil
	}
	return d, binary.BigEndian.Uint64(b[4:]), nil
}

// set promises the entries up to index. Where it fails an older promise stays, which is as true.
func (d *durable) set(index uint64) {
	if d == nil || d.file == nil {
		return
	}
	var b [durableBytes]byte
	binary.BigEndian.PutUint64(b[4:], index)
	binary.BigEndian.PutUint32(b[:], perf.UpdateCRC32C(d.seed, b[4:]))
	if _, err := d.file.WriteAt(b[:], 0); err != nil {
		d.log.Warn("what the meta log has cannot be noted", "err", errors.Join(err, d.close()))
	}
}

func (d *durable) close() error {
	if d == nil || d.file == nil {
		return nil
	}
	f := d.file
	d.file = nil
	return f.Close()
}

// checkEnd refuses a log that ends before an entry that was durable.
func checkEnd(o *Options, last, promised uint64) error {
	if last >= promised {
		return nil
	}
	place := "a log file was removed, or files are older than they were"
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		path := o.FS.PathJoin(o.Dir, name)
		if position, err := logFault(o.FS, path); err != nil {
			place = fmt.Sprintf("%s cannot be read on at %d (%v)", path, position, err)
			break
		}
	}
	return fmt.Errorf("%w: changes %d to %d were acknowledged and are gone from %s: %s", ErrDamaged, last+1, promised, o.Dir, place)
}

// checkNew refuses to begin anew what has been in use.
func checkNew(o *Options) error {
	path := o.FS.PathJoin(o.Dir, durableName)
	if info, err := o.FS.Stat(path); err != nil || info.Size() == 0 {
		if path = o.Dir + copySuffix; readCopy(o) == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: nothing is left in %s, which %s says was in use (to begin anew remove both)", ErrDamaged, o.Dir, path)
}

// logFault finds where a write-ahead log cannot be read on, nil where it ends well.
func logFault(fsys vfs.FS, path string) (position int64, err error) {
	digits, ok := strings.CutSuffix(fsys.PathBase(path), ".log")
	number, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return 0, nil
	}
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := newLogReader(record.NewReader, f, number)
	for {
		position = r.Offset()
		content, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, content)
		}
		if errors.Is(err, io.EOF) {
			return position, nil
		}
		if err != nil {
			return position, err
		}
	}
}

// newLogReader calls record.NewReader, whose type of numbers has no name outside of Pebble.
func newLogReader[N ~uint64](make func(io.Reader, N) *record.Reader, r io.Reader, number uint64) *record.Reader {
	return make(r, N(number))
}
