package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestInspect reads the directory of a running and of a stopped broker, and finds a byte that was flipped.
func TestInspect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := serve(t, dir)
	run(t, `{"key":"k","value":null,"headers":[{"key":"h","value":"x"},{"key":"h","value":null}],"timestamp":5}{"key":"","value_base64":"/w==","timestamp":6}`,
		"produce", "a", "-f", "json", "--broker", c.address)
	run(t, "other\n", "produce", "b", "--broker", c.address)
	f := func(code int, args []string, holds ...string) string {
		t.Helper()
		got, out, errOut := run(t, "", append([]string{"inspect", "--data-dir", dir}, args...)...)
		if got != code || (errOut != "") != slices.Contains(holds, "0 shards") {
			t.Errorf("%q: code %d, want %d: %s", args, got, code, errOut)
		}
		for _, want := range holds {
			if !strings.Contains(out, want) {
				t.Errorf("%q does not print %q:\n%s", args, want, out)
			}
		}
		return out
	}
	f(0, nil, "topic a partition 0: 1 segment", "topic b partition 0", "offsets 0 to 1, 1 append, 2 records", "2 shards, 2 segments, 2 appends, 3 records", "0 damages")
	if err := c.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	f(0, []string{"--topic", "b"}, "1 shard, 1 segment, 1 append, 1 record,")
	f(1, []string{"--partition", "7"}, "0 shards")
	f(0, []string{"--topic", "a", "--records"}, `record 0: timestamp 5, key "k", value null`, `record 1: timestamp 6, key "", value "\xff"`, "append at ")

	out := f(0, []string{"--topic", "a", "--records", "--json"},
		`{"type":"record","offset":0,"timestamp":5,"key":"k","value":null,"headers":[{"key":"h","value":"x"},{"key":"h","value":null}]}`,
		`{"type":"record","offset":1,"timestamp":6,"key":"","value_base64":"/w=="}`, `"damages":0`)
	var path string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var object struct{ Type, Path string }
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if object.Type == "segment" {
			path = object.Path
		}
	}
	flipLast(t, path)
	f(1, []string{"--topic", "a"}, "DAMAGE "+path+" at ", "1 damage")
	f(0, []string{"--topic", "b"}, "0 damages")
	for want, args := range map[string][]string{"say which directory": {"inspect"}, "no such file": {"inspect", "--data-dir", "/does/not/exist"}} {
		if code, _, errOut := run(t, "", args...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%q: code %d, %s", args, code, errOut)
		}
	}
}

// TestInspectNothing holds that nothing to read is an error, but for a broker that has no topic yet.
func TestInspectNothing(t *testing.T) {
	f := func(code int, want, dir string, args ...string) {
		t.Helper()
		if got, _, errOut := run(t, "", append([]string{"inspect", "--data-dir", dir}, args...)...); got != code || !strings.Contains(errOut, want) {
			t.Errorf("code %d, want %d, %s, want %q", got, code, errOut, want)
		}
	}
	f(1, "is no data directory of a broker", t.TempDir())
	dir := filepath.Join(t.TempDir(), "data")
	c := serve(t, dir)
	f(0, "has no partitions yet\n", dir)
	f(1, "so none that", dir, "--topic", "a")
	run(t, "x\n", "produce", "a", "--broker", c.address)
	f(1, "none of the 1 shard in", dir, "--topic", "nosuch")
	c.end(syscall.SIGTERM)
}

// flipLast changes the last byte of a file that is not zero: one of the last record.
func flipLast(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := len(b) - 1
	for b[at] == 0 {
		at--
	}
	b[at] ^= 0x40
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// largest returns the path of the largest file.
func largest(t *testing.T, paths []string) string {
	t.Helper()
	best, size := "", int64(-1)
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Size() > size {
			best, size = path, info.Size()
		}
	}
	if best == "" {
		t.Fatalf("no file among %q", paths)
	}
	return best
}

// A broken shard file hid its shard from --topic, and the damage.
func TestInspectTopicWithBrokenShardFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := serve(t, dir)
	run(t, "a value\n", "produce", "a", "--broker", c.address)
	if err := c.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "shard.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := run(t, "", "inspect", "--data-dir", dir, "--topic", "a")
	for _, want := range []string{"topic (unknown) partition 0: 1 segment", "DAMAGE " + files[0], "1 damage"} {
		if code != 1 || errOut != "" || !strings.Contains(out, want) {
			t.Errorf("code %d, no %q in:\n%s%s", code, want, out, errOut)
		}
	}
}
