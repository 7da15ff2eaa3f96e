package kafka

import (
	"runtime"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/netio"
	"millrace/perf"
)

// workers runs jobs on goroutines that come and go, at most max at once; the rest queue, bounded by the
// bytes in flight that each was admitted with.
type workers struct {
	max int

	mu      sync.Mutex
	running int
	queue   []func()
	all     sync.WaitGroup
}

func (w *workers) run(work func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running >= w.max {
		w.queue = append(w.queue, work)
		return
	}
	w.running++
	w.all.Add(1)
	go w.loop(work)
}

func (w *workers) loop(work func()) {
	defer w.all.Done()
	for {
		work()
		w.mu.Lock()
		if len(w.queue) == 0 {
			w.running--
			w.queue = nil
			w.mu.Unlock()
			return
		}
		work = w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:]
		w.mu.Unlock()
	}
}

func (w *workers) wait() { w.all.Wait() }

// busyMax is how many workers may be busy with what takes nothing but a processor for long.
func busyMax() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// largeRequest is the memory from which on a request goes to the few workers for large ones: decoding and answering
// it takes tens of milliseconds of a processor.
const largeRequest = 4 << 20

// admit lets a request go to a worker when what it will take fits into the bytes in flight. One that can
// never fit closes its connection; one that does not fit now is tried again.
func (l *loop) admit(e *exchange) {
	version := e.version
	if e.api.key == keyApiVersions && version > e.api.max {
		l.reply(e, l.server.apiVersionsTooNew(e.correlation))
		return
	}
	if len(e.body) <= loopEstimateMax {
		bytes, err := e.api.estimate(version, e.body)
		l.estimated(e, bytes, err)
		return
	}
	l.server.busy.run(func() {
		bytes, err := e.api.estimate(version, e.body)
		l.net.Post(&estimate{l, e, bytes, err})
	})
}

// loopEstimateMax is the size of the largest request whose memory an event loop estimates itself: that takes up to 10
// nanoseconds a byte.
const loopEstimateMax = 256 << 10

// estimate is what a worker found that a request will take.
type estimate struct {
	loop  *loop
	e     *exchange
	bytes int64
	err   error
}

// RunOnLoop goes on with the request.
func (s *estimate) RunOnLoop(*netio.Loop) { s.loop.estimated(s.e, s.bytes, s.err) }

// estimated lets a request go on that will take so much.
func (l *loop) estimated(e *exchange, bytes int64, err error) {
	switch {
	case err != nil:
		l.closeConn(e, err.Error())
		return
	case bytes > l.server.o.Config.QueuedRequestBytesMax/2:
		l.closeConn(e, "request would take too much memory")
		return
	}
	e.charged = bytes
	if len(l.waiting) > 0 || !e.Charge(bytes) {
		l.waiting = append(l.waiting, e)
		l.armTimer()
		return
	}
	l.work(e)
}

// wideRequest is the number of partitions from which on a Produce or Fetch is counted beyond its frame: below,
// what is kept of each is small beside the rest.
const wideRequest = 4096

// afford counts what a request that runs on the loop takes beside its frame. It returns false when the request
// is not to go on: it can never fit and was closed, or it does not fit now and will be started again.
func (l *loop) afford(e *exchange, bytes int64) bool {
	switch {
	case e.charged > 0:
		return true // it has waited for it
	case bytes > l.server.o.Config.QueuedRequestBytesMax/2:
		l.closeConn(e, "request would take too much memory")
		return false
	}
	e.charged = bytes
	if len(l.waiting) == 0 && e.Charge(bytes) {
		return true
	}
	e.retain()
	e.conn.alone = true // those behind it stay behind it
	l.waiting = append(l.waiting, e)
	l.armTimer()
	return false
}

// resume starts a request whose bytes were granted.
func (l *loop) resume(e *exchange) {
	e.started = l.server.o.Now()
	if e.api.class == onWorker {
		l.work(e)
		return
	}
	c := e.conn
	c.alone = false
	e.api.start(l, e)
	c.pump()
}

func (l *loop) retryAdmission() {
	for len(l.waiting) > 0 {
		e := l.waiting[0]
		if e.conn.net.Closed() {
			l.waiting = l.waiting[1:]
			l.drop(e)
			continue
		}
		if !e.Charge(e.charged) {
			return
		}
		l.waiting = l.waiting[1:]
		l.resume(e)
	}
	l.waiting = nil
}

// job is a request on its way through a worker and back.
type job struct {
	loop   *loop
	e      *exchange
	reply  *perf.Buffer // nil: close the connection
	reason string
}

func (l *loop) work(e *exchange) {
	j := &job{loop: l, e: e}
	r := &request{ctx: l.server.ctx, key: e.api.key, version: e.version, clientID: string(e.clientID),
		conn: e.conn.net, listener: e.conn.net.Listener(), remote: e.conn.net.RemoteAddress()}
	if r.key == keyApiVersions {
		j.do(r) // a client begins with it, it costs microseconds, and slow requests must not hold it up
		return
	}
	w := &l.server.workers
	if e.charged > largeRequest {
		w = &l.server.large
	}
	w.run(func() { j.do(r) })
}

func (j *job) do(r *request) {
	s := j.loop.server
	r.body = kmsg.RequestForKey(r.key)
	r.body.SetVersion(r.version)
	if err := r.body.ReadFrom(j.e.body); err != nil {
		j.reason = "malformed request: " + err.Error()
		j.loop.net.Post(j)
		return
	}
	if j.e.api.later != nil {
		r.finish = func(response kmsg.Response) { j.finish(r, response) }
		r.forget = func() { j.loop.net.Post((*forgotten)(j.e)) }
		j.e.api.later(s, r)
		return
	}
	response := j.e.api.handle(s, r)
	if r.wide > 0 {
		defer s.wide.release(r.wide)
	}
	j.finish(r, response)
}

// finish encodes the answer and sends it to the loop.
func (j *job) finish(r *request, response kmsg.Response) {
	if j.reason = r.reason; response != nil {
		response.SetVersion(r.version)
		b := j.loop.server.o.Pool.Get(4096 + r.wide*widePartitionOnWire)
		b.B = beginReply(b.B, j.e.correlation, j.e.flexible() && r.key != keyApiVersions)
		b.B = response.AppendTo(b.B)
		endReply(b.B)
		j.reply = b
	}
	j.loop.net.Post(j)
}

// forgotten is an exchange whose request was read and waits.
type forgotten exchange

// RunOnLoop gives the request's bytes back.
func (f *forgotten) RunOnLoop(*netio.Loop) { (*exchange)(f).forget() }

// RunOnLoop sends the answer.
func (j *job) RunOnLoop(*netio.Loop) {
	s := j.loop.server
	s.answered(j.e)
	if j.reply == nil {
		if j.reason == "" {
			j.reason = "request is not answered"
		}
		j.loop.closeConn(j.e, j.reason)
		return
	}
	j.loop.reply(j.e, j.reply)
}
