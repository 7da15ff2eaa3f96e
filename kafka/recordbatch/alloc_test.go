//go:build !race

package recordbatch

import (
	"testing"

	"millrace/engine/model"
	"millrace/perf"
)

// TestNoAllocations pins what decoding and encoding allocate a batch in the steady state: nothing, also for
// compressed batches as far as the libraries allow. The race detector makes
// pools forget on purpose, hence the build tag.
func TestNoAllocations(t *testing.T) {
	records, raw := codecRecords()
	for codec := model.CodecNone; codec <= model.CodecZstd; codec++ {
		wire := compressed(codec, records, compressBody(t, codec, raw))
		d := NewDecoder(perf.NewPool(64<<20), func(int64) bool { return true })
		limits := testLimits()
		buf := make([]byte, 0, 1<<20)
		var batch Batch
		var bld model.Builder
		var h model.AppendHeader
		decode := func() {
			if err := batch.ParseProduced(wire, 1<<20); err != nil {
				t.Fatal(err)
			}
			if err := d.Open(&batch, &limits); err != nil {
				t.Fatal(err)
			}
			d.Header(&h)
			bld.Begin(buf, testIdentity, &h, 0)
			if err := d.EncodeAppend(&bld, 0); err != nil {
				t.Fatal(err)
			}
			bld.Finish(nil)
			d.Close()
		}
		allowed := 0.0
		if codec == model.CodecGzip {
			allowed = 2 // the library's tables for long Huffman codes
		}
		if n := testing.AllocsPerRun(20, decode); n > allowed {
			t.Errorf("decoding %s: %v allocations", codec, n)
		}
	}
	b := newTestBatch(someRecords(3000))
	span := storeBatch(t, b.encode(), 0)
	dst := make([]byte, 0, 1<<20)
	in := Input{Identity: testIdentity, UpTo: 1 << 40, MaxBytes: 1 << 20}
	var res Result
	if n := testing.AllocsPerRun(20, func() {
		in.Span, in.AtBlock = span, false
		if _, err := AppendBatches(dst, &in, &res); err != nil || res.Records != 3000 {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("encoding: %v allocations", n)
	}
}
