package bench

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWarmPages(t *testing.T) {
	w, err := NewWarmPages()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if err := w.Hold(ctx, 2*warmChunk); !errors.Is(err, stopped) || w.held != 0 {
		t.Fatalf("%v, with %d bytes held", err, w.held)
	}
	s := Settings{Rate: 1000, Batch: 1, Size: 8000, Duration: 500 * time.Millisecond, Warmup: 500 * time.Millisecond}
	if err := w.holdFor(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	const want = 8_000_000 + aheadBytes
	if w.held < want || w.held > want+warmChunk {
		t.Fatalf("%d bytes held for a second at 8 MB/s", w.held)
	}
	w.giving.Wait() // it ends when all is given, of which a second's share becomes old by itself
	if w.freed != w.held {
		t.Fatalf("%d of %d bytes given", w.freed, w.held)
	}
	err = w.Hold(t.Context(), warmChunk)
	if w.stop(); err != nil || w.held-w.freed > warmChunk || w.held < want+warmChunk {
		t.Fatalf("%v, [%d, %d) held", err, w.freed, w.held)
	}
}
