package kafka

import (
	"fmt"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/recordbatch"
)

// Produce, key 0, versions 3 to 13 (KIP-98, KIP-467 record errors from v8, KIP-516 topic ids from v13).
// The request is walked in place twice: once to see that it is whole, so that a request that is cut appends
// nothing, and once to append. The answer leaves when every partition's append is where acks asks for.

// errZstdVersion refuses zstd from clients whose version does not know it (KIP-110).
var errZstdVersion = fmt.Errorf("%w: zstd needs Produce version 7", recordbatch.ErrUnsupportedCodec)

// produceRequest is a request whose appends are under way. Pooled per loop.
type produceRequest struct {
	e       *exchange
	acks    int16
	failed  bool // a partition got an error
	pending int  // appends that are not done
	topics  []produceTopic
	slots   []produceSlot
	names   []byte // of the topics, copied: the frame is gone when the answer is made

	rest           wireReader // what is not appended yet, in the frame
	topicsLeft     int        // in rest, beside the one at hand
	partitionsLeft int        // in rest, of the one at hand
	view           *topicView // of the topic at hand, nil: there is none
	unknown        int16      // the code for that
	refusal        int16      // where set, every partition gets it and nothing is appended
	work           int64      // that appending took, see loopWorkMax
	accepted       int64      // bytes of batches

	away bool           // a worker has all but e and done
	done *engine.Append // finished meanwhile
}

type produceTopic struct {
	nameFrom, nameTo int
	id               model.TopicID
	slots            int
}

type produceSlot struct {
	partition   int32
	code        int16
	baseOffset  int64
	appendTime  int64
	logStart    int64
	recordIndex int32  // of the record that is to blame, -1: none is
	message     string // empty: null
}

// produce starts a Produce request.
func (l *loop) produce(e *exchange) {
	most := l.server.o.Config.QueuedRequestBytesMax / 2 / producedPartitionBytes // others do not fit
	partitions, whole := checkProduce(wireReader{b: e.body, flexible: e.flexible()}, e.version, int(most))
	if !whole {
		l.closeConn(e, "malformed Produce request, or one of too many partitions")
		return
	}
	if partitions > wideRequest && !l.afford(e, int64(partitions)*producedPartitionBytes) {
		return
	}
	p := l.newProduce(e)
	p.rest = wireReader{b: e.body, flexible: e.flexible()}
	_, transactional := p.rest.string()
	p.acks = p.rest.int16()
	p.rest.int32() // timeout: one replica has nobody to wait for
	switch {
	case transactional:
		p.refusal = codeTransactionalIDAuthorizationFailed
	case p.acks < -1 || p.acks > 1:
		p.refusal = codeInvalidRequiredAcks
	}
	p.topicsLeft = p.rest.array(1)
	switch {
	case !l.producer.walk(p):
		l.leave(p)
	case p.pending == 0:
		l.produced(p)
	}
}

// producedPartitionBytes is about what a partition of a request takes: its slot, its place in the answer, and
// the message of an error.
const producedPartitionBytes = 256

// checkProduce tells whether a request is whole, of at most most partitions, and how many it has.
func checkProduce(r wireReader, version int16, most int) (partitions int, whole bool) {
	r.string()
	r.int16()
	r.int32()
	for range r.array(1) {
		if version >= 13 {
			r.take(len(model.TopicID{}))
		} else if _, ok := r.string(); !ok {
			return 0, false
		}
		n := r.array(6)
		if partitions += n + 1; partitions > most { // an empty topic takes something, too
			return 0, false
		}
		for range n {
			r.int32()
			r.bytes()
			r.tags(noneTagged)
		}
		r.tags(noneTagged)
	}
	r.tags(noneTagged)
	return partitions, !r.bad
}

// appended takes an append that its shard is done with.
func (l *loop) appended(a *engine.Append) {
	p := a.User.(*produceRequest)
	if p.away { // a worker has the slots
		a.Next, p.done = p.done, a
		return
	}
	if p.finished(a); p.pending == 0 {
		l.produced(p)
	}
}

