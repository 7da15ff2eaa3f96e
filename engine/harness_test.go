package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"millrace/diskio"
	"millrace/engine/model"
)

// testSink collects finished appends.
type testSink struct {
	mu       sync.Mutex
	done     []*Append
	advanced map[*Shard]int
	signal   chan struct{}
}

func newTestSink() *testSink {
	return &testSink{signal: make(chan struct{}, 1), advanced: map[*Shard]int{}}
}

func (s *testSink) Complete(done *Append, advanced []*Shard) {
	s.mu.Lock()
	for a := done; a != nil; {
		next := a.Next
		a.Next = nil
		s.done = append(s.done, a)
		a = next
	}
	for _, sh := range advanced {
		s.advanced[sh]++
	}
	s.mu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// wait returns n finished appends.
func (s *testSink) wait(t testing.TB, n int) []*Append {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		if len(s.done) >= n {
			out := s.done[:n:n]
			s.done = s.done[n:]
			s.mu.Unlock()
			return out
		}
		s.mu.Unlock()
		select {
		case <-s.signal:
		case <-deadline:
			t.Fatalf("appends do not finish: wanted %d, have %d", n, len(s.done))
		}
	}
}

// testBatch encodes values of records.
type testBatch struct {
	values    [][]byte
	timestamp int64
	deltas    []int64
	keyed     bool // each record has the key that keyOf makes of its value
	err       error
}

// keyOf makes one of 16 keys of a value of batchOf.
func keyOf(value []byte) []byte { return []byte{'a' + (value[7]*3+value[15])%16} }

func (b *testBatch) SizeBound() int {
	n := 0
	for _, v := range b.values {
		n += len(v)
	}
	return model.SizeBound(len(b.values), n+len(b.values)) // of each a key of one byte
}

func (b *testBatch) EncodeAppend(builder *model.Builder, base int64) error {
	if b.err != nil {
		return b.err
	}
	builder.Header.BaseTimestamp = b.timestamp
	most := b.timestamp
	for i, v := range b.values {
		r := model.Record{Offset: base + int64(i), Value: v}
		if b.keyed {
			r.Key = keyOf(v)
		}
		if b.deltas != nil {
			r.TimestampDelta = b.deltas[i]
		}
		most = max(most, b.timestamp+r.TimestampDelta)
		builder.Add(&r)
	}
	builder.Header.MaxTimestamp = most
	return nil
}

func batchOf(n, size int, tag int64) *testBatch {
	b := &testBatch{timestamp: 1000 + tag}
	for i := range n {
		v := make([]byte, max(size, 16))
		binary.BigEndian.PutUint64(v, uint64(tag))
		binary.BigEndian.PutUint64(v[8:], uint64(i))
		b.values = append(b.values, v)
	}
	return b
}

func appendOf(b *testBatch) *Append {
	a := &Append{ExpectedEpoch: -1}
	a.Header = model.AppendHeader{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}
	a.Header.LastOffset = int64(len(b.values) - 1)
	return a
}

// testStore is a store over real files.
type testStore struct {
	*Store
	t    testing.TB
	dir  string
	fs   diskio.FS
	sink *testSink
	opts Options
}

func testOptions(t testing.TB, dir string) Options {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fsys, err := diskio.Open(dir, diskio.Options{Backend: cmp.Or(os.Getenv("MILLRACE_TEST_BACKEND"), diskio.BackendAuto)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fsys.Close() })
	level := slog.LevelError + 4
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	return Options{Dir: dir, FS: fsys, Logger: logger, ReserveBytes: 1}
}

func openTest(t testing.TB, o Options) *testStore {
	t.Helper()
	sink := newTestSink()
	o.Sinks = []Sink{sink}
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	ts := &testStore{Store: s, t: t, dir: o.Dir, fs: o.FS, sink: sink, opts: o}
	t.Cleanup(func() { s.Close() })
	return ts
}

