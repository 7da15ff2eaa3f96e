package recordbatch

import (
	"io"

	"millrace/perf"
)

// scratchStepMin is the least bytes that decompression begins with; scratchGuessMax bounds what it begins
// with on the strength of what earlier batches of a codec took.
const (
	scratchStepMin  = 64 << 10
	scratchGuessMax = 4 << 20
)

// scratch is the pooled memory that a batch is decompressed into. It grows in steps as bytes come out, each
// step asked of charge first, and holds at most max bytes of data.
type scratch struct {
	pool    *perf.Pool
	charge  func(bytes int64) bool
	buffer  *perf.Buffer
	charged int64
	max     int64
}

// data returns what was decompressed so far.
func (s *scratch) data() []byte {
	if s.buffer == nil {
		return nil
	}
	return s.buffer.B
}

// extend makes the data n bytes longer by bytes that the caller has written into room.
func (s *scratch) extend(n int) { s.buffer.B = s.buffer.B[:len(s.buffer.B)+n] }

// room returns free memory behind the data: n bytes, or fewer where the limit is nearer.
func (s *scratch) room(n int) ([]byte, error) {
	used := len(s.data())
	n = int(min(int64(n), s.max-int64(used)))
	if err := s.stretch(used + n); err != nil {
		return nil, err
	}
	return s.buffer.B[used : used+n : used+n], nil
}

// spare is room of whatever is there already, and of twice the memory where nothing is.
func (s *scratch) spare() ([]byte, error) {
	used, size := len(s.data()), 0
	if s.buffer != nil {
		size = cap(s.buffer.B)
	}
	if used == size {
		size = max(2*size, scratchStepMin)
	}
	return s.room(size - used)
}

// stretch grows to size or, from scratchGuessMax on, to the most that a batch may take: every step on the way
// there would leave as much behind, and a batch that large is mostly one that is too large.
func (s *scratch) stretch(size int) error {
	if s.buffer != nil && cap(s.buffer.B) >= size {
		return nil
	}
	if size > scratchGuessMax && s.max > int64(size) && s.grow(int(s.max)) == nil {
		return nil
	}
	return s.grow(int(min(int64(size), s.max)))
}

// grow makes the memory size bytes large or larger and keeps the data.
func (s *scratch) grow(size int) error {
	if s.buffer != nil && cap(s.buffer.B) >= size {
		return nil
	}
	// The pool's classes are powers of two: what is charged is what is taken.
	taken := int64(512)
	for taken < int64(size) {
		taken *= 2
	}
	if s.charge != nil && !s.charge(taken) {
		return refuse(ErrMemory, "%d bytes", taken)
	}
	bigger := s.pool.Get(size)
	if s.buffer != nil {
		bigger.B = append(bigger.B, s.buffer.B...)
	}
	s.release()
	s.buffer, s.charged = bigger, taken
	return nil
}

// release gives the memory back.
func (s *scratch) release() {
	if s.buffer == nil {
		return
	}
	s.buffer.Release()
	s.buffer = nil
	if s.charge != nil {
		s.charge(-s.charged)
	}
	s.charged = 0
}

// readAll reads r to its end.
func (s *scratch) readAll(r io.Reader) error {
	var probe [1]byte
	for {
		room, err := s.spare()
		if err != nil {
			return err
		}
		full := len(room) == 0 // the limit is reached: only the end may follow
		if full {
			room = probe[:]
		}
		n, err := r.Read(room)
		if full && n > 0 {
			return s.tooLarge()
		}
		s.extend(n)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *scratch) tooLarge() error {
	return refuse(ErrTooLarge, "more than %d decompressed bytes", s.max)
}
