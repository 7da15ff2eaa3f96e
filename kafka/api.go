package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/netio"
)

// Keys that the core treats apart.
const (
	keyProduce     = 0
	keyFetch       = 1
	keyApiVersions = 18
)

// class says where an API runs.
type class uint8

const (
	onLoop   class = iota // walked in place on the event loop, allocates nothing
	onWorker              // decoded by kmsg, may block
)

// api is one row of the table of what is answered. min and max are advertised as they stand here.
type api struct {
	key      int16
	name     string
	min, max int16
	flexible int16 // first version with compact types and tagged fields
	class    class
	start    func(l *loop, x *exchange)                // onLoop only
	handle   func(s *Server, r *request) kmsg.Response // onWorker only, or
	later    func(s *Server, r *request)               // onWorker only: answers by r.finish, at any time
	request  *layout                                   // onWorker only: what a request of this kind holds
	note     string                                    // what stands in the protocol table of the docs
}

// flexibleIn tells whether the API has compact types and tagged fields in a version.
func (a *api) flexibleIn(version int16) bool { return a.flexible >= 0 && version >= a.flexible }

// request is one decoded request on a worker. A handler owns body; the response it returns is encoded in
// the request's version. A nil response closes the connection.
type request struct {
	ctx      context.Context // ends when the server stops
	key      int16
	version  int16
	clientID string
	listener string // name of the listener that the connection came in by
	remote   string // host:port of the peer
	body     kmsg.Request

	conn   *netio.Conn // of which a worker may ask how much waits for slow readers; nil in tests
	wide   int         // partitions of the answer, as counted in Server.wide
	reason string      // why a nil response is one

	finish func(kmsg.Response) // answers, once, from anywhere
	// forget gives back the bytes of a request that may wait for long: neither its frame nor what it was
	// estimated to take is in flight any more, and no slice of body may point into the frame.
	forget func()
}

// apis lists every API that is answered. An API is listed only when it is complete for its range.
func apis() []api {
	return append([]api{
		{key: 0, name: "Produce", min: 0, max: 13, flexible: 9, class: onLoop, start: (*loop).produce,
			note: "v0-v2 are advertised for the feature negotiation of old clients and closed, as Kafka 4.4 does"},
		{key: 1, name: "Fetch", min: 4, max: 18, flexible: 12, class: onLoop, start: (*loop).fetch,
			note: "always from the leader; incremental sessions of KIP-227"},
	}, workerAPIs()...)
}
