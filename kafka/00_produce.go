package kafka

import (
	"errors"
	"fmt"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/recordbatch"
	"millrace/meta/cluster"
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
	partitions, whole := checkProduce(wireReader{b: e.body, flexible: e.flexible()}, e.version)
	if !whole {
		l.closeConn(e, "malformed Produce request")
		return
	}
	if partitions > wideRequest && !l.afford(e, int64(partitions)*producedPartitionBytes) {
		return
	}
	r := wireReader{b: e.body, flexible: e.flexible()}
	p := l.newProduce(e)
	_, transactional := r.string()
	p.acks = r.int16()
	r.int32() // timeout: one replica has nobody to wait for
	refusal := int16(codeNone)
	switch {
	case transactional:
		refusal = codeTransactionalIDAuthorizationFailed
	case p.acks < -1 || p.acks > 1:
		refusal = codeInvalidRequiredAcks
	}
	for range r.array(1) {
		l.produceTopic(p, &r, refusal)
	}
	if p.pending == 0 {
		l.produced(p)
	}
}

// producedPartitionBytes is about what a partition of a request takes: its slot, its place in the answer, and
// the message of an error.
const producedPartitionBytes = 256

// checkProduce tells whether a request is whole, and how many partitions it has.
func checkProduce(r wireReader, version int16) (partitions int, whole bool) {
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
		partitions += n + 1 // an empty topic takes something, too
		for range n {
			r.int32()
			r.bytes()
			r.tags(nil)
		}
		r.tags(nil)
	}
	r.tags(nil)
	return partitions, !r.bad
}

// produceTopic appends what one topic was sent. With a refusal every partition gets it and nothing is
// appended.
func (l *loop) produceTopic(p *produceRequest, r *wireReader, refusal int16) {
	t := produceTopic{nameFrom: len(p.names)}
	var topic *cluster.Topic
	image := l.image()
	unknown := int16(codeUnknownTopicOrPartition)
	if p.e.version >= 13 {
		copy(t.id[:], r.take(len(t.id)))
		topic, unknown = image.TopicByID(t.id), codeUnknownTopicID
	} else {
		name, _ := r.string()
		p.names = append(p.names, name...)
		topic = image.TopicByName(name)
	}
	t.nameTo = len(p.names)
	var view *topicView
	if topic != nil {
		view = l.view(image, topic)
	}
	for range r.array(1) {
		slot := produceSlot{partition: r.int32(), code: refusal, baseOffset: -1, appendTime: -1, logStart: -1, recordIndex: -1}
		records, _ := r.bytes()
		r.tags(nil)
		p.slots = append(p.slots, slot)
		t.slots++
		s := &p.slots[len(p.slots)-1]
		switch {
		case refusal != codeNone:
		case view == nil:
			s.code = unknown
		default:
			l.producePartition(p, s, view, records)
		}
		p.failed = p.failed || s.code != codeNone
	}
	r.tags(nil)
	p.topics = append(p.topics, t)
}

// producePartition checks one batch and hands it to its shard.
func (l *loop) producePartition(p *produceRequest, s *produceSlot, view *topicView, records []byte) {
	shard, code := view.shard(l.server, s.partition)
	if code != codeNone {
		s.code = code
		return
	}
	a := l.newAppend()
	a.User, a.Slot = p, int32(len(p.slots)-1)
	a.RequireHighWatermark = p.acks == -1
	err := l.submit(p.e, shard, view, records, a)
	if err == nil {
		p.pending++
		l.server.metrics.ProducedBytes.Add(int64(len(records)))
		p.e.conn.client.produced.Add(int64(len(records)))
		return
	}
	l.freeAppend(a)
	s.code = codeOf(err)
	s.message = err.Error()
	var bad *recordbatch.BatchError
	if errors.As(err, &bad) {
		s.recordIndex = bad.Index
	}
}

// submit decodes a batch into its shard. The decoder belongs to the loop: it is open only within the call.
func (l *loop) submit(e *exchange, shard *engine.Shard, view *topicView, records []byte, a *engine.Append) error {
	batch := &l.batch
	if err := batch.ParseProduced(records, view.config.MessageBytesMax); err != nil {
		return err
	}
	if batch.Codec() == model.CodecZstd && e.version < 7 {
		return errZstdVersion
	}
	l.limits = recordbatch.Limits{
		Now:                l.server.o.Now().UnixMilli(),
		RecordBytesMax:     int64(view.config.DecompressedMessageBytesMax),
		DecodedBytesMax:    l.server.o.Config.ProduceDecodedBytesMax,
		KeyRequired:        view.config.CleanupCompact,
		LogAppendTime:      view.config.LogAppendTime,
		TimestampBeforeMax: view.config.TimestampBeforeMaxMS,
		TimestampAfterMax:  view.config.TimestampAfterMaxMS,
	}
	l.charging = e
	err := l.decoder.Open(batch, &l.limits)
	if err == nil {
		l.decoder.Header(&a.Header)
		err = shard.Submit(a, l.decoder)
	}
	stored := int64(0)
	if err == nil && batch.Codec() != model.CodecNone {
		stored = int64(l.decoder.DecodedBytes())
	}
	l.decoder.Close()
	l.charging = nil
	// What was decompressed waits for the disk now. Where it does not fit, nothing more will be taken anyway.
	e.Charge(stored)
	return err
}

// charge counts what the decoder takes against the bytes in flight while it has it.
func (l *loop) charge(bytes int64) bool {
	if bytes < 0 {
		l.charging.Uncharge(-bytes)
		return true
	}
	return l.charging.Charge(bytes)
}

// appended takes an append that its shard is done with.
func (l *loop) appended(a *engine.Append) {
	p := a.User.(*produceRequest)
	s := &p.slots[a.Slot]
	if a.Err != nil {
		s.code, s.message, p.failed = codeOf(a.Err), a.Err.Error(), true
	} else {
		s.baseOffset, s.logStart = a.BaseOffset, a.LogStartOffset
		if a.Duplicate || a.Header.Flags&model.FlagLogAppendTime != 0 {
			s.appendTime = a.MaxTimestamp
		}
	}
	l.freeAppend(a)
	if p.pending--; p.pending == 0 {
		l.produced(p)
	}
}

// produced answers a request all of whose appends are done. Without acknowledgements the only sign of an
// error is the end of the connection.
func (l *loop) produced(p *produceRequest) {
	e := p.e
	l.server.answered(e)
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
		p.e = e
		return p
	}
	return &produceRequest{e: e}
}

func (l *loop) freeProduce(p *produceRequest) {
	clear(p.slots)
	*p = produceRequest{topics: p.topics[:0], slots: p.slots[:0], names: p.names[:0]}
	if len(l.freeProduces) < freeListMax && cap(p.slots) <= 4096 {
		l.freeProduces = append(l.freeProduces, p)
	}
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
