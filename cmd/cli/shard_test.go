package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestShardList(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	c := serve(t, first+","+second)
	if code, out, errOut := run(t, "", "shard", "list", "--json", "--broker", c.address); code != 0 || strings.TrimSpace(out) != "[]" {
		t.Errorf("without topics: %d %s%s", code, out, errOut)
	}
	run(t, "", "topic", "create", "a", "--partitions", "2", "--broker", c.address)
	run(t, "x\ny\n", "produce", "a", "--partition", "1", "--broker", c.address)
	_, out, errOut := run(t, "", "shard", "list", "--json", "--broker", c.address)
	var rows []shardRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%v: %s%s", err, out, errOut)
	}
	if rows[0].Directory == rows[1].Directory || rows[1].EndOffset != 2 || rows[1].StartOffset != 0 || rows[1].Bytes < 100 || rows[0].Bytes != 0 {
		t.Errorf("%s", out)
	}
	if _, out, _ := run(t, "", "shard", "list", "a", "--broker", c.address); strings.Count(out, "\n") != 3 || !strings.Contains(out, second) {
		t.Errorf("%s", out)
	}
	if code, _, errOut := run(t, "", "shard", "list", "none", "--broker", c.address); code != 1 || !strings.Contains(errOut, "none") {
		t.Errorf("unknown topic: %d %s", code, errOut)
	}
	c.end(syscall.SIGTERM)
}
