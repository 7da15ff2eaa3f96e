package kafka

import (
	"errors"
	"time"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/fetchsession"
	"millrace/kafka/purgatory"
	"millrace/perf"
)

// Fetch, key 1, versions 4 to 18 (KIP-227 incremental sessions from v7, KIP-320 epochs from v9, KIP-516
// topic ids from v13). A request is walked in place, planned against what is published and resident, and
// encoded on the loop. It leaves the loop for a worker when bytes must first come from the disk, when a
// codec is asked for, or when the reply is large; it becomes a long poll when there is too little to send.

// fetchRequest is a Fetch being answered. Pooled per loop.
type fetchRequest struct {
	e             *exchange
	loop          *loop
	maxWait       time.Duration
	minBytes      int
	maxBytes      int
	readCommitted bool
	usesIDs       bool

	topics       wireReader            // what is asked for, until the session is opened
	session      *fetchsession.Session // nil: none
	sessionID    int32                 // for the reply; until the session is opened that of the request
	sessionEpoch int32                 // of the request
	wide         bool                  // of many partitions: a worker does all there is to do
	opened       bool                  // it has opened the session
	full         bool                  // the reply tells of every partition, changed or not
	code         int16                 // of the session

	slots    []fetchSlot
	names    []byte
	deadline int64 // of the long poll, 0: not set yet
	wait     purgatory.Wait[*engine.Shard]
	connPrev *fetchRequest
	connNext *fetchRequest

	reply   *perf.Buffer // made on a worker
	records int
	bytes   int
}

// fetchSlot is one partition that is asked for.
type fetchSlot struct {
	nameFrom, nameTo int                     // in names, without a session
	known            *fetchsession.Partition // in the session
	topic            model.TopicID
	partition        int32
	offset           int64
	maxBytes         int
	leaderEpoch      int32
	lastFetchedEpoch int32

	view          *topicView
	shard         *engine.Shard
	code          int16
	state         engine.State
	upTo          int64 // bound of what may be served, exclusive
	span          engine.Span
	spanBytes     int
	divergesEpoch int32 // with divergesAt: where the client's log differs, -1: it does not
	divergesAt    int64
	recordBytes   int // sent
}

// fetch starts a Fetch request.
func (l *loop) fetch(e *exchange) {
	f := l.newFetch(e)
	r := wireReader{b: e.body, flexible: e.flexible()}
	switch l.parseFetch(f, &r) {
	case fetchMalformed:
		l.freeFetch(f)
		l.closeConn(e, "malformed Fetch request, or one of too many partitions")
		return
	case fetchNotNow:
		l.freeFetch(f)
		return
	}
	if f.wide {
		at := len(e.body) - len(f.topics.b)
		e.retain()
		f.topics.b = e.body[at:]
	} else if l.reader.openSession(f); f.code != codeNone {
		l.sendFetch(f, nil)
		return
	}
	l.attempt(f)
}

// attempt answers f with what there is, lets a worker do it, or lets it wait.
func (l *loop) attempt(f *fetchRequest) {
	if l.stalls(f) {
		return
	}
	hurried := f.e.conn.hurried || f.deadline != 0 && l.now() >= f.deadline || !l.mayPoll(f)
	if f.wide {
		l.fetchWide(f, hurried)
		return
	}
	failed := l.reader.resolve(f)
	total, outOfReach := f.plan(false)
	switch {
	case outOfReach:
		l.fetchOnWorker(f)
	case hurried || f.due(total, failed):
		if total > loopReplyMax || f.compresses() {
			l.fetchOnWorker(f)
			return
		}
		l.chargeReply(f, total)
		f.encode(&l.encoder)
		l.sendFetch(f, f.reply)
	default:
		f.releaseSpans()
		l.poll(f)
	}
}

// loopReplyMax is the largest reply that an event loop encodes itself: about a millisecond.
const loopReplyMax = 2 << 20

// due tells whether f is to be answered with so many bytes.
func (f *fetchRequest) due(total int, failed bool) bool {
	return failed || total >= f.minBytes || f.maxWait <= 0 || len(f.slots) == 0
}

// resolve finds each partition's shard and checks what is asked of it. failed tells whether any is in error.
func (d *fetchReader) resolve(f *fetchRequest) (failed bool) {
	image := d.image()
	var last *fetchSlot
	for i := range f.slots {
		s := &f.slots[i]
		s.code, s.shard, s.spanBytes, s.divergesEpoch, s.recordBytes = codeNone, nil, 0, -1, 0
		switch {
		case last != nil && last.view != nil && f.sameTopic(last, s):
			s.view = last.view
		default:
			s.view = nil
			topic := image.TopicByID(s.topic)
			if !f.usesIDs {
				topic = image.TopicByName(f.name(s))
			}
			if topic != nil {
				s.view = d.view(image, topic)
			}
		}
		last = s
		s.check(d.server, f)
		failed = failed || s.code != codeNone || s.divergesEpoch >= 0
	}
	return failed
}

// check finds what the partition can serve.
func (s *fetchSlot) check(server *Server, f *fetchRequest) {
	unknown := int16(codeUnknownTopicOrPartition)
	if f.usesIDs {
		unknown = codeUnknownTopicID
	}
	if s.view == nil {
		s.code = unknown
		return
	}
	if s.shard, s.code = s.view.shard(server, s.partition); s.code != codeNone {
		return
	}
	s.state = s.shard.State()
	s.upTo = s.state.HighWatermark
	if f.readCommitted {
		s.upTo = s.state.LastStable
	}
	switch {
	case s.state.Deleted:
		s.code = unknown
	case s.state.Quarantined:
		s.code = codeKafkaStorageError
	case s.leaderEpoch >= 0 && s.leaderEpoch < s.state.LeaderEpoch:
		s.code = codeFencedLeaderEpoch
	case s.leaderEpoch > s.state.LeaderEpoch:
		s.code = codeUnknownLeaderEpoch
	case s.offset < s.state.LogStart || s.offset > s.state.LogEnd:
		s.code = codeOffsetOutOfRange
	case s.lastFetchedEpoch >= 0:
		s.checkDivergence()
	}
}

