package kafka

import (
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

// admit lets a request go to a worker when what it will take fits into the bytes in flight. One that can
// never fit closes its connection; one that does not fit now is tried again.
func (l *loop) admit(e *exchange) {
	version := e.version
	if e.api.key == keyApiVersions && version > e.api.max {
		l.reply(e, l.server.apiVersionsTooNew(e.correlation))
		return
	}
	bytes, err := e.api.estimate(version, e.body)
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
		l.work(e)
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
		listener: e.conn.net.Listener(), remote: e.conn.net.RemoteAddress()}
	l.server.workers.run(func() { j.do(r) })
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
	if response := j.e.api.handle(s, r); response != nil {
		b := s.o.Pool.Get(4096)
		b.B = beginReply(b.B, j.e.correlation, j.e.flexible() && r.key != keyApiVersions)
		b.B = response.AppendTo(b.B)
		endReply(b.B)
		j.reply = b
	}
	j.loop.net.Post(j)
}

// RunOnLoop sends the answer.
func (j *job) RunOnLoop(*netio.Loop) {
	s := j.loop.server
	s.metrics.request(j.e, s.o.Now())
	if j.reply == nil {
		if j.reason == "" {
			j.reason = "request is not answered"
		}
		j.loop.closeConn(j.e, j.reason)
		return
	}
	j.loop.reply(j.e, j.reply)
}
