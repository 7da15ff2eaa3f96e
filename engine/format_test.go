package engine

import (
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"millrace/engine/model"
)

func goldenHeader() segmentHeader {
	h := segmentHeader{Number: 7, Generation: 1, BaseOffset: 4096, LeaderEpoch: 5, Created: 1_767_225_600_000}
	for i := range h.Shard.Topic {
		h.Shard.Topic[i] = byte(i + 1)
	}
	h.Shard.Partition = 3
	return h
}

// dump writes bytes as the format page shows them.
func dump(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := min(16, len(b))
		out.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return out.String()
}

func TestSegmentHeaderGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/segment-header-v1.hex")
	if err != nil {
		t.Fatal(err)
	}
	h := goldenHeader()
	var frame [segmentHeaderSize]byte
	h.put(frame[:])
	if got := dump(frame[:]); got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	page, err := os.ReadFile("../docs/format.md")
	if err != nil || !strings.Contains(string(page), string(want)) {
		t.Errorf("docs/format.md does not show the golden bytes (%v)", err)
	}
	var again segmentHeader
	if err := again.parse(frame[:]); err != nil || again != h {
		t.Errorf("parsed %+v, %v", again, err)
	}
	for i := range frame {
		for bit := range 8 {
			bad := frame
			bad[i] ^= 1 << bit
			if err := again.parse(bad[:]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("bit %d of byte %d turned over: %v", bit, i, err)
			}
		}
	}
}

func FuzzSegmentHeader(f *testing.F) {
	h := goldenHeader()
	var frame [segmentHeaderSize]byte
	h.put(frame[:])
	f.Add(frame[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var h segmentHeader
		if h.parse(b) == nil {
			var again [segmentHeaderSize]byte
			h.put(again[:])
			if h.BaseOffset < 0 {
				t.Fatal("negative offset")
			}
		}
	})
}

// FuzzIndexValues feeds what the index store may hold to its parsers.
func FuzzIndexValues(f *testing.F) {
	id := testID(1)
	c := checkpointValue{segment: 3, position: 500, next: 9, epochs: epochList{{1, 2}}}
	m := segmentMeta{number: 4, generation: 1, base: 3, end: 9, bytes: 500}
	f.Add(appendShardKey(nil, keyCheckpoint, id), c.append(nil))
	f.Add(appendSegmentKey(nil, id, 4), m.append(nil))
	f.Add(appendProducerKey(nil, id, 4), appendProducerValue(nil, 1, 2, []producerBatch{{1, 2, 3, 4, 5}}))
	f.Add(appendIndexKey(nil, id, 4, 1, 9), appendIndexValue(nil, &indexEntry{offset: 9, position: 200}))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		_, rest, ok := parseShardKey(key)
		if !ok {
			return
		}
		k := known{logStart: -1}
		for _, kind := range []byte(shardKinds) {
			_ = k.take(kind, rest, value)
		}
		if e, ok := parseIndexEntry(key, value); ok && e.position < segmentHeaderSize {
			t.Fatal("entry before the first append")
		}
	})
}

func TestIndexValuesRoundTrip(t *testing.T) {
	c := checkpointValue{segment: 3, position: 500, next: 9, highWatermark: 8, epochs: epochList{{1, 2}, {4, 7}}}
	var c2 checkpointValue
	if err := c2.parse(c.append(nil)); err != nil || c2.segment != 3 || c2.position != 500 || len(c2.epochs) != 2 || c2.epochs[1] != c.epochs[1] {
		t.Errorf("checkpoint %+v, %v", c2, err)
	}
	m := segmentMeta{4, 1, true, 3, 9, 500, 2, 77, -1 << 63, -1, 78}
	var m2 segmentMeta
	if err := m2.parse(appendSegmentKey(nil, testID(1), 4)[shardKeySize:], m.append(nil)); err != nil || m2 != m {
		t.Errorf("segment %+v, %v", m2, err)
	}
	p, err := parseProducer(appendProducerKey(nil, testID(1), 9)[shardKeySize:],
		appendProducerValue(nil, 3, 4, []producerBatch{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}}))
	if err != nil || p.id != 9 || p.epoch != 3 || p.seen != 4 || len(p.batches) != 2 || p.batches[1].lastOffset != 9 {
		t.Errorf("producer %+v, %v", p, err)
	}
	if id, ok := parseShardName(testID(5).String()); !ok || id != testID(5) {
		t.Errorf("shard name %v", id)
	}
	for _, name := range []string{"", "x", "0-1", strings.Repeat("0", 32), strings.Repeat("0", 32) + "-01", strings.Repeat("Z", 32) + "-1", strings.Repeat("0", 32) + "--1"} {
		if _, ok := parseShardName(name); ok {
			t.Errorf("%q is taken for a shard", name)
		}
	}
	_ = model.HeaderSize
}
