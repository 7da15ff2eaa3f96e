package model

// HeaderReader walks the raw headers of a record without copying.
type HeaderReader struct {
	rest []byte
	left int64
	bad  bool
}

// Header is one header of a record. Name is bytes as they came, not always UTF-8.
type Header struct {
	Name  []byte
	Value []byte // nil: null, which differs from empty
}

// ReadHeaders returns a reader of raw headers; nil and empty hold none.
func ReadHeaders(raw []byte) HeaderReader {
	r := HeaderReader{rest: raw}
	if len(raw) == 0 {
		return r
	}
	count, n := uvarint(raw)
	r.left = unzigzag(count)
	// A header takes two bytes or more, so that a count can be held against the bytes that are there.
	if n == 0 || r.left < 0 || r.left > int64(len(raw)-n)/2 {
		return HeaderReader{bad: true}
	}
	r.rest = raw[n:]
	return r
}

// Count returns how many headers are still to come.
func (r *HeaderReader) Count() int { return int(r.left) }

// Next reads the next header into h and tells whether there was one; Err tells whether the end was good.
func (r *HeaderReader) Next(h *Header) bool {
	if r.bad || r.left == 0 {
		return false
	}
	var ok bool
	if h.Name, ok = r.bytes(); !ok || h.Name == nil {
		r.bad = true
		return false
	}
	if h.Value, ok = r.bytes(); !ok {
		r.bad = true
		return false
	}
	r.left--
	return true
}

// Err returns ErrMalformed where the bytes were not exactly the announced headers. Call it after Next
// returned false.
func (r *HeaderReader) Err() error {
	if r.bad || r.left != 0 || len(r.rest) != 0 {
		return ErrMalformed
	}
	return nil
}

// bytes reads a length and that many bytes; nil for length -1.
func (r *HeaderReader) bytes() ([]byte, bool) {
	u, n := uvarint(r.rest)
	length := unzigzag(u)
	if n == 0 || length < -1 || length > int64(len(r.rest)-n) {
		return nil, false
	}
	if length < 0 {
		r.rest = r.rest[n:]
		return nil, true
	}
	end := n + int(length)
	b := r.rest[n:end:end]
	r.rest = r.rest[end:]
	return b, true
}

// CheckHeaders walks raw headers and returns ErrMalformed where they are not exactly what they announce.
func CheckHeaders(raw []byte) error {
	r := ReadHeaders(raw)
	var h Header
	for r.Next(&h) {
	}
	return r.Err()
}
