// Package fields reads and writes the fields that replicated state is made of: integers are varints, strings and lists
// begin with their length.
package fields

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrTruncated says that the bytes end before what they announce.
var ErrTruncated = errors.New("bytes end too early")

// AppendText appends a string with its length.
func AppendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Reader reads fields one after the other. It goes bad once: after that every field is zero, and Err says what the
// first fault was. Nothing that it returns but Take's bytes shares memory with what it reads.
type Reader struct {
	src []byte
	err error
}

// New is a reader of src, which it does not change.
func New(src []byte) Reader { return Reader{src: src} }

// Rest is what was not read yet.
func (r *Reader) Rest() []byte { return r.src }

// Skip leaves out n bytes of the rest.
func (r *Reader) Skip(n int) { r.Take(n) }

// Err is the first fault.
func (r *Reader) Err() error { return r.err }

// End is the fault of the whole, also when bytes are left over.
func (r *Reader) End() error {
	if r.err == nil && len(r.src) > 0 {
		r.err = fmt.Errorf("%d bytes are left over", len(r.src))
	}
	return r.err
}

// Fail makes the reader bad.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.src = nil
}

// Take returns the next n bytes, within what is read.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.src) {
		r.Fail(ErrTruncated)
		return nil
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint64 reads eight bytes, the highest first.
func (r *Reader) Uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// ID reads 16 bytes.
func (r *Reader) ID() (id [16]byte) {
	copy(id[:], r.Take(len(id)))
	return id
}

// Uvarint reads a number that is not negative.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.src)
	if n <= 0 {
		r.Fail(ErrTruncated)
		return 0
	}
	r.src = r.src[n:]
	return v
}

// Varint reads a number.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.src)
	if n <= 0 {
		r.Fail(ErrTruncated)
		return 0
	}
	r.src = r.src[n:]
	return v
}

// Int32 reads a number of 32 bits.
func (r *Reader) Int32() int32 {
	v := r.Varint()
	if int64(int32(v)) != v {
		r.Fail(fmt.Errorf("number %d does not fit 32 bits", v))
		return 0
	}
	return int32(v)
}

// Count reads the length of a list whose elements take at least elementBytes each, so that no list claims more memory
// than a multiple of the bytes that are really there.
func (r *Reader) Count(elementBytes int) int {
	n := r.Uvarint()
	if n > uint64(len(r.src)/elementBytes) {
		r.Fail(ErrTruncated)
		return 0
	}
	return int(n)
}

// Text reads a string.
func (r *Reader) Text() string { return string(r.Take(r.Count(1))) }
