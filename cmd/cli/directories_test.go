package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDirectories holds that what looks at data directories takes several, or says which one it looks at.
func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	both := first + "," + second
	c := serve(t, both)
	run(t, "", "topic", "create", "a", "--partitions", "2", "--broker", c.address)
	for _, partition := range []string{"0", "1"} {
		run(t, "x\n", "produce", "a", "--partition", partition, "--broker", c.address)
	}
	if err := c.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	f := func(code int, want string, args ...string) {
		t.Helper()
		got, out, errOut := run(t, "", args...)
		if got != code || !strings.Contains(out+errOut, want) {
			t.Errorf("%q: code %d, want %d and %q in:\n%s%s", args, got, code, want, out, errOut)
		}
	}
	f(0, "the first data directory of its broker; partitions are in "+second+" besides\ntopic a partition ", "inspect", "--data-dir", first)
	f(0, "a further data directory of broker 1, whose first, with its topics, settings and groups, is "+first+"\ntopic a partition ", "inspect", "--data-dir", second)
	f(0, `{"type":"directory","path":"`+second+`","role":"further","first":"`+first+`","node_id":1}`, "inspect", "--data-dir", second, "--json")
	f(0, "nothing to repair", "inspect", "--data-dir", second, "--repair")
	f(2, "one directory at a time", "inspect", "--data-dir", both)

	f(0, second+": disk of its own: the file system of "+first, "doctor", "--data-dir", both)
	f(0, first+": free space: ", "doctor", "--data-dir", both)
	f(0, `"directory": "`+second+`"`, "doctor", "--data-dir", both, "--json")
	f(2, "names "+first+" twice", "doctor", "--data-dir", first+","+first)
}
