package kafka

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// clientsMax bounds the client ids that are counted apart. Beyond it those without a connection make room; where there
// are none, the rest is counted as one.
const clientsMax = 1000

// clientNameMax bounds what is kept of a client id.
const clientNameMax = 256

// Client is what the connections with one client id have done since its first one.
type Client struct {
	ID            string // cut at 256 bytes; of the rest together: "(others)"
	Address       string // of the newest connection, without port
	Connections   int
	Requests      int64
	ProducedBytes int64 // of batches accepted, as on the wire
	FetchedBytes  int64 // of batches sent
}

// clientCounts is what event loops add to.
type clientCounts struct {
	requests, produced, fetched atomic.Int64

	connections int    // guarded by clientTable.mu, as is address
	address     string // host:port
	id          string
}

// clientTable knows the clients by id. Loops ask it when a connection sends another client id than before.
type clientTable struct {
	mu     sync.Mutex
	byID   map[string]*clientCounts
	others clientCounts
}

// join moves a connection that was counted at from, nil for none, to an id.
func (t *clientTable) join(from *clientCounts, id []byte, address string) *clientCounts {
	id = id[:min(len(id), clientNameMax)]
	t.mu.Lock()
	defer t.mu.Unlock()
	if from != nil {
		from.connections--
	}
	c := t.byID[string(id)]
	if c == nil {
		c = t.add(string(id))
	}
	c.connections++
	c.address = address
	return c
}

func (t *clientTable) add(id string) *clientCounts {
	if t.byID == nil {
		t.byID = make(map[string]*clientCounts)
	}
	if len(t.byID) >= clientsMax {
		for old, c := range t.byID {
			if c.connections == 0 {
				delete(t.byID, old)
			}
		}
	}
	if len(t.byID) >= clientsMax {
		t.others.id = "(others)"
		return &t.others
	}
	c := &clientCounts{id: id}
	t.byID[id] = c
	return c
}

// leave takes a closed connection out.
func (t *clientTable) leave(c *clientCounts) {
	t.mu.Lock()
	c.connections--
	t.mu.Unlock()
}

// is tells whether a client id is that of c.
func (c *clientCounts) is(id []byte) bool {
	return c != nil && c.id == string(id[:min(len(id), clientNameMax)])
}

// Clients lists what is counted, by id.
func (s *Server) Clients() []Client {
	t := &s.clients
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []Client
	add := func(c *clientCounts) {
		list = append(list, Client{ID: c.id, Address: hostOf(c.address), Connections: c.connections,
			Requests: c.requests.Load(), ProducedBytes: c.produced.Load(), FetchedBytes: c.fetched.Load()})
	}
	for _, c := range t.byID {
		add(c)
	}
	if t.others.id != "" {
		add(&t.others)
	}
	slices.SortFunc(list, func(a, b Client) int { return strings.Compare(a.ID, b.ID) })
	return list
}
