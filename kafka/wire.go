package kafka

import "encoding/binary"

// wireReader walks a frame in place. It goes bad once, then yields zero values: check bad at the end.
type wireReader struct {
	b        []byte
	flexible bool
	bad      bool
	fields   int // tagged ones so far
}

func (r *wireReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *wireReader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *wireReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *wireReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *wireReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// uvarint reads an unsigned varint of 32 bits, in at most five bytes.
func (r *wireReader) uvarint() uint32 {
	v, n := binary.Uvarint(r.b[:min(len(r.b), 5)])
	if n <= 0 || v > 1<<32-1 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

// length reads a length that may say null (-1). Any negative length is null, as Kafka takes it.
func (r *wireReader) length(short bool) int {
	switch {
	case r.flexible:
		return int(r.uvarint()) - 1
	case short:
		return int(r.int16())
	}
	return int(r.int32())
}

// string reads a nullable string, in place. null is reported by ok = false.
func (r *wireReader) string() (s []byte, ok bool) {
	n := r.length(true)
	if n < 0 {
		return nil, false
	}
	return r.take(n), true
}

// bytes reads nullable bytes, in place.
func (r *wireReader) bytes() (b []byte, ok bool) {
	n := r.length(false)
	if n < 0 {
		return nil, false
	}
	return r.take(n), true
}

// array reads the number of elements of an array of which each takes elementBytes or more; null is 0. A
// count that the rest of the frame cannot hold makes the reader bad.
func (r *wireReader) array(elementBytes int) int {
	n := r.length(false)
	if n > arrayElementsMax || n > len(r.b)/elementBytes {
		r.bad, r.b = true, nil
		return 0
	}
	return max(n, 0)
}

// tagged says which tagged fields the protocol knows in a place.
type tagged uint8

const (
	noneTagged tagged = iota
	taggedInFetch
	taggedInFetchedPartition
)

// known reads a tagged field that the protocol knows: consumers send none. It returns false for another.
func (r *wireReader) known(place tagged, tag uint32) bool {
	switch {
	case place == taggedInFetch && tag == 0:
		r.string() // the id of the cluster
	case place == taggedInFetch && tag == 1: // the state of the replica
		r.take(12)
		r.tags(noneTagged)
	case place == taggedInFetchedPartition && tag == 0:
		r.take(16) // the id of the directory
	case place == taggedInFetchedPartition && tag == 1:
		r.take(8) // the high watermark
	default:
		return false
	}
	return true
}

// tags walks a section of tagged fields, if this version has them. A known one must hold what it should and no more.
func (r *wireReader) tags(place tagged) {
	if !r.flexible {
		return
	}
	n := r.uvarint()
	if r.fields += int(n); n > taggedFieldsMax || r.fields > taggedFieldsOfAllMax {
		r.bad, r.b = true, nil
		return
	}
	for ; n > 0 && !r.bad; n-- {
		tag := r.uvarint()
		content := r.take(int(r.uvarint()))
		if place == noneTagged || r.bad {
			continue
		}
		rest := r.b
		r.b = content
		if r.known(place, tag) && len(r.b) > 0 {
			r.bad = true
		}
		r.b = rest
		if r.bad {
			r.b = nil
		}
	}
}

// header is a parsed request header.
type header struct {
	key         int16
	version     int16
	correlation int32
	clientID    []byte
}

// parseHeaderStart reads the part of the header that is the same in every version.
func (h *header) parseStart(r *wireReader) {
	h.key, h.version, h.correlation = r.int16(), r.int16(), r.int32()
}

// parseRest reads the client id and, where the API's version is flexible, the tagged fields. The client id
// is never compact.
func (h *header) parseRest(r *wireReader, flexible bool) {
	r.flexible = false
	h.clientID, _ = r.string()
	r.flexible = flexible
	r.tags(noneTagged)
}

func appendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// appendArrayLength announces n elements.
func appendArrayLength(b []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(b, uint64(n)+1)
	}
	return appendInt32(b, int32(n))
}

// appendString writes a string that is not null.
func appendString[T string | []byte](b []byte, s T, flexible bool) []byte {
	if flexible {
		b = binary.AppendUvarint(b, uint64(len(s))+1)
	} else {
		b = appendInt16(b, int16(len(s)))
	}
	return append(b, s...)
}

// appendNullString writes a null string.
func appendNullString(b []byte, flexible bool) []byte {
	if flexible {
		return append(b, 0)
	}
	return appendInt16(b, -1)
}

// appendNoTags ends a struct of a flexible version.
func appendNoTags(b []byte, flexible bool) []byte {
	if flexible {
		return append(b, 0)
	}
	return b
}

// beginReply reserves the length prefix and writes the response header.
func beginReply(b []byte, correlation int32, flexible bool) []byte {
	b = appendInt32(b, 0)
	b = appendInt32(b, correlation)
	return appendNoTags(b, flexible)
}

// endReply fills the length prefix of a reply that stands at the beginning of b.
func endReply(b []byte) { binary.BigEndian.PutUint32(b, uint32(len(b)-4)) }
