package wire

import (
	"encoding/binary"
	"errors"
)

var errShort = errors.New("the answer ends before it is complete")

// parser reads an answer and goes bad once; the caller looks at bad in the end.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) take(n int) []byte {
	if n < 0 || n > len(p.b) {
		p.bad, p.b = true, nil
		return nil
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

func (p *parser) i16() int16 {
	if b := p.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (p *parser) i32() int32 {
	if b := p.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (p *parser) i64() int64 {
	if b := p.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// nullable returns the bytes after an i32 length, nil for -1.
func (p *parser) nullable() []byte {
	n := p.i32()
	if n == -1 {
		return nil
	}
	return p.take(int(n))
}

// Correlation returns the number of the answer in frame, a frame without its length.
func Correlation(frame []byte) (int32, error) {
	if len(frame) < 4 {
		return 0, errShort
	}
	return int32(binary.BigEndian.Uint32(frame)), nil
}

// Ack is the answer to one batch.
type Ack struct {
	Partition  int32
	Code       int16
	BaseOffset int64
}

// ParseProduce appends what frame, without its length, says of each batch to acks.
func ParseProduce(acks []Ack, frame []byte) ([]Ack, error) {
	p := parser{b: frame}
	p.i32() // correlation
	for topics := p.i32(); topics > 0 && !p.bad; topics-- {
		p.take(int(p.i16()))
		for n := p.i32(); n > 0 && !p.bad; n-- {
			a := Ack{Partition: p.i32(), Code: p.i16(), BaseOffset: p.i64()}
			p.i64() // log append time
			p.i64() // log start offset
			acks = append(acks, a)
		}
	}
	p.i32() // throttle time
	if p.bad {
		return acks, errShort
	}
	return acks, nil
}

// Fetched is what came of one partition.
type Fetched struct {
	Partition     int32
	Code          int16
	HighWatermark int64
	Records       []byte // part of the frame
}

// ParseFetch appends what frame, without its length, brings for each partition to parts, and returns the
// code of the whole answer.
func ParseFetch(parts []Fetched, frame []byte) ([]Fetched, int16, error) {
	p := parser{b: frame}
	p.i32() // correlation
	p.i32() // throttle time
	code := p.i16()
	p.i32() // session
	for topics := p.i32(); topics > 0 && !p.bad; topics-- {
		p.take(int(p.i16()))
		for n := p.i32(); n > 0 && !p.bad; n-- {
			f := Fetched{Partition: p.i32(), Code: p.i16(), HighWatermark: p.i64()}
			p.i64() // last stable offset
			p.i64() // log start offset
			for aborted := p.i32(); aborted > 0 && !p.bad; aborted-- {
				p.take(16)
			}
			p.i32() // preferred replica
			f.Records = p.nullable()
			parts = append(parts, f)
		}
	}
	if p.bad {
		return parts, code, errShort
	}
	return parts, code, nil
}
