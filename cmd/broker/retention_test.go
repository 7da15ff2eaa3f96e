package broker_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/cmd/broker/brokertest"
)

// TestRetention lets records age and pile up: idle partitions lose theirs by age, busy ones by size, and the files
// go.
func TestRetention(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"log.retention.check.interval.ms": "50", "log.segment.delete.delay.ms": "100"})
	c := brokertest.Dial(t, b.Addr)
	files := func() int {
		names, err := filepath.Glob(filepath.Join(b.DataDir, "*", "*.msg*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	megabyte := batchOf(string(bytes.Repeat([]byte("x"), 500_000)), string(bytes.Repeat([]byte("x"), 500_000)))

	aged := b.NewTopic(t, 1, map[string]string{"retention.ms": "300"})
	for range 5 {
		c.MustProduce(aged, 0, batchOf("a", "b"))
	}
	brokertest.Eventually(t, "an idle partition is empty", func() bool { return c.LogStart(aged, 0) == 10 })
	want(t, "log end", c.LogEnd(aged, 0), 10)
	want(t, "a read below", c.Fetch(aged, 0, 3).ErrorCode, errOffsetOutOfRange)
	want(t, "next offset", c.MustProduce(aged, 0, batchOf("c")), 10)

	large := b.NewTopic(t, 1, map[string]string{"retention.bytes": "2000000", "segment.bytes": "1048576"})
	for range 8 {
		c.MustProduce(large, 0, megabyte)
	}
	brokertest.Eventually(t, "not more than the setting and a segment", func() bool {
		return c.LogEnd(large, 0)-c.LogStart(large, 0) <= 6
	})
	if start := c.LogStart(large, 0); start < 10 || start > 12 {
		t.Errorf("log start %d: the setting should be kept at least", start)
	}
	if b.DataDir != "" {
		brokertest.Eventually(t, "files are gone", func() bool { return files() <= 5 })
	}

	// Both policies: the last of each key, until it is old.
	both := b.NewTopic(t, 1, map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "600000", "segment.bytes": "1048576"})
	keyed := func(key string, age time.Duration) *brokertest.Batch {
		return brokertest.NewBatch(brokertest.Record{Timestamp: time.Now().Add(-age).UnixMilli(), Key: []byte(key), Value: make([]byte, 600_000)})
	}
	c.MustProduce(both, 0, keyed("old", time.Hour))
	c.MustProduce(both, 0, keyed("new", 0))
	brokertest.Eventually(t, "the old segment is gone", func() bool { return c.LogStart(both, 0) == 1 })
	b.Kill(t)
	b.Restart(t)
	c = brokertest.Dial(t, b.Addr)
	if c.LogStart(both, 0) == 0 || c.LogStart(aged, 0) < 10 || c.LogStart(large, 0) < 10 {
		t.Errorf("log starts %d %d %d after a kill", c.LogStart(both, 0), c.LogStart(aged, 0), c.LogStart(large, 0))
	}

	// No policy keeps for ever.
	none := b.NewTopic(t, 1, map[string]string{"cleanup.policy": "", "retention.ms": "1", "segment.ms": "1"})
	c.MustProduce(none, 0, batchOf("a"))
	short := b.NewTopic(t, 1, map[string]string{"retention.ms": "1"})
	c.MustProduce(short, 0, batchOf("a"))
	brokertest.Eventually(t, "another topic's record is gone", func() bool { return c.LogStart(short, 0) == 1 })
	want(t, "what has no policy stays", c.LogStart(none, 0), 0)
	if got := c.Records(none, 0, 0); len(got) != 1 || !strings.EqualFold(string(got[0].Value), "a") {
		t.Errorf("records %+v", got)
	}
}
