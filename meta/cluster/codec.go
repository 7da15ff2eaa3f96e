package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// The bytes of commands, results and snapshots: integers are varints, strings and lists begin with their
// length, maps are written in the order of their keys.

var errTruncated = errors.New("bytes end too early")

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendInts(dst []byte, list []int32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, v := range list {
		dst = binary.AppendVarint(dst, int64(v))
	}
	return dst
}

func appendMap(dst []byte, m map[string]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m)))
	for _, k := range sortedKeys(m) {
		dst = appendString(dst, k)
		dst = appendString(dst, m[k])
	}
	return dst
}

func appendTime(dst []byte, t time.Time) []byte {
	return binary.AppendVarint(dst, t.UnixMilli())
}

func appendOutcome(dst []byte, o Outcome) []byte {
	dst = append(dst, byte(o.Code))
	if o.Code == OK {
		return dst
	}
	return appendString(dst, o.Message)
}

// reader reads what the append functions wrote. It goes bad once: after that it returns zero values, and
// err says what the first fault was.
type reader struct {
	src []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.src = nil
}

func (r *reader) byte() byte {
	if len(r.src) < 1 {
		r.fail(errTruncated)
		return 0
	}
	b := r.src[0]
	r.src = r.src[1:]
	return b
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.src) {
		r.fail(errTruncated)
		return nil
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) id() (id [16]byte) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.src)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.src)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *reader) int32() int32 {
	v := r.varint()
	if int64(int32(v)) != v {
		r.fail(fmt.Errorf("number %d does not fit 32 bits", v))
		return 0
	}
	return int32(v)
}

// count reads the length of a list whose elements take at least elementBytes each, so that a list can
// never claim more memory than a multiple of the bytes that are really there.
func (r *reader) count(elementBytes int) int {
	n := r.uvarint()
	if n > uint64(len(r.src)/elementBytes) {
		r.fail(errTruncated)
		return 0
	}
	return int(n)
}

func (r *reader) string() string { return string(r.take(r.count(1))) }

func (r *reader) ints() []int32 {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = r.int32()
	}
	return list
}

func (r *reader) strings() map[string]string {
	n := r.count(2)
	if n == 0 {
		return nil
	}
	m := make(map[string]string, n)
	for range n {
		k := r.string()
		m[k] = r.string()
	}
	return m
}

func (r *reader) time() time.Time { return time.UnixMilli(r.varint()).UTC() }

func (r *reader) outcome() Outcome {
	o := Outcome{Code: Code(r.byte())}
	if o.Code != OK {
		o.Message = r.string()
	}
	return o
}

// end is the fault of the whole, also when bytes are left over.
func (r *reader) end() error {
	if r.err == nil && len(r.src) > 0 {
		r.err = fmt.Errorf("%d bytes are left over", len(r.src))
	}
	return r.err
}
