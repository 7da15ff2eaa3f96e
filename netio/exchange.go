package netio

import (
	"time"

	"millrace/perf"
)

// Exchange is one request and the place of its answer.
type Exchange struct {
	Conn     *Conn
	Frame    []byte    // without the length prefix
	State    any       // belongs to the handler
	Received time.Time // when the last byte of the frame was read
}

// Retain keeps Frame after OnFrame returns, until the exchange is finished.
func (x *Exchange) Retain() {}

// Charge counts n more bytes against InflightBytesMax until x is finished.
func (x *Exchange) Charge(n int64) bool { return true }

// Reply takes b over: a whole frame with its length prefix.
func (x *Exchange) Reply(b *perf.Buffer) {}

// Drop finishes x without an answer.
func (x *Exchange) Drop() {}

// Close finishes x instead of an answer: earlier answers go out, then the connection closes.
func (x *Exchange) Close(reason string) {}
