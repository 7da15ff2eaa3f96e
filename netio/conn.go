package netio

// Conn is one connection. Its methods may only be called on its loop.
type Conn struct {
	// State belongs to the handler.
	State any
}

// Loop returns the loop that the connection lives on.
func (c *Conn) Loop() *Loop { return nil }

// ID is unique in the life of the server.
func (c *Conn) ID() uint64 { return 0 }

// Listener returns the name of the listener that accepted the connection.
func (c *Conn) Listener() string { return "" }

// RemoteAddress returns the peer's address as host:port.
func (c *Conn) RemoteAddress() string { return "" }

// Closed tells whether the connection is closed or about to be: no reply given from now on will be sent.
func (c *Conn) Closed() bool { return false }

// OutboundBytes returns the bytes of replies that wait for their turn or for the peer.
func (c *Conn) OutboundBytes() int64 { return 0 }

// Close sends the replies finished so far that precede the first open exchange, then closes.
func (c *Conn) Close(reason string) {}
