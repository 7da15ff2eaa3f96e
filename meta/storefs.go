package meta

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// storeFS is the file system as Pebble sees it.
//
// A directory that cannot be synced makes Pebble panic, also in its own goroutines, where nobody could
// recover; here it fails the node and ends the goroutine, as storeLogger.Fatalf does.
//
// Where logs need no sync, syncs of the write-ahead log succeed at once. Pebble keeps writes that ask for
// no sync in its own memory, where a kill loses them; asking for a sync that does nothing brings each write
// to the system before it is answered, so that only a power cut loses anything. All other files are synced
// as ever, so that what is left is a state from the past and never a mixture.
type storeFS struct {
	vfs.FS
	syncLogs bool
	failed   func(error)
	held     *heldLogs
}

// heldLogs keeps write-ahead logs that Pebble has done with until it is known that nothing of them is missing: a start
// that is refused leaves them as they are.
type heldLogs struct {
	fs       vfs.FS
	mu       sync.Mutex
	released bool
	paths    []string
}

// hold tells whether a log is to stay for now.
func (h *heldLogs) hold(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.released {
		h.paths = append(h.paths, path)
	}
	return !h.released
}

// release removes what was held back, and holds nothing any more.
func (h *heldLogs) release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	var faults []error
	for _, path := range h.paths {
		faults = append(faults, h.fs.Remove(path))
	}
	return errors.Join(faults...)
}

func (fs storeFS) relaxed(name string) bool { return !fs.syncLogs && strings.HasSuffix(name, ".log") }

// Create implements vfs.FS.
func (fs storeFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	if err != nil || !fs.relaxed(name) {
		return f, err
	}
	return noSyncFile{f}, nil
}

// ReuseForWrite implements vfs.FS.
func (fs storeFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
	if err != nil || !fs.relaxed(newname) {
		return f, err
	}
	return noSyncFile{f}, nil
}

// Remove implements vfs.FS.
func (fs storeFS) Remove(name string) error {
	if strings.HasSuffix(name, ".log") && fs.held.hold(name) {
		return nil
	}
	return fs.FS.Remove(name)
}

// OpenDir implements vfs.FS.
func (fs storeFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return directory{File: f, name: name, failed: fs.failed}, nil
}

type noSyncFile struct{ vfs.File }

// Sync implements vfs.File.
func (noSyncFile) Sync() error { return nil }

// SyncData implements vfs.File.
func (noSyncFile) SyncData() error { return nil }

// SyncTo implements vfs.File.
func (noSyncFile) SyncTo(int64) (fullSync bool, err error) { return true, nil }

type directory struct {
	vfs.File
	name   string
	failed func(error)
}

// Sync implements vfs.File. It does not return from a failure.
func (d directory) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.failed(fmt.Errorf("sync directory %s: %w", d.name, err))
		runtime.Goexit()
	}
	return nil
}
