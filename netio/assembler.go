package netio

import (
	"encoding/binary"

	"millrace/perf"
)

const (
	headBytes       = 4        // the big-endian length that precedes each frame
	bodyBytesMin    = 512      // first room for a frame that arrives in pieces
	bodyBytesSmall  = 32 << 10 // below it room grows fourfold
	bodyBytesMiddle = 1 << 20  // the next step once bodyBytesSmall has arrived
	bodyBytesStep   = 16 << 20 // from then on room grows by at most this much
)

// assembler cuts a stream of bytes into frames. It is fed with bytes and never sees where they come from,
// so that a plain socket and a TLS session look alike to it. A frame that lies whole in what it is fed is
// handed out in place; any other is gathered in a leased buffer whose room follows the bytes that arrived,
// never the length that was announced: a peer that sends only a length costs the four bytes of head.
type assembler struct {
	body *perf.Buffer // the part of the frame that arrived, nil before its first byte had to be kept
	room int          // bytes of body that may be filled; at most size
	size int          // announced length, valid once headLength is headBytes
	head [headBytes]byte
	// headLength is the number of bytes in head. It goes back to zero with each frame handed out.
	headLength int
}

// next takes bytes from chunk up to the end of one frame. It returns the frame, or nil when chunk ended
// first, and what is left of chunk. The frame is a part of chunk when owned is nil; otherwise it lies in
// owned, whose lease passes to the caller. check is asked once for each announced length; its cause, when
// not zero, is returned and ends the stream.
func (a *assembler) next(pool *perf.Pool, chunk []byte, check func(size int32) Cause) (frame []byte, owned *perf.Buffer, rest []byte, fault Cause) {
	if a.headLength < headBytes {
		n := copy(a.head[a.headLength:], chunk)
		a.headLength += n
		chunk = chunk[n:]
		if a.headLength < headBytes {
			return nil, nil, chunk, 0
		}
		size := int32(binary.BigEndian.Uint32(a.head[:]))
		if fault = check(size); fault != 0 {
			return nil, nil, chunk, fault
		}
		a.size = int(size)
	}
	if a.body == nil {
		if len(chunk) >= a.size {
			a.headLength = 0
			return chunk[:a.size:a.size], nil, chunk[a.size:], 0
		}
		if len(chunk) == 0 {
			return nil, nil, chunk, 0
		}
	}
	n := min(a.size-a.received(), len(chunk))
	a.widen(pool, a.received()+n)
	a.body.B = append(a.body.B, chunk[:n]...)
	frame, owned = a.complete()
	return frame, owned, chunk[n:], 0
}

// received returns the bytes of the current frame that are kept in body.
func (a *assembler) received() int {
	if a.body == nil {
		return 0
	}
	return len(a.body.B)
}

// gathering tells whether a frame has begun to be kept, so that its length is known.
func (a *assembler) gathering() bool { return a.body != nil }

// missing returns the bytes that the frame being gathered still lacks.
func (a *assembler) missing() int { return a.size - a.received() }

// tail is where the next bytes of the frame being gathered may be put without a copy; filled says how many
// were. It is empty when the room is used up: see step and widen.
func (a *assembler) tail() []byte { return a.body.B[len(a.body.B):a.room] }

func (a *assembler) filled(n int) (frame []byte, owned *perf.Buffer) {
	a.body.B = a.body.B[:len(a.body.B)+n]
	return a.complete()
}

// step returns the room that the frame should have next, given what has arrived.
func (a *assembler) step() int {
	received := a.received()
	room := received + bodyBytesStep
	switch {
	case received < bodyBytesSmall:
		room = max(bodyBytesMin, 4*received)
	case received < bodyBytesMiddle:
		room = bodyBytesMiddle
	case received < bodyBytesStep:
		room = bodyBytesStep
	}
	return min(room, a.size)
}

// widen gives the frame room for at least n bytes, in the steps of step.
func (a *assembler) widen(pool *perf.Pool, n int) {
	if a.body != nil && a.room >= n {
		return
	}
	n = max(n, a.step())
	if a.body == nil || cap(a.body.B) < n {
		wider := pool.Get(n)
		if a.body != nil {
			wider.B = append(wider.B, a.body.B...)
			a.body.Release()
		}
		a.body = wider
	}
	a.room = n
}

func (a *assembler) complete() (frame []byte, owned *perf.Buffer) {
	if len(a.body.B) < a.size {
		return nil, nil
	}
	owned = a.body
	a.body, a.room, a.headLength = nil, 0, 0
	return owned.B, owned
}

// reset drops what was gathered.
func (a *assembler) reset() {
	a.body.Release()
	*a = assembler{}
}