func testID(n int) model.ShardID {
	var id model.ShardID
	binary.BigEndian.PutUint64(id.Topic[:], uint64(n)+1)
	id.Partition = int32(n)
	return id
}

func (s *testStore) shard(n int, c ShardConfig) *Shard {
	s.t.Helper()
	sh, err := s.EnsureShard(testID(n), ShardSpec{TopicName: fmt.Sprintf("topic-%d", n), LeaderEpoch: 0, Config: c})
	if err != nil {
		s.t.Fatal(err)
	}
	return sh
}

// append submits and waits.
func (s *testStore) append(sh *Shard, b *testBatch) *Append {
	s.t.Helper()
	a := appendOf(b)
	if err := sh.Submit(a, b); err != nil {
		s.t.Fatal(err)
	}
	return s.sink.wait(s.t, 1)[0]
}

// readAll returns the values from an offset to the log end by reading spans of at most maxBytes, checking
// that every offset comes once and in order where gaps is false.
func readAll(t testing.TB, sh *Shard, from int64, maxBytes int) map[int64][]byte {
	t.Helper()
	out, err := tryReadAll(t, sh, from, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryReadAll(t testing.TB, sh *Shard, from int64, maxBytes int) (map[int64][]byte, error) {
	t.Helper()
	out := map[int64][]byte{}
	var sp Span
	defer sp.Release()
	for next := from; ; {
		err := sh.Read(&sp, next, 1<<62, maxBytes)
		if isNeedsLoad(err) {
			err = sh.ReadBlocking(&sp, next, 1<<62, maxBytes)
		}
		if err != nil {
			return out, fmt.Errorf("read %d: %w", next, err)
		}
		if sp.Len() == 0 {
			return out, nil
		}
		if !sp.Resident() {
			if err := sp.Load(); err != nil {
				return out, err
			}
		}
		after := parseSpan(t, sh, &sp, func(r *model.Record) {
			if r.Offset < sp.Offset {
				return
			}
			if _, twice := out[r.Offset]; twice {
				t.Fatalf("offset %d comes twice", r.Offset)
			}
			out[r.Offset] = append([]byte(nil), r.Value...)
		})
		if after <= next {
			t.Fatalf("read at %d makes no progress (%d bytes at %s)", next, sp.Len(), sp.Place())
		}
		next = after
	}
}

// parseSpan is walkSpan of a span that is whole.
func parseSpan(t testing.TB, sh *Shard, sp *Span, visit func(*model.Record)) (next int64) {
	t.Helper()
	next, err := walkSpan(sh, sp, visit)
	if err != nil {
		t.Fatalf("%s: %v", sp.Place(), err)
	}
	return next
}

// walkSpan verifies and walks a span and returns the offset after its last record.
func walkSpan(sh *Shard, sp *Span, visit func(*model.Record)) (next int64, err error) {
	b := sp.Bytes()
	h := sp.Header
	inside := sp.AtBlock
	left := 0
	for len(b) > 0 {
		if !inside {
			if err := h.Parse(b, sh.Identity()); err != nil {
				return next, err
			}
			b = b[model.HeaderSize:]
			inside = true
			left = int(h.BlockCount)
			if left == 0 {
				inside = false
				next = h.LastOffset + 1
				continue
			}
		}
		var block model.BlockHeader
		if err := block.Verify(b, sh.Identity()); err != nil {
			return next, fmt.Errorf("block: %w", err)
		}
		for rest := b[model.BlockHeaderSize:block.Size()]; len(rest) > 0; {
			var r model.Record
			n, err := model.ParseRecord(rest, &r)
			if err != nil {
				return next, err
			}
			visit(&r)
			next = r.Offset + 1
			rest = rest[n:]
		}
		b = b[block.Size():]
		if block.Last {
			inside = false
			next = h.LastOffset + 1
		}
	}
	return next, nil
}

func parseSpanUntil(t testing.TB, sh *Shard, sp *Span, visit func(offset int64)) {
	t.Helper()
	parseSpan(t, sh, sp, func(r *model.Record) { visit(r.Offset) })
}
