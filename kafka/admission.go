package kafka

import (
	"encoding/binary"
	"errors"
	"math"
)

// Limits on what one request may announce. They are those of Apache Kafka 4.4.
const (
	arrayElementsMax = 1_000_000
	taggedFieldsMax  = 10_000
)

// taggedFieldsOfAllMax bounds the tagged fields of a Produce or Fetch in all, which an event loop walks over. Clients
// send one or two.
const taggedFieldsOfAllMax = 10 * taggedFieldsMax

// Faults that estimate finds. Each costs the sender the connection.
var (
	errTruncated = errors.New("request ends before its fields do")
	errLength    = errors.New("a length in the request reaches beyond its end")
	errNull      = errors.New("a field that must have a value is null")
	errElements  = errors.New("an array in the request announces too many elements")
	errTags      = errors.New("the request announces too many tagged fields")
	errSchema    = errors.New("no layout is known for the request")
)

// What kmsg's decoding takes beside the structs themselves, measured by TestEstimateCoversHeap: a slice or
// string is rounded up to a size class (by at most a sixth and 16 bytes) or, above 32 KiB, to pages, and
// unknown tagged fields go into a Go map, one a struct that carries any.
const (
	allocationBytes  = 16
	pagedBytes       = 32 << 10
	pageBytes        = 8 << 10
	stringBytes      = 16  // the string header that a nullable string is allocated with
	tagMapBytes      = 352 // a map of up to 8 entries
	tagMapGrownBytes = 144 // each entry of a larger one, with the tables it outgrew
	tagMapSmall      = 8
)

// walker reads one request body against the table of its fields. It goes bad once and is checked once.
type walker struct {
	src      []byte
	version  int16
	flexible bool
	decoded  int64 // bytes of heap that kmsg's structs will take
	reply    int64 // bytes of heap that the structs of the reply take for what the request names
	err      error
}

// estimate counts what decoding body takes and what the reply's structs take for the elements that it
// names, in bytes of heap, and checks the whole structure on the way: what it lets through, kmsg decodes
// without an error and without an allocation that the estimate does not cover. Bytes behind the last field
// are allowed, as in Kafka. It does not allocate, and its time is linear in the length of body.
func (a *api) estimate(version int16, body []byte) (bytes int64, err error) {
	w := a.walk(version, body)
	return w.decoded + w.reply, w.err
}

func (a *api) walk(version int16, body []byte) walker {
	w := walker{src: body, version: version, flexible: a.flexible >= 0 && version >= a.flexible}
	if a.request == nil {
		w.fail(errSchema)
		return w
	}
	w.decoded = a.request.heap
	w.reply = a.request.reply
	w.structure(a.request.fields)
	return w
}

func (w *walker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
	w.src = nil
}

// structure walks the fields of one struct and the tagged fields behind them.
func (w *walker) structure(fields []field) {
	for i := range fields {
		f := &fields[i]
		if w.version < f.min || w.version > f.max {
			continue
		}
		switch f.kind {
		case kindFixed:
			w.skip(int(f.width))
		case kindString:
			w.str(f)
		case kindBytes:
			w.bytes(f)
		case kindArray:
			w.array(f)
		case kindOptional:
			w.optional(f)
		}
		if w.err != nil {
			return
		}
	}
	if w.flexible {
		w.tags()
	}
}

func (w *walker) skip(n int) {
	if n > len(w.src) {
		w.fail(errTruncated)
		return
	}
	w.src = w.src[n:]
}

// length reads how long a string is (of two bytes), bytes or an array (of four). It is false for null.
func (w *walker) length(width int, f *field) (n int, ok bool) {
	n = -1
	if w.flexible {
		n = w.compactLength()
	} else if b := w.take(width); b != nil {
		n = int(int16(binary.BigEndian.Uint16(b)))
		if width == 4 {
			n = int(int32(binary.BigEndian.Uint32(b)))
		}
	}
	if n < 0 && !f.nullable(w.version) {
		w.fail(errNull)
	}
	return n, n >= 0 && w.err == nil
}

