package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"millrace/cmd/broker"
	"millrace/diskio"
)

// repair shows, or with --dry-run=false does, what lets a broker start on the directory again.
func (a *App) repair(f *inspectFlags, fs diskio.FS) error {
	if _, err := os.Stat(filepath.Join(f.dir, "broker.lock")); err != nil {
		return fmt.Errorf("%s is no data directory of a broker: %w", f.dir, err)
	}
	found := false
	err := broker.Repair(a.Context, f.dir, fs, !f.dryRun, func(line string) {
		found = true
		fmt.Fprintln(a.Out, line)
	})
	switch {
	case err != nil:
		return err
	case !found:
		fmt.Fprintln(a.Out, "nothing to repair: a broker starts on this directory with all its partitions")
		return nil
	case !f.dryRun:
		fmt.Fprintln(a.Out, "repaired")
		return nil
	}
	fmt.Fprintln(a.Out, "nothing was changed; --dry-run=false does it")
	return errQuiet
}
