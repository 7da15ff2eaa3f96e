package netio

import "context"

// Server accepts connections.
type Server struct{}

// Start listens and returns when connections are accepted.
func Start(o Options) (*Server, error) { return nil, nil }

// Addresses returns one address per listener, with the real port.
func (s *Server) Addresses() []string { return nil }

// Loops returns the event loops.
func (s *Server) Loops() []*Loop { return nil }

// Stop stops accepting and reading, waits for due answers, closes.
func (s *Server) Stop(ctx context.Context) error { return nil }

// Metrics returns the counters of the server.
func (s *Server) Metrics() *Metrics { return nil }
