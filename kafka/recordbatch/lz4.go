package recordbatch

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// LZ4 frames ("LZ4 Frame Format" 1.6). The frame is read here and only blocks are left to the library: its
// stream reader keeps the window of one stream for the next, so that a crafted frame could read what
// another client sent, and it copies.
const (
	lz4Magic          = 0x184D2204
	lz4SkippableMagic = 0x184D2A50 // the last four bits are free
	lz4Window         = 64 << 10
	lz4FactorMax      = 255 // a block cannot grow by more

	lz4FlagDictionary      = 1 << 0
	lz4FlagReserved        = 1 << 1
	lz4FlagContentChecksum = 1 << 2
	lz4FlagContentSize     = 1 << 3
	lz4FlagBlockChecksum   = 1 << 4
	lz4FlagIndependent     = 1 << 5
	lz4Stored              = 1 << 31 // of a block's length: not compressed
)

var (
	errLZ4Short    = errors.New("the frame ends too early")
	errLZ4Frame    = errors.New("no frame that is supported")
	errLZ4Checksum = errors.New("a checksum of the frame does not match")
	errLZ4Size     = errors.New("a size of the frame is wrong")
)

// decodeLZ4 decompresses one or more frames.
func decodeLZ4(src []byte, s *scratch) error {
	for {
		if len(src) < 4 {
			return errLZ4Short
		}
		var err error
		if binary.LittleEndian.Uint32(src)&^0xf == lz4SkippableMagic {
			src, err = skipLZ4(src)
		} else {
			src, err = decodeLZ4Frame(src, s)
		}
		if err != nil || len(src) == 0 {
			return err
		}
	}
}

func skipLZ4(src []byte) (rest []byte, err error) {
	if len(src) < 8 {
		return nil, errLZ4Short
	}
	size := binary.LittleEndian.Uint32(src[4:])
	if uint64(size) > uint64(len(src)-8) {
		return nil, errLZ4Short
	}
	return src[8+size:], nil
}

// lz4Frame is the part of a frame's descriptor that its blocks need.
type lz4Frame struct {
	flags       byte
	blockMax    int
	contentSize uint64
	start       int // of the frame's content in the scratch
}

// parseLZ4Frame reads the frame's header.
func parseLZ4Frame(src []byte) (f lz4Frame, rest []byte, err error) {
	le := binary.LittleEndian
	if len(src) < 7 {
		return f, nil, errLZ4Short
	}
	f.flags = src[4]
	block := src[5]
	if le.Uint32(src) != lz4Magic || f.flags>>6 != 1 || f.flags&(lz4FlagDictionary|lz4FlagReserved) != 0 ||
		block&0x8f != 0 || block>>4 < 4 {
		return f, nil, errLZ4Frame
	}
	f.blockMax = 1 << (8 + 2*(block>>4))
	end := 6
	if f.flags&lz4FlagContentSize != 0 {
		end = 14
		if len(src) <= end {
			return f, nil, errLZ4Short
		}
		f.contentSize = le.Uint64(src[6:])
	}
	if byte(xxh32(src[4:end])>>8) != src[end] {
		return f, nil, errLZ4Checksum
	}
	return f, src[end+1:], nil
}

func decodeLZ4Frame(src []byte, s *scratch) (rest []byte, err error) {
	le := binary.LittleEndian
	f, src, err := parseLZ4Frame(src)
	if err != nil {
		return nil, err
	}
	f.start = len(s.data())
	for {
		if len(src) < 4 {
			return nil, errLZ4Short
		}
		size := le.Uint32(src)
		src = src[4:]
		if size == 0 {
			break
		}
		length := int(size &^ lz4Stored)
		if length > f.blockMax {
			return nil, errLZ4Size
		}
		trailer := 0
		if f.flags&lz4FlagBlockChecksum != 0 {
			trailer = 4
		}
		if length+trailer > len(src) {
			return nil, errLZ4Short
		}
		if trailer > 0 && xxh32(src[:length]) != le.Uint32(src[length:]) {
			return nil, errLZ4Checksum
		}
		if err := f.block(src[:length], size&lz4Stored != 0, s); err != nil {
			return nil, err
		}
		src = src[length+trailer:]
	}
	content := s.data()[f.start:]
	if f.flags&lz4FlagContentSize != 0 && f.contentSize != uint64(len(content)) {
		return nil, errLZ4Size
	}
	if f.flags&lz4FlagContentChecksum == 0 {
		return src, nil
	}
	if len(src) < 4 {
		return nil, errLZ4Short
	}
	if xxh32(content) != le.Uint32(src) {
		return nil, errLZ4Checksum
	}
	return src[4:], nil
}

// block decompresses one block behind the data.
func (f *lz4Frame) block(src []byte, stored bool, s *scratch) error {
	size := len(src)
	if !stored {
		size = min(f.blockMax, lz4FactorMax*len(src))
	}
	room, err := s.room(size)
	if err != nil {
		return err
	}
	var n int
	switch data := s.data(); {
	case stored:
		n = copy(room, src)
		if n < len(src) {
			return s.tooLarge()
		}
	case f.flags&lz4FlagIndependent != 0 || len(data) == f.start:
		n, err = lz4.UncompressBlock(src, room)
	default:
		n, err = lz4.UncompressBlockWithDict(src, room, data[max(f.start, len(data)-lz4Window):])
	}
	if err != nil {
		if len(room) < size {
			return s.tooLarge()
		}
		return err
	}
	s.extend(n)
	return nil
}

// Primes of XXH32.
const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393
)

// xxh32 is the checksum of LZ4 frames (XXH32 with seed 0), which no dependency exports.
func xxh32(b []byte) uint32 {
	le := binary.LittleEndian
	h, length := xxPrime5, uint32(len(b))
	if len(b) >= 16 {
		// The first and last sums wrap, which constants may not.
		one, zero := xxPrime1, uint32(0)
		v1, v2, v3, v4 := one+xxPrime2, xxPrime2, zero, zero-one
		for len(b) >= 16 {
			v1 = bits.RotateLeft32(v1+le.Uint32(b)*xxPrime2, 13) * xxPrime1
			v2 = bits.RotateLeft32(v2+le.Uint32(b[4:])*xxPrime2, 13) * xxPrime1
			v3 = bits.RotateLeft32(v3+le.Uint32(b[8:])*xxPrime2, 13) * xxPrime1
			v4 = bits.RotateLeft32(v4+le.Uint32(b[12:])*xxPrime2, 13) * xxPrime1
			b = b[16:]
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += length
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+le.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	h = (h ^ h>>15) * xxPrime2
	h = (h ^ h>>13) * xxPrime3
	return h ^ h>>16
}
