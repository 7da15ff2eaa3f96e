package meta

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// noSyncFS lets syncs of Pebble's write-ahead log succeed at once. Pebble keeps writes that ask for no sync
// in its own memory, where a kill loses them; asking for a sync that does nothing brings each write to the
// system before it is answered, so that only a power cut loses anything. All other files are synced as
// ever, so that what is left is a state from the past and never a mixture.
type noSyncFS struct{ vfs.FS }

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// Create implements vfs.FS.
func (fs noSyncFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	if err != nil || !isLog(name) {
		return f, err
	}
	return noSyncFile{f}, nil
}

// ReuseForWrite implements vfs.FS.
func (fs noSyncFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
	if err != nil || !isLog(newname) {
		return f, err
	}
	return noSyncFile{f}, nil
}

type noSyncFile struct{ vfs.File }

// Sync implements vfs.File.
func (noSyncFile) Sync() error { return nil }

// SyncData implements vfs.File.
func (noSyncFile) SyncData() error { return nil }

// SyncTo implements vfs.File.
func (noSyncFile) SyncTo(int64) (fullSync bool, err error) { return true, nil }