// content walks over n bytes that were announced.
func (w *walker) content(n int) {
	if n > len(w.src) {
		w.fail(errLength)
		return
	}
	w.src = w.src[n:]
}

func (w *walker) str(f *field) {
	n, ok := w.length(2, f)
	if !ok {
		return
	}
	w.content(n)
	w.decoded += f.heap
	if n > 0 {
		w.decoded += rounded(int64(n))
	}
}

// bytes walks over bytes, which kmsg does not copy.
func (w *walker) bytes(f *field) {
	if n, ok := w.length(4, f); ok {
		w.content(n)
	}
}

func (w *walker) array(f *field) {
	n, ok := w.length(4, f)
	if !ok {
		return
	}
	if n > arrayElementsMax {
		w.fail(errElements)
		return
	}
	if n > len(w.src) { // no element is shorter than a byte
		w.fail(errLength)
		return
	}
	if n == 0 {
		return
	}
	w.decoded += rounded(int64(n) * f.heap)
	w.reply += rounded(int64(n) * f.reply)
	switch {
	case f.width > 0:
		w.skip(n * int(f.width))
	case f.strings:
		element := field{kind: kindString, nullFrom: neverNull}
		for ; n > 0 && w.err == nil; n-- {
			w.str(&element)
		}
	default:
		for ; n > 0 && w.err == nil; n-- {
			w.structure(f.fields)
		}
	}
}

// optional is a struct behind a byte that says whether it is there: -1 for null, as in Kafka's schemas.
func (w *walker) optional(f *field) {
	b := w.take(1)
	if b == nil || int8(b[0]) < 0 {
		if b != nil && int8(b[0]) != -1 {
			w.fail(errNull)
		}
		return
	}
	w.decoded += rounded(f.heap)
	w.structure(f.fields)
}

func (w *walker) tags() {
	n := w.uvarint()
	if w.err != nil || n == 0 {
		return
	}
	if n > taggedFieldsMax {
		w.fail(errTags)
		return
	}
	w.decoded += tagMapBytes
	if n > tagMapSmall {
		w.decoded += int64(n) * tagMapGrownBytes
	}
	for ; n > 0 && w.err == nil; n-- {
		w.uvarint()
		size := w.uvarint()
		if w.err == nil && uint64(size) > uint64(len(w.src)) {
			w.fail(errLength)
			return
		}
		if w.err == nil {
			w.src = w.src[size:]
		}
	}
}

// compactLength reads a length that stands as an unsigned varint one higher; -1 is null.
func (w *walker) compactLength() int {
	n := w.uvarint()
	if n > math.MaxInt32 {
		w.fail(errLength)
		return -1
	}
	return int(n) - 1
}

// uvarint reads an unsigned varint of 32 bits in at most five bytes. A fifth byte with bits beyond the
// 32nd is malformed.
func (w *walker) uvarint() uint32 {
	if len(w.src) > 0 && w.src[0] < 0x80 {
		v := w.src[0]
		w.src = w.src[1:]
		return uint32(v)
	}
	v, n := binary.Uvarint(w.src[:min(len(w.src), 5)])
	if n <= 0 || v > math.MaxUint32 {
		w.fail(errTruncated)
		return 0
	}
	w.src = w.src[n:]
	return uint32(v)
}

func (w *walker) take(n int) []byte {
	if n > len(w.src) {
		w.fail(errTruncated)
		return nil
	}
	b := w.src[:n]
	w.src = w.src[n:]
	return b
}

// rounded is what an allocation of n bytes may take: the next size class, or whole pages.
func rounded(n int64) int64 {
	if n > pagedBytes {
		return n + pageBytes + allocationBytes
	}
	return n + n/6 + allocationBytes
}
