package fields

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

func TestReaderReadsWhatWasWritten(t *testing.T) {
	src := AppendText([]byte{7}, "text")
	src = binary.AppendVarint(src, math.MinInt32)
	src = binary.AppendUvarint(src, math.MaxUint64)
	src = binary.BigEndian.AppendUint64(src, 9)
	id := [16]byte{0: 1, 15: 2}
	src = append(src, id[:]...)
	src = binary.AppendUvarint(src, 2)
	src = append(src, 3, 4)
	r := New(src)
	if b, s, i, u, f := r.Byte(), r.Text(), r.Int32(), r.Uvarint(), r.Uint64(); b != 7 || s != "text" || i != math.MinInt32 || u != math.MaxUint64 || f != 9 {
		t.Error(b, s, i, u, f)
	}
	if got := r.ID(); got != id {
		t.Error(got)
	}
	if n := r.Count(1); n != 2 || r.End() == nil {
		t.Errorf("%d elements, %v", n, r.Err())
	}
	r.Skip(2)
	if len(r.Rest()) != 0 {
		t.Error("bytes are left over")
	}
}

// TestReaderGoesBadOnce holds that the first fault stays, and that every field after it is zero.
func TestReaderGoesBadOnce(t *testing.T) {
	for name, fault := range map[string]func(r *Reader){
		"take":    func(r *Reader) { r.Take(4) },
		"count":   func(r *Reader) { r.Count(2) }, // three elements of two bytes in two bytes
		"text":    func(r *Reader) { _ = r.Text() },
		"uint64":  func(r *Reader) { r.Uint64() },
		"uvarint": func(r *Reader) { r.Take(3); r.Uvarint() },
		"varint":  func(r *Reader) { r.Take(3); r.Varint() },
	} {
		r := New([]byte{3, 1, 1})
		fault(&r)
		r.Fail(errors.New("another"))
		if !errors.Is(r.Err(), ErrTruncated) || r.Byte() != 0 || r.Varint() != 0 || r.Text() != "" || r.End() == nil {
			t.Errorf("%s: %v", name, r.Err())
		}
	}
	r := New(binary.AppendVarint(nil, math.MaxInt32+1))
	if v := r.Int32(); v != 0 || r.Err() == nil {
		t.Error(v, r.Err())
	}
}
