package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestPatience(t *testing.T) {
	p := newPatience("a", time.Second, map[int32]int64{0: 5, 1: 7})
	if err := p.failed(0, kerr.KafkaStorageError); err != nil {
		t.Errorf("gives up at once: %v", err)
	}
	if err := p.failed(1, kerr.CorruptMessage); err == nil || !strings.Contains(err.Error(), "topic a partition 1 offset 7: CORRUPT_MESSAGE; ") || !strings.Contains(err.Error(), "millrace inspect") {
		t.Errorf("%v", err)
	}
	missing := map[int32]int64{0: 9}
	if err := p.over(missing); err != nil {
		t.Errorf("gives up early: %v", err)
	}
	p.waited = time.Second
	if err := p.over(missing); err == nil || !strings.Contains(err.Error(), "topic a partition 0 offset 5: KAFKA_STORAGE_ERROR; ") {
		t.Errorf("%v", err)
	}
	if err := p.over(nil); err != nil {
		t.Errorf("nothing is missing: %v", err)
	}
	p.advance(0, 6)
	if err := p.over(missing); err != nil {
		t.Errorf("gives up though it got on: %v", err)
	}
	p.waited = time.Second
	if err := p.over(missing); err == nil || !strings.Contains(err.Error(), "offset 6: the broker has given nothing") {
		t.Errorf("%v", err)
	}
}

// TestConsumeDamaged holds that damage ends consuming with what came before it and the place.
func TestConsumeDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := serve(t, dir)
	for range 2 {
		run(t, strings.Repeat("x", 300<<10)+"\n", "produce", "a", "--broker", c.address)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	flipLast(t, largest(t, segments))
	c = serve(t, dir)
	code, out, errOut := run(t, "", "consume", "a", "--broker", c.address, "--timeout", "2s")
	if code != 1 || !strings.Contains(errOut, "topic a partition 0 offset 1: ") || !strings.Contains(errOut, "millrace inspect --data-dir DIR --topic a --partition 0") || len(out) != 300<<10+1 {
		t.Errorf("code %d, %d bytes, %s", code, len(out), errOut)
	}
	c.end(syscall.SIGTERM)
}
