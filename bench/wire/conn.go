package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// frameBytesMax bounds an answer: twice what the largest fetch of this package's users asks for.
	frameBytesMax = 128 << 20
	readBuffer    = 64 << 10
	dialTimeout   = 10 * time.Second
)

// Conn is a connection to a broker. One goroutine may write while another reads.
type Conn struct {
	raw     net.Conn
	in      *bufio.Reader
	frame   []byte
	address string
}

// Dial connects to HOST:PORT. The connection is closed when ctx ends, which ends calls that block on it.
func Dial(ctx context.Context, address string) (*Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	context.AfterFunc(ctx, func() { raw.Close() })
	return &Conn{raw: raw, in: bufio.NewReaderSize(raw, readBuffer), address: address}, nil
}

// Write sends bytes and returns when the kernel has them.
func (c *Conn) Write(b []byte) error {
	if _, err := c.raw.Write(b); err != nil {
		return fmt.Errorf("send to %s: %w", c.address, err)
	}
	return nil
}

// Read returns the next answer without its length. The bytes are valid until the next call.
func (c *Conn) Read() ([]byte, error) {
	head, err := c.in.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", c.address, err)
	}
	size := binary.BigEndian.Uint32(head)
	if size > frameBytesMax {
		return nil, fmt.Errorf("receive from %s: an answer of %d bytes; at most %d are taken", c.address, size, frameBytesMax)
	}
	c.in.Discard(4)
	if int(size) > cap(c.frame) {
		c.frame = make([]byte, size+size/4)
	}
	c.frame = c.frame[:size]
	if _, err := io.ReadFull(c.in, c.frame); err != nil {
		return nil, fmt.Errorf("receive from %s: %w", c.address, err)
	}
	return c.frame, nil
}

// Ready tells that Read returns an answer without waiting.
func (c *Conn) Ready() bool {
	if c.in.Buffered() < 4 {
		return false
	}
	head, err := c.in.Peek(4)
	return err == nil && c.in.Buffered()-4 >= int(binary.BigEndian.Uint32(head))
}

// Interrupt makes a Read that waits, and every later one, fail.
func (c *Conn) Interrupt() {
	// Fails only on a closed connection, where Read fails anyway.
	_ = c.raw.SetReadDeadline(time.Unix(1, 0))
}

// Close ends the connection.
func (c *Conn) Close() { c.raw.Close() }
