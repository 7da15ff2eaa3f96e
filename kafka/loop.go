package kafka

import (
	"sync"
	"time"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/fetchsession"
	"millrace/kafka/purgatory"
	"millrace/meta/cluster"
	"millrace/netio"
)

// admissionRetry is how often requests are tried again that did not fit into the bytes in flight, or that wait
// for their peer to read.
const admissionRetry = 5 * time.Millisecond

// loop is the handler's side of one event loop. All but the inbox belongs to the loop's goroutine.
type loop struct {
	server *Server
	index  int
	net    *netio.Loop

	inbox inbox

	producer      *producer
	encoder       fetchEncoder
	reader        fetchReader
	topics        map[model.TopicID]*topicView
	lastImage     *cluster.Image
	readings      uint64 // of the settings, when lastImage was noted
	brokerConfigs uint64 // rises with each change of the dynamic broker configs in lastImage and each reading of the settings
	polls         *purgatory.Set[*engine.Shard]
	stalled       []*conn     // with fetches that wait for their peers
	pollSlots     int         // of all of them
	waiting       []*exchange // requests that did not fit yet
	timerAt       int64       // when the loop's timer is set to, 0: not set
	woken         []*purgatory.Wait[*engine.Shard]
	keys          []*engine.Shard

	freeExchanges []*exchange
	freeProduces  []*produceRequest
	freeFetches   []*fetchRequest
	freeBytes     int // that the free requests hold
	freeAppends   *engine.Append
}

// inbox is where writers put what they have done. One task is posted for all that gathers.
type inbox struct {
	mu       sync.Mutex
	done     *engine.Append // newest first within a delivery, deliveries in order by tail
	tail     *engine.Append
	advanced []*engine.Shard
	taken    []*engine.Shard // the loop's half of the double buffer
	posted   bool
}

func newLoop(s *Server, index int) *loop {
	l := &loop{server: s, index: index, topics: make(map[model.TopicID]*topicView)}
	l.reader = fetchReader{views: views{s, l}, seen: make(map[fetchsession.Key]int)}
	l.producer = newProducer(s, l)
	l.encoder.init(s.o.Pool)
	l.polls = purgatory.NewSet(func(sh *engine.Shard) { sh.Unwatch(l.index) })
	return l
}

// now is the monotonic clock of all loops in nanoseconds.
func (s *Server) now() int64 { return int64(time.Since(s.started)) }

func (l *loop) now() int64 { return l.server.now() }

// Complete takes over appends that are done and notes shards whose watermarks moved. Writers call it.
func (l *loop) Complete(done *engine.Append, advanced []*engine.Shard) {
	in := &l.inbox
	in.mu.Lock()
	if done != nil {
		if in.tail == nil {
			in.done = done
		} else {
			in.tail.Next = done
		}
		for in.tail = done; in.tail.Next != nil; in.tail = in.tail.Next {
		}
	}
	in.advanced = append(in.advanced, advanced...)
	post := !in.posted
	in.posted = true
	in.mu.Unlock()
	if post {
		l.net.Post(l)
	}
}

// RunOnLoop handles what gathered in the inbox.
func (l *loop) RunOnLoop(*netio.Loop) {
	in := &l.inbox
	in.mu.Lock()
	done, advanced := in.done, in.advanced
	in.done, in.tail = nil, nil
	in.advanced = in.taken[:0]
	in.posted = false
	in.mu.Unlock()
	for done != nil {
		a := done
		done, a.Next = a.Next, nil
		l.appended(a)
	}
	for _, sh := range advanced {
		l.wake(sh)
	}
	clear(advanced)
	in.taken = advanced[:0]
}

// wake tries again the long polls that watch a shard.
func (l *loop) wake(sh *engine.Shard) {
	l.woken = append(l.woken[:0], l.polls.Watching(sh)...)
	for _, w := range l.woken {
		if w.Waiting() {
			l.retryPoll(w.Owner.(*fetchRequest))
		}
	}
	clear(l.woken)
}

func (l *loop) onTimer() {
	l.timerAt = 0
	now := l.now()
	for w := l.polls.Due(now); w != nil; w = l.polls.Due(now) {
		l.retryPoll(w.Owner.(*fetchRequest))
	}
	l.retryAdmission()
	l.retryStalled()
	l.armTimer()
}

// armTimer sets the loop's timer to the earliest thing that is due.
func (l *loop) armTimer() {
	at, ok := l.polls.Next()
	if len(l.waiting) > 0 || len(l.stalled) > 0 {
		if retry := l.now() + int64(admissionRetry); !ok || retry < at {
			at, ok = retry, true
		}
	}
	if !ok || (l.timerAt != 0 && l.timerAt <= at) {
		return
	}
	l.timerAt = at
	l.net.SetTimer(l.server.started.Add(time.Duration(at)))
}

func (l *loop) newExchange(x *netio.Exchange, c *conn) *exchange {
	if n := len(l.freeExchanges); n > 0 {
		e := l.freeExchanges[n-1]
		l.freeExchanges = l.freeExchanges[:n-1]
		e.Exchange, e.conn = x, c
		return e
	}
	return &exchange{Exchange: x, conn: c}
}

func (l *loop) freeExchange(e *exchange) {
	*e = exchange{}
	if len(l.freeExchanges) < freeListMax {
		l.freeExchanges = append(l.freeExchanges, e)
	}
}

// Bounds of the pooled objects of each kind that one loop keeps, and of what the requests among them hold.
const (
	freeListMax  = 1024
	freeBytesMax = 16 << 20
)

// keeps tells whether a request that holds so much is kept, as one more beside n others.
func (l *loop) keeps(n, bytes int) bool {
	if n >= freeListMax || l.freeBytes+bytes > freeBytesMax {
		return false
	}
	l.freeBytes += bytes
	return true
}