// checkDivergence compares the epoch of the client's last record with the log (KIP-595 as of Fetch v12).
func (s *fetchSlot) checkDivergence() {
	epoch, end := s.shard.EndOffsetForEpoch(s.lastFetchedEpoch)
	switch {
	case epoch < 0 || end < 0:
		s.code = codeOffsetOutOfRange
	case epoch < s.lastFetchedEpoch || end < s.offset:
		s.divergesEpoch, s.divergesAt = epoch, end
	}
}

// plan takes a lease on the bytes that each partition can serve, within the limits of the request. Unless
// block it touches neither disk nor pages that are not resident, and tells when that is not enough.
func (f *fetchRequest) plan(block bool) (total int, outOfReach bool) {
	left := f.maxBytes
	for i := range f.slots {
		s := &f.slots[i]
		if s.code != codeNone || s.divergesEpoch >= 0 || s.offset >= s.upTo || (left <= 0 && total > 0) {
			continue
		}
		limit := max(min(s.maxBytes, left), 1)
		err := f.read(s, limit, block)
		if errors.Is(err, engine.ErrNeedsLoad) {
			f.releaseSpans()
			return 0, true
		}
		if err != nil {
			s.code = f.loop.server.readFailed(f.place(s), err)
			continue
		}
		s.spanBytes = len(s.span.Bytes())
		total += min(s.spanBytes, limit)
		left -= s.spanBytes
	}
	return total, false
}

func (f *fetchRequest) read(s *fetchSlot, limit int, block bool) error {
	if block {
		if err := s.shard.ReadBlocking(&s.span, s.offset, s.upTo, limit); err != nil {
			return err
		}
		return s.span.Load()
	}
	if err := s.shard.Read(&s.span, s.offset, s.upTo, limit); err != nil {
		return err
	}
	if !s.span.Resident() {
		s.span.Release()
		return engine.ErrNeedsLoad
	}
	return nil
}

// compresses tells whether any partition's records have to be compressed.
func (f *fetchRequest) compresses() bool {
	for i := range f.slots {
		if s := &f.slots[i]; s.spanBytes > 0 {
			if codec, _ := codecOf(s.view.config); codec != model.CodecNone {
				return true
			}
		}
	}
	return false
}

func (f *fetchRequest) releaseSpans() {
	for i := range f.slots {
		if s := &f.slots[i]; s.spanBytes > 0 {
			s.span.Release()
			s.spanBytes = 0
		}
	}
}

func (f *fetchRequest) name(s *fetchSlot) []byte { return f.names[s.nameFrom:s.nameTo] }

func (f *fetchRequest) sameTopic(a, b *fetchSlot) bool {
	if f.usesIDs {
		return a.topic == b.topic
	}
	return string(f.name(a)) == string(f.name(b))
}

// chargeReply counts the reply against the bytes in flight. Where it does not fit, or much waits for readers
// already, it is made smaller; the least is sent uncounted, so that every fetch goes on.
func (l *loop) chargeReply(f *fetchRequest, total int) {
	room := l.server.o.Config.QueuedRequestBytesMax - f.e.Conn.ServerOutboundBytes()
	if most := max(int(room/2), leastReply); total > most {
		total = most
		f.maxBytes = min(f.maxBytes, most)
	}
	for size := total; size > leastReply; size /= 4 {
		if f.e.Charge(int64(size)) {
			f.maxBytes = min(f.maxBytes, max(size, 1))
			return
		}
	}
	if total > leastReply {
		f.maxBytes = min(f.maxBytes, leastReply)
	}
}

// leastReply is sent without counting it.
const leastReply = 64 << 10

// sendFetch sends a reply, or the error of the session, and ends the request.
func (l *loop) sendFetch(f *fetchRequest, reply *perf.Buffer) {
	e := f.e
	m := &l.server.metrics
	l.server.answered(e)
	m.FetchedBytes.Add(int64(f.bytes))
	e.conn.client.fetched.Add(int64(f.bytes))
	m.FetchedRecords.Add(int64(f.records))
	if reply == nil {
		reply = f.replySessionError()
	}
	f.reply = nil
	l.freeFetch(f)
	l.reply(e, reply)
}

func (l *loop) newFetch(e *exchange) *fetchRequest {
	if n := len(l.freeFetches); n > 0 {
		f := l.freeFetches[n-1]
		l.freeFetches = l.freeFetches[:n-1]
		l.freeBytes -= f.holds()
		f.e = e
		return f
	}
	return &fetchRequest{e: e, loop: l}
}

func (l *loop) freeFetch(f *fetchRequest) {
	f.releaseSpans()
	for i := range f.slots {
		s := &f.slots[i]
		s.known, s.view, s.shard = nil, nil, nil
	}
	*f = fetchRequest{loop: l, slots: f.slots[:0], names: f.names[:0], wait: f.wait}
	if l.keeps(len(l.freeFetches), f.holds()) {
		l.freeFetches = append(l.freeFetches, f)
	}
}

// fetchSlotBytes is about what a slot takes.
const fetchSlotBytes = 512

// holds returns about the bytes that a free request keeps.
func (f *fetchRequest) holds() int { return cap(f.slots)*fetchSlotBytes + cap(f.names) }
