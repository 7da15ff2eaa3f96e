package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRepair damages the cluster state of a stopped broker, which then does not start, and repairs it.
func TestRepair(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	f := func(code int, holds string, args ...string) {
		t.Helper()
		got, out, errOut := run(t, "", append([]string{"inspect", "--data-dir", dir, "--repair"}, args...)...)
		if got != code || !strings.Contains(out+errOut, holds) {
			t.Errorf("%q: code %d, want %d and %q: %s%s", args, got, code, holds, out, errOut)
		}
	}
	c := serve(t, dir)
	run(t, "kept\n", "produce", "a", "--broker", c.address)
	f(1, "in use by a broker; stop it first")
	if err := c.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	f(0, "nothing to repair")
	damaged, err := filepath.Glob(filepath.Join(dir, "meta", "MANIFEST-*"))
	if err != nil || len(damaged) == 0 {
		t.Fatal("no manifest", err)
	}
	for _, path := range damaged {
		if err := os.Truncate(path, 10); err != nil {
			t.Fatal(err)
		}
	}
	code, _, errOut := run(t, "", "serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--set", "millrace.admin.listen=")
	if want := "millrace inspect --repair --data-dir " + dir; code == 0 || !strings.Contains(errOut, want) {
		t.Fatalf("start on damage: code %d, no %q in %s", code, want, errOut)
	}
	f(1, "nothing was changed")
	f(1, "it would be made again of "+dir+"/meta.copy")
	f(0, "repaired", "--dry-run=false")
	f(0, "nothing to repair")
	if kept, err := filepath.Glob(filepath.Join(dir, "meta.damaged-*", "MANIFEST-*")); err != nil || len(kept) != len(damaged) {
		t.Errorf("kept %q, want %q (%v)", kept, damaged, err)
	}
	c = serve(t, dir)
	if code, out, errOut := run(t, "", "consume", "a", "--broker", c.address, "-n", "1"); code != 0 || !strings.Contains(out, "kept") {
		t.Errorf("consume: code %d, %s%s", code, out, errOut)
	}
	c.end(syscall.SIGTERM)
}