// finished notes what became of an append.
func (p *produceRequest) finished(a *engine.Append) {
	s := &p.slots[a.Slot]
	if a.Err != nil {
		s.code, s.message, p.failed = codeOf(a.Err), a.Err.Error(), true
	} else {
		s.baseOffset, s.logStart = a.BaseOffset, a.LogStartOffset
		if a.Duplicate || a.Header.Flags&model.FlagLogAppendTime != 0 {
			s.appendTime = a.MaxTimestamp
		}
	}
	p.pending--
	p.e.conn.loop.freeAppend(a)
}

// produced answers a request all of whose appends are done. Without acknowledgements the only sign of an
// error is the end of the connection.
func (l *loop) produced(p *produceRequest) {
	e := p.e
	l.server.answered(e)
	l.server.metrics.ProducedBytes.Add(p.accepted)
	e.conn.client.produced.Add(p.accepted)
	switch {
	case p.acks != 0:
		l.replyProduce(p)
	case p.failed:
		l.closeConn(e, "produce without acknowledgement failed")
	default:
		l.drop(e)
	}
	l.freeProduce(p)
}

func (l *loop) replyProduce(p *produceRequest) {
	e, flexible := p.e, p.e.flexible()
	size := 64 + len(p.names) + len(p.topics)*32 + len(p.slots)*64
	for i := range p.slots {
		size += len(p.slots[i].message)
	}
	reply := l.server.o.Pool.Get(size)
	b := beginReply(reply.B, e.correlation, flexible)
	b = appendArrayLength(b, len(p.topics), flexible)
	slots := p.slots
	for i := range p.topics {
		t := &p.topics[i]
		if e.version >= 13 {
			b = append(b, t.id[:]...)
		} else {
			b = appendString(b, p.names[t.nameFrom:t.nameTo], flexible)
		}
		b = appendArrayLength(b, t.slots, flexible)
		for j := range slots[:t.slots] {
			b = slots[j].append(b, e.version, flexible)
		}
		slots = slots[t.slots:]
		b = appendNoTags(b, flexible)
	}
	b = appendInt32(b, 0) // throttle time
	reply.B = appendNoTags(b, flexible)
	endReply(reply.B)
	l.reply(e, reply)
}

func (s *produceSlot) append(b []byte, version int16, flexible bool) []byte {
	b = appendInt32(b, s.partition)
	b = appendInt16(b, s.code)
	b = appendInt64(b, s.baseOffset)
	b = appendInt64(b, s.appendTime)
	if version >= 5 {
		b = appendInt64(b, s.logStart)
	}
	if version >= 8 {
		if s.recordIndex < 0 {
			b = appendArrayLength(b, 0, flexible)
		} else {
			b = appendArrayLength(b, 1, flexible)
			b = appendInt32(b, s.recordIndex)
			b = appendString(b, s.message, flexible)
			b = appendNoTags(b, flexible)
		}
		if s.message == "" {
			b = appendNullString(b, flexible)
		} else {
			b = appendString(b, s.message, flexible)
		}
	}
	return appendNoTags(b, flexible)
}

func (l *loop) newProduce(e *exchange) *produceRequest {
	if n := len(l.freeProduces); n > 0 {
		p := l.freeProduces[n-1]
		l.freeProduces = l.freeProduces[:n-1]
		l.freeBytes -= p.holds()
		p.e = e
		return p
	}
	return &produceRequest{e: e}
}

func (l *loop) freeProduce(p *produceRequest) {
	clear(p.slots)
	*p = produceRequest{topics: p.topics[:0], slots: p.slots[:0], names: p.names[:0]}
	if l.keeps(len(l.freeProduces), p.holds()) {
		l.freeProduces = append(l.freeProduces, p)
	}
}

// holds returns about the bytes that a free request keeps.
func (p *produceRequest) holds() int {
	return (cap(p.topics)+cap(p.slots))*producedPartitionBytes + cap(p.names)
}

func (l *loop) newAppend() *engine.Append {
	a := l.freeAppends
	if a == nil {
		a = &engine.Append{}
	} else {
		l.freeAppends = a.Next
		a.Next = nil
	}
	a.Loop, a.ExpectedEpoch = l.index, -1
	return a
}

func (l *loop) freeAppend(a *engine.Append) {
	*a = engine.Append{Next: l.freeAppends}
	l.freeAppends = a
}
