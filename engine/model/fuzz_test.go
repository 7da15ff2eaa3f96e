package model

import (
	"bytes"
	"testing"
)

func addGolden(f *testing.F, from int) {
	for _, b := range goldenAppends() {
		if from < len(b) {
			f.Add(b[from:])
		}
	}
	f.Add(make([]byte, 200))
}

// FuzzParseAppendHeader: no bytes panic, and what is accepted is written back as it was.
func FuzzParseAppendHeader(f *testing.F) {
	addGolden(f, 0)
	f.Fuzz(func(t *testing.T, b []byte) {
		var h AppendHeader
		if len(b) >= HeaderSize { // let the fuzzer past the checksum
			b = patched(b, func([]byte) {})
		}
		if h.Parse(b, identity) != nil {
			return
		}
		var out [HeaderSize]byte
		h.Put(out[:])
		if !bytes.Equal(out[:], b[:HeaderSize]) {
			t.Errorf("%x written as %x", b[:HeaderSize], out)
		}
	})
}

// FuzzScanAppend: no bytes panic, also where every checksum is right.
func FuzzScanAppend(f *testing.F) {
	addGolden(f, 0)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= HeaderSize {
			b = patched(b, func([]byte) {})
		}
		for pos := HeaderSize; pos < len(b); {
			var block BlockHeader
			if block.Parse(b[pos:]) != nil || block.Size() > len(b)-pos {
				break
			}
			flags := b[pos+16]
			putBlock(b[pos:pos+block.Size()], block.Back, block.Count, flags, identity)
			pos += block.Size()
		}
		h, n, err := ScanAppend(b, identity, -1, 0)
		if err == nil && (n != int(h.Length) || n > len(b)) {
			t.Errorf("%d bytes of %d, length %d", n, len(b), h.Length)
		}
	})
}

// FuzzParseRecord: no bytes panic, what is accepted is written back so that it reads the same, and the
// short path agrees with the long one.
func FuzzParseRecord(f *testing.F) {
	addGolden(f, HeaderSize+BlockHeaderSize)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Record
		n, err := ParseRecord(b, &r)
		offset, delta, value, short := ParseValue(b)
		if short != 0 && (err != nil || short != n || offset != r.Offset || delta != r.TimestampDelta ||
			!bytes.Equal(value, r.Value) || (value == nil) != (r.Value == nil) || r.Key != nil || r.Headers != nil) {
			t.Fatalf("ParseValue %d %d %x %d, ParseRecord %+v %d %v", offset, delta, value, short, r, n, err)
		}
		if err != nil {
			return
		}
		flags, metadata := r.layout()
		out := make([]byte, RecordOverhead+metadata+len(r.ProtocolData)+len(r.Value))
		r.put(out, flags, metadata)
		var again Record
		if m, err := ParseRecord(out, &again); err != nil || m != len(out) || m > n {
			t.Fatalf("%x read as %+v written as %x: %v", b[:n], r, out, err)
		}
		if r.Offset != again.Offset || r.TimestampDelta != again.TimestampDelta || r.Expiry != again.Expiry ||
			(r.Key == nil) != (again.Key == nil) || (r.Value == nil) != (again.Value == nil) ||
			!bytes.Equal(r.Key, again.Key) || !bytes.Equal(r.Value, again.Value) ||
			!bytes.Equal(r.Headers, again.Headers) || !bytes.Equal(r.ProtocolData, again.ProtocolData) {
			t.Fatalf("%+v came back as %+v", r, again)
		}
	})
}
