package kafka

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/fetchsession"
	"millrace/meta/cluster"
	"millrace/meta/config"
	"millrace/netio"
)

// keyMax bounds the table of APIs.
const keyMax = 128

// Server answers the Kafka protocol. It implements netio.Handler; its Sinks receive what the engine has
// written. Close it after the netio server has stopped and before the engine is closed.
type Server struct {
	o        Options
	table    [keyMax]*api
	loops    []*loop
	workers  workers
	large    workers // for large requests
	busy     workers // for appending and compressing much, which never wait
	sessions *fetchsession.Cache
	groups   *groups
	started  time.Time // origin of the loops' monotonic clock
	ctx      context.Context
	cancel   context.CancelFunc
	metrics  Metrics
	clients  clientTable

	resolved  atomic.Pointer[resolvedSettings]
	static    atomic.Pointer[config.Broker] // as it was read last; what is not dynamic stays as in o.Config
	readings  atomic.Uint64                 // of static, after the first
	encoders  sync.Pool                     // of *fetchEncoder, for workers
	producers sync.Pool                     // of *producer, for workers
	wide      wideReplies

	refusedLogged atomic.Int64 // second in which a refusal was logged last
	damage        damageLog
	slow          slowLog
}

// New returns a server for o.Loops event loops.
func New(o Options) (*Server, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{o: o, started: time.Now(), ctx: ctx, cancel: cancel,
		sessions: fetchsession.NewCache(o.Config.FetchSessionSlots)}
	s.static.Store(o.Config)
	s.workers.max = o.Workers
	s.wide.free.L = &s.wide.mu
	s.large.max, s.busy.max = busyMax(), busyMax()
	s.producers.New = func() any { return newProducer(s, nil) }
	s.encoders.New = func() any {
		c := new(fetchEncoder)
		c.init(o.Pool)
		return c
	}
	for _, a := range apis() {
		s.table[a.key] = &a
	}
	for i := range o.Loops {
		s.loops = append(s.loops, newLoop(s, i))
	}
	s.groups = newGroups(s)
	go s.groups.serve() // until Drain or Close
	o.Cluster.OnChange(s.groups.onChange)
	return s, nil
}

// Drain answers who waits for a group, and whoever comes after, with NOT_COORDINATOR. Call it before the netio server
// is stopped, which waits for answers.
func (s *Server) Drain() { s.groups.stop() }

// Sinks returns one sink per event loop, in the order of their indexes, for engine.Options.
func (s *Server) Sinks() []engine.Sink {
	sinks := make([]engine.Sink, len(s.loops))
	for i, l := range s.loops {
		sinks[i] = l
	}
	return sinks
}

// Close ends what workers still do and waits for them.
func (s *Server) Close() {
	s.groups.stop()
	s.cancel()
	s.workers.wait()
	s.large.wait()
	s.busy.wait() // which the workers may have left something
}

func (s *Server) image() *cluster.Image { return s.o.Cluster.Image() }

// shard returns the log of a partition, nil where this broker has none.
func (s *Server) shard(topic model.TopicID, partition int32) *engine.Shard {
	return s.o.Shards.Shard(model.ShardID{Topic: topic, Partition: partition})
}

// OnOpen is called by netio.
func (s *Server) OnOpen(c *netio.Conn) {
	l := s.loops[c.Loop().Index()]
	if l.net == nil { // once: workers read it
		l.net = c.Loop()
	}
	c.State = &conn{net: c, loop: l}
}

// OnHalfClose is called by netio: long polls of a peer that may be gone are answered with what there is.
func (s *Server) OnHalfClose(c *netio.Conn) {
	if st, ok := c.State.(*conn); ok {
		st.hurry()
	}
}

// OnClose is called by netio.
func (s *Server) OnClose(c *netio.Conn) {
	if st, ok := c.State.(*conn); ok {
		st.closed()
	}
}

// OnTimer is called by netio.
func (s *Server) OnTimer(l *netio.Loop) { s.loops[l.Index()].onTimer() }

// OnFrame is called by netio with each request. A request that is not Produce or Fetch waits until all
// before it on its connection are finished, and holds up those behind it.
func (s *Server) OnFrame(x *netio.Exchange) {
	c := x.Conn.State.(*conn)
	e := c.loop.newExchange(x, c)
	r := wireReader{b: x.Frame}
	var h header
	h.parseStart(&r)
	a := s.apiOf(h.key)
	if r.bad || a == nil || !a.admits(h.version) {
		c.loop.refuse(e, &h, "unknown api or version")
		return
	}
	h.parseRest(&r, a.flexibleIn(h.version))
	if r.bad {
		c.loop.refuse(e, &h, "malformed request header")
		return
	}
	e.api, e.version, e.correlation, e.clientID, e.body = a, h.version, h.correlation, h.clientID, r.b
	c.count(h.clientID)
	c.enqueue(e)
}

func (s *Server) apiOf(key int16) *api {
	if key < 0 || key >= keyMax {
		return nil
	}
	return s.table[key]
}

// admits tells whether a request of this version is taken on. An ApiVersions request of a version that is
// not known is answered, so that the client can choose another; Produce v0-v2 is advertised but closed.
func (a *api) admits(version int16) bool {
	switch a.key {
	case keyApiVersions:
		return version >= 0
	case keyProduce:
		return version >= 3 && version <= a.max
	}
	return version >= a.min && version <= a.max
}

// logRefused logs that a connection was closed for what it sent, at most once a second.
func (s *Server) logRefused(c *netio.Conn, h *header, reason string) {
	now := int64(time.Since(s.started)/time.Second) + 1
	if s.refusedLogged.Swap(now) == now {
		return
	}
	s.o.Logger.Info("request refused, closing connection", slog.String("reason", reason),
		slog.String("remote", c.RemoteAddress()), slog.String("listener", c.Listener()),
		slog.Int("api_key", int(h.key)), slog.Int("api_version", int(h.version)))
}
