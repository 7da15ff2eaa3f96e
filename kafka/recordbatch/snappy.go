package recordbatch

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/klauspost/compress/snappy"
)

// The framing of snappy-java, which the Java client writes: a header of 16 bytes, then chunks of a
// big-endian length and a snappy block. Others write one bare block.
const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeaderSize = len(xerialMagic) + 8 // version and least compatible version follow
)

// snappyFactorMax is more than a snappy block can grow by: its longest copy makes 64 bytes of 3.
const snappyFactorMax = 64

var errSnappyLength = errors.New("a length is wrong")

// decodeSnappy decompresses a bare block or framed chunks. The versions of the framing are not looked at:
// clients exist that write 0 or the wrong byte order.
func decodeSnappy(src []byte, s *scratch) error {
	if !isXerial(src) {
		return decodeSnappyBlock(src, s)
	}
	for len(src) > 0 {
		if isXerial(src) { // streams may follow one another
			src = src[xerialHeaderSize:]
			continue
		}
		if len(src) < 4 {
			return errSnappyLength
		}
		size := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(size) > uint64(len(src)) {
			return errSnappyLength
		}
		if size > 0 {
			if err := decodeSnappyBlock(src[:size], s); err != nil {
				return err
			}
		}
		src = src[size:]
	}
	return nil
}

func isXerial(src []byte) bool {
	return len(src) >= xerialHeaderSize && strings.HasPrefix(string(src[:len(xerialMagic)]), xerialMagic)
}

// decodeSnappyBlock decompresses one block. It announces its length, which is believed only as far as the
// bytes that are there can grow.
func decodeSnappyBlock(src []byte, s *scratch) error {
	size, err := snappy.DecodedLen(src)
	if err != nil {
		return err
	}
	if size > snappyFactorMax*len(src) {
		return errSnappyLength
	}
	room, err := s.room(size)
	if err != nil {
		return err
	}
	if len(room) < size {
		return s.tooLarge()
	}
	out, err := snappy.Decode(room, src)
	if err != nil {
		return err
	}
	if len(out) != size {
		return errSnappyLength
	}
	s.extend(size)
	return nil
}
