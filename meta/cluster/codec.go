package cluster

import (
	"encoding/binary"
	"time"

	"millrace/perf/fields"
)

// The bytes of commands, results and snapshots: integers are varints, strings and lists begin with their
// length, maps are written in the order of their keys.

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
		dst = fields.AppendText(dst, k)
		dst = fields.AppendText(dst, m[k])
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
	return fields.AppendText(dst, o.Message)
}

// reader reads what the append functions wrote.
type reader struct{ fields.Reader }

func (r *reader) ints() []int32 {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = r.Int32()
	}
	return list
}

func (r *reader) strings() map[string]string {
	n := r.Count(2)
	if n == 0 {
		return nil
	}
	m := make(map[string]string, n)
	for range n {
		k := r.Text()
		m[k] = r.Text()
	}
	return m
}

func (r *reader) time() time.Time { return time.UnixMilli(r.Varint()).UTC() }

func (r *reader) outcome() Outcome {
	o := Outcome{Code: Code(r.Byte())}
	if o.Code != OK {
		o.Message = r.Text()
	}
	return o
}
