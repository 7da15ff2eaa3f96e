package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"millrace/diskio"
	"millrace/engine"
	"millrace/meta/config"
)

// find makes the data directories where they are missing, locks them, probes their file systems and finds out whose
// they are. Without the first there is no cluster state and no start; another that cannot be read is left out.
func (d *directories) find(settings *config.Broker, log *slog.Logger) error {
	opened := make([]bool, len(settings.DataDirs))
	for i, path := range settings.DataDirs {
		at := &directory{path: absolute(path)}
		d.list = append(d.list, at)
		err := at.open(settings, i > 0, log)
		if err != nil && (i == 0 || errors.Is(err, diskio.ErrLocked)) {
			return err
		}
		at.cause, opened[i] = err, err == nil
	}
	known, missing, err := identify(settings.NodeID, settings.DataDirs, opened)
	if err != nil {
		return err
	}
	for i, at := range d.list {
		at.known = known[i]
		if at.cause == nil {
			at.cause = missing[i]
		}
		if at.cause != nil {
			log.Error("data directory cannot be used: its partitions answer KAFKA_STORAGE_ERROR until a start finds it well", "dir", at.path, "err", at.cause)
		}
	}
	return nil
}

// open makes, probes and locks the directory.
func (at *directory) open(settings *config.Broker, further bool, log *slog.Logger) error {
	dir := at.path
	if err := makeDir(dir); err != nil {
		return fmt.Errorf("data directory: %w; set log.dirs (--data-dir) to one that can be written", err)
	}
	fs, err := diskio.Open(dir, diskio.Options{Backend: settings.IOBackend, Logger: log})
	if err != nil {
		return unwritable(dir, fmt.Errorf("data directory: %w", err))
	}
	at.fs = fs
	at.lock, err = fs.Lock(filepath.Join(dir, lockName))
	switch {
	case errors.Is(err, diskio.ErrLocked) && further:
		return fmt.Errorf("data directory %s is in use by another broker, or is another one of log.dirs by a second path: %w; give each broker directories of its own, each once", dir, err)
	case errors.Is(err, diskio.ErrLocked):
		return fmt.Errorf("data directory %s is in use by another broker; stop that one, or start this one with another --data-dir: %w", dir, err)
	case err != nil:
		return unwritable(dir, fmt.Errorf("data directory: lock: %w", err))
	}
	return nil
}

// makeDir makes a directory with those above it, and syncs the parent of each that was missing: what is acknowledged in
// it later must not go with its name.
func makeDir(dir string) error {
	var parents []string
	for at := filepath.Clean(dir); filepath.Dir(at) != at; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil {
			break
		}
		parents = append(parents, filepath.Dir(at))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, parent := range parents {
		d, err := os.Open(parent)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}

// unwritable adds the remedy where the data directory may not be written.
func unwritable(dir string, err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w; give %s and what is in it to the user that runs the broker (chown -R), mount it writable, or set log.dirs (--data-dir) to another directory", err, dir)
	}
	return err
}

// open opens the store of each directory, all at once. A further one that fails is offline.
func (d *directories) open(ctx context.Context, o engine.Options) error {
	errs := make([]error, len(d.list))
	var opening sync.WaitGroup
	for i, at := range d.list {
		opening.Go(func() {
			mine := o
			mine.Dir, mine.FS = at.path, at.fs
			if at.cause == nil {
				at.store, at.cause = engine.Open(ctx, mine)
			}
			if at.cause == nil {
				return
			}
			if i == 0 || ctx.Err() != nil {
				errs[i] = at.cause
				return
			}
			at.store = engine.OpenOffline(mine, at.cause)
		})
	}
	opening.Wait()
	return errors.Join(errs...)
}
