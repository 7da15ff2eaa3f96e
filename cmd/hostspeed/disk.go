package hostspeed

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"millrace/diskio"
)

const (
	smallWrite = 4 << 10
	midWrite   = 64 << 10
	largeWrite = 256 << 10
	manyFiles  = 32
	syncWrite  = 16 << 10
	// fileBytes is where a file begins anew, so that no more than this lies on the disk of each.
	fileBytes     = 256 << 20
	manyFileBytes = 8 << 20
)

// kind is one way to write.
type kind struct {
	what        string
	files       int
	write       int
	preallocate bool
	sync        bool
}

func kinds() []kind {
	return []kind{
		{what: "append 256 KiB to one file, blocks reserved", files: 1, write: largeWrite, preallocate: true},
		{what: "append 256 KiB to one growing file", files: 1, write: largeWrite},
		{what: "append 64 KiB to one file, blocks reserved", files: 1, write: midWrite, preallocate: true},
		{what: "append 4 KiB to each of 32 files in one batch", files: manyFiles, write: smallWrite, preallocate: true},
		{what: "append 16 KiB and sync, one file", files: 1, write: syncWrite, preallocate: true, sync: true},
		{what: "append 16 KiB to each of 32 files and sync them in one batch", files: manyFiles, write: syncWrite, preallocate: true, sync: true},
	}
}

// disk measures one directory.
type disk struct {
	ctx    context.Context
	dir    string
	report *Report
	each   time.Duration
}

// backend measures all kinds of writes by one backend.
func (d *disk) backend(name string) error {
	fs, err := diskio.Open(d.dir, diskio.Options{Backend: name})
	if err != nil {
		return err
	}
	defer fs.Close()
	for i, k := range kinds() {
		if d.ctx.Err() != nil {
			return context.Cause(d.ctx)
		}
		if err := d.kind(fs, name, i, k); err != nil {
			return fmt.Errorf("%s: %w", k.what, err)
		}
	}
	return nil
}

// kind measures one way to write on files of its own.
func (d *disk) kind(fs diskio.FS, backend string, number int, k kind) (err error) {
	end := int64(manyFileBytes)
	if k.files == 1 {
		end = fileBytes
	}
	buffer := make([]byte, k.write)
	writes, syncs := make([]diskio.WriteOp, k.files), make([]diskio.SyncOp, k.files)
	for i := range k.files {
		path := filepath.Join(d.dir, fmt.Sprintf("%s-%d-%d", backend, number, i))
		f, err := fs.Create(path)
		if err != nil {
			return err
		}
		defer fs.Remove(path)
		defer f.Close()
		if k.preallocate {
			// A file system that does not reserve blocks is measured as it is.
			_ = f.Preallocate(0, end)
		}
		writes[i], syncs[i] = diskio.WriteOp{File: f, Bufs: [][]byte{buffer}}, diskio.SyncOp{File: f}
	}
	position, rounds := int64(0), 0
	began, cpu := time.Now(), processorTime()
	for time.Since(began) < d.each && d.ctx.Err() == nil {
		if position+int64(k.write) > end {
			position = 0
		}
		for i := range writes {
			writes[i].Pos = position
		}
		if err := batch(fs, writes, syncs, k.sync); err != nil {
			return err
		}
		position += int64(k.write)
		rounds++
	}
	seconds, used := time.Since(began).Seconds(), (processorTime() - cpu).Seconds()
	gigabytes := float64(rounds) * float64(k.files) * float64(k.write) / 1e9
	f := Figure{What: k.what, Backend: backend, Value: round(gigabytes * 1000 / seconds), Unit: "MB/s", CPU: round(used / gigabytes)}
	if k.sync {
		f = Figure{What: k.what, Backend: backend, Value: round(float64(rounds) / seconds), Unit: "batches/s"}
	}
	d.report.Figures = append(d.report.Figures, f)
	return nil
}

// batch writes, and syncs where that is asked for.
func batch(fs diskio.FS, writes []diskio.WriteOp, syncs []diskio.SyncOp, sync bool) error {
	fs.Write(writes)
	for _, op := range writes {
		if op.Err != nil {
			return op.Err
		}
	}
	if !sync {
		return nil
	}
	fs.Sync(syncs)
	for _, op := range syncs {
		if op.Err != nil {
			return op.Err
		}
	}
	return nil
}
