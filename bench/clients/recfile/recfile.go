// Package recfile is the input of an end-to-end run: records one behind the other, big-endian,
//
//	timestamp int64 | key length int32 (-1 null), key | value length int32 (-1 null), value |
//	headers int32, each: name length int32, name, value length int32 (-1 null), value
//
// A client that consumed a partition from offset 0 encodes each record in the same way; if the SHA-256 over these
// bytes is that of the file, then bytes, nulls, headers, times and order are the same.
package recfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// Header is one header. A nil Value is null.
type Header struct {
	Name  string
	Value []byte
}

// Record is one record. A nil Key or Value is null, an empty one is empty.
type Record struct {
	Timestamp  int64 // milliseconds
	Key, Value []byte
	Headers    []Header
}

// Append encodes r behind dst.
func Append(dst []byte, r Record) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Timestamp))
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(h.Name)))
		dst = append(dst, h.Name...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.BigEndian.AppendUint32(dst, 0xffffffff)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// Read returns the next record; io.EOF after the last one.
func Read(r *bufio.Reader) (Record, error) {
	var rec Record
	var first [8]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return rec, err
	}
	rec.Timestamp = int64(binary.BigEndian.Uint64(first[:]))
	var err error
	rec.Key = readBytes(r, &err)
	rec.Value = readBytes(r, &err)
	for range readLength(r, &err) {
		rec.Headers = append(rec.Headers, Header{Name: string(readBytes(r, &err)), Value: readBytes(r, &err)})
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return rec, err
}

func readLength(r *bufio.Reader, err *error) int32 {
	var b [4]byte
	if *err == nil {
		_, *err = io.ReadFull(r, b[:])
	}
	if *err != nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b[:]))
}

func readBytes(r *bufio.Reader, err *error) []byte {
	n := readLength(r, err)
	if n < 0 || *err != nil {
		return nil
	}
	b := make([]byte, n)
	_, *err = io.ReadFull(r, b)
	return b
}
