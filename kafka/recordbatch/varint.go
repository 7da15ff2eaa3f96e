package recordbatch

import "math/bits"

// Numbers of a record are zigzag varints. Readers take the position and return the next one; a position of
// -1 means that the bytes ended or the number was too long, and stays -1, so that one check at the end of
// a record's head is enough.

// varint reads a number of at most 32 bits (five bytes).
func varint(b []byte, i int) (v int64, next int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return int64(b[i]>>1) ^ -int64(b[i]&1), i + 1
	}
	return varintSlow(b, i)
}

func varintSlow(b []byte, i int) (int64, int) {
	if uint(i) >= uint(len(b)) {
		return 0, -1
	}
	if i+1 < len(b) && b[i+1] < 0x80 {
		u := uint64(b[i]&0x7f) | uint64(b[i+1])<<7
		return int64(u>>1) ^ -int64(u&1), i + 2
	}
	var u uint64
	for n := 0; n < 5 && i+n < len(b); n++ {
		c := b[i+n]
		u |= uint64(c&0x7f) << (7 * n)
		if c < 0x80 {
			if u > 1<<32-1 {
				return 0, -1
			}
			return int64(u>>1) ^ -int64(u&1), i + n + 1
		}
	}
	return 0, -1
}

// headSize is the bytes that head may look at.
const headSize = 32

// head reads an unsigned number of one or two bytes at p[i]; for a longer one the next position lies, and
// stays, beyond the head.
func head(p *[headSize]byte, i int) (u uint64, next int) {
	u = uint64(p[i&(headSize-1)])
	if u < 0x80 {
		return u, i + 1
	}
	c := uint64(p[(i+1)&(headSize-1)])
	if c < 0x80 {
		return u&0x7f | c<<7, i + 2
	}
	return 0, 2 * headSize
}

// shortMax is the first number that takes more than two bytes.
const shortMax = 1 << 14

// short returns the one or two bytes of an unsigned number below shortMax, the first in the lowest bits, and
// their length in bits.
func short(u uint64) (w uint64, bits uint) {
	if u < 0x80 {
		return u, 8
	}
	return u&0x7f | 0x80 | u>>7<<8, 16
}

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// varlong reads a number of at most 64 bits (ten bytes).
func varlong(b []byte, i int) (v int64, next int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return int64(b[i]>>1) ^ -int64(b[i]&1), i + 1
	}
	return varlongSlow(b, i)
}

func varlongSlow(b []byte, i int) (int64, int) {
	if i < 0 {
		return 0, -1
	}
	var u uint64
	for n := 0; n < 10 && i+n < len(b); n++ {
		c := b[i+n]
		if n == 9 && c > 1 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << (7 * n)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + n + 1
		}
	}
	return 0, -1
}

// zigzag maps small magnitudes of either sign to small numbers.
func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

// varintLen returns the bytes of v as a varint.
func varintLen(v int64) int { return (9*bits.Len64(zigzag(v)|1) + 64) / 64 }

// putVarint writes v at b[i:] and returns the position after it. b has room.
func putVarint(b []byte, i int, v int64) int {
	u := zigzag(v)
	for u >= 0x80 {
		b[i] = byte(u) | 0x80
		u >>= 7
		i++
	}
	b[i] = byte(u)
	return i + 1
}
