package cli

import (
	"fmt"

	"millrace/cmd/broker"
	"millrace/diskio"
)

// repair shows, or with --dry-run=false does, what lets a broker start on the directory again.
func (a *App) repair(f *inspectFlags, fs diskio.FS) error {
	if !isDataDir(f.dir) {
		return fmt.Errorf("%s is no data directory of a broker: it has no broker.lock, meta and index", f.dir)
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
		fmt.Fprintln(a.Out, "nothing to repair: a broker starts on this directory")
		return nil
	case !f.dryRun:
		fmt.Fprintln(a.Out, "repaired")
		return nil
	}
	fmt.Fprintln(a.Out, "nothing was changed; --dry-run=false does it")
	return errQuiet
}
