package kafka

import (
	"errors"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/recordbatch"
	"millrace/meta/cluster"
	"millrace/netio"
)

// To append what a request brings is work on each of its bytes, and on each byte that these decompress to. An event
// loop does as much of it for one request as takes a few milliseconds; the rest of a request is left to a worker of
// Server.busy. What is behind such a request on its connection waits, so that batches stay in their order.
const (
	// loopWorkMax bounds what a loop appends of one request: its bytes, uncompressed, and more for each record and
	// partition, in units that take about a nanosecond.
	loopWorkMax   = 4 << 20
	recordWork    = 64
	partitionWork = 1024
	// loopDecodedMax is the most that a loop decompresses a batch to: as much as clients put into one that count
	// uncompressed bytes. loopPackedMax is the most that it begins to decompress: more would hardly stay within.
	loopDecodedMax = 1 << 20
	loopPackedMax  = 256 << 10
)

// errNotOnLoop says that a worker is to append a batch.
var errNotOnLoop = errors.New("batch is too much work for an event loop")

// producer appends what Produce requests bring. A loop has one, and each worker that appends takes one.
type producer struct {
	views
	decoder  *recordbatch.Decoder
	batch    recordbatch.Batch
	limits   recordbatch.Limits
	charging *exchange // whose request the decoder works for
}

func newProducer(s *Server, l *loop) *producer {
	c := &producer{views: views{s, l}}
	c.decoder = recordbatch.NewDecoder(s.o.Pool, c.charge)
	return c
}

// walk appends what is left of p. It returns false where a worker is to go on with it.
func (c *producer) walk(p *produceRequest) bool {
	for {
		for ; p.partitionsLeft > 0; p.partitionsLeft-- {
			before := p.rest
			if !c.partition(p) {
				p.rest = before
				return false
			}
		}
		if len(p.topics) > 0 {
			p.rest.tags(noneTagged)
		}
		if p.topicsLeft == 0 {
			return true
		}
		p.topicsLeft--
		c.topic(p)
	}
}

// topic begins with the next topic.
func (c *producer) topic(p *produceRequest) {
	t := produceTopic{nameFrom: len(p.names)}
	p.unknown = codeUnknownTopicOrPartition
	if p.e.version >= 13 {
		copy(t.id[:], p.rest.take(len(t.id)))
		p.unknown = codeUnknownTopicID
	} else {
		name, _ := p.rest.string()
		p.names = append(p.names, name...)
	}
	t.nameTo = len(p.names)
	p.topics = append(p.topics, t)
	p.partitionsLeft = p.rest.array(1)
	c.look(p)
}

// look finds the topic at hand.
func (c *producer) look(p *produceRequest) {
	p.view = nil
	if len(p.topics) == 0 {
		return
	}
	t := &p.topics[len(p.topics)-1]
	image := c.image()
	var topic *cluster.Topic
	if p.e.version >= 13 {
		topic = image.TopicByID(t.id)
	} else {
		topic = image.TopicByName(p.names[t.nameFrom:t.nameTo])
	}
	if topic != nil {
		p.view = c.view(image, topic)
	}
}

// partition appends what one partition was sent. It returns false, and has done nothing, where that is too much for a
// loop.
func (c *producer) partition(p *produceRequest) bool {
	s := produceSlot{partition: p.rest.int32(), code: p.refusal, baseOffset: -1, appendTime: -1, logStart: -1, recordIndex: -1}
	records, _ := p.rest.bytes()
	p.rest.tags(noneTagged)
	if p.work += partitionWork; c.loop != nil && p.work > loopWorkMax {
		return false
	}
	switch {
	case s.code != codeNone:
	case p.view == nil:
		s.code = p.unknown
	default:
		var shard *engine.Shard
		if shard, s.code = p.view.shard(c.server, s.partition); s.code == codeNone && !c.append(p, &s, shard, records) {
			return false
		}
	}
	p.slots = append(p.slots, s)
	p.topics[len(p.topics)-1].slots++
	p.failed = p.failed || s.code != codeNone
	return true
}

// append checks one batch and hands it to its shard.
func (c *producer) append(p *produceRequest, s *produceSlot, shard *engine.Shard, records []byte) bool {
	a := c.newAppend(p)
	a.User, a.Slot = p, int32(len(p.slots))
	a.RequireHighWatermark = p.acks == -1
	err := c.submit(p, shard, records, a)
	if err == nil {
		p.pending++
		p.accepted += int64(len(records))
		return true
	}
	if c.loop != nil {
		c.loop.freeAppend(a)
	}
	if err == errNotOnLoop {
		return false
	}
	s.code = codeOf(err)
	s.message = err.Error()
	var bad *recordbatch.BatchError
	if errors.As(err, &bad) {
		s.recordIndex = bad.Index
	}
	return true
}

func (c *producer) newAppend(p *produceRequest) *engine.Append {
	if c.loop != nil {
		return c.loop.newAppend()
	}
	return &engine.Append{Loop: p.e.conn.loop.index, ExpectedEpoch: -1}
}

// submit decodes a batch into its shard. The decoder is open only within the call.
func (c *producer) submit(p *produceRequest, shard *engine.Shard, records []byte, a *engine.Append) error {
	config := p.view.config
	if c.loop != nil && p.work+int64(len(records)) > loopWorkMax {
		return errNotOnLoop
	}
	batch := &c.batch
	if err := batch.ParseProduced(records, config.MessageBytesMax); err != nil {
		p.work += int64(len(records))
		return err
	}
	if batch.Codec() == model.CodecZstd && p.e.version < 7 {
		return errZstdVersion
	}
	c.limits = recordbatch.Limits{
		Now:                c.server.o.Now().UnixMilli(),
		RecordBytesMax:     int64(config.DecompressedMessageBytesMax),
		DecodedBytesMax:    c.server.o.Config.ProduceDecodedBytesMax,
		KeyRequired:        config.CleanupCompact,
		LogAppendTime:      config.LogAppendTime,
		TimestampBeforeMax: config.TimestampBeforeMaxMS,
		TimestampAfterMax:  config.TimestampAfterMaxMS,
	}
	c.charging = p.e
	err := c.open(p)
	if err == nil {
		c.decoder.Header(&a.Header)
		err = shard.Submit(a, c.decoder)
	}
	stored := int64(0)
	if err == nil && batch.Codec() != model.CodecNone {
		stored = int64(c.decoder.DecodedBytes())
	}
	c.decoder.Close()
	c.charging = nil
	// What was decompressed waits for the disk now. Where it does not fit, nothing more will be taken anyway.
	p.e.Charge(stored)
	return err
}

// open opens the decoder on c.batch and counts the work. On a loop it may return errNotOnLoop.
func (c *producer) open(p *produceRequest) error {
	batch := &c.batch
	records := int64(batch.Count) * recordWork
	most := c.limits.DecodedBytesMax
	if c.loop != nil {
		packed := batch.Codec() != model.CodecNone
		if p.work+records > loopWorkMax || packed && len(batch.Records) > loopPackedMax {
			return errNotOnLoop
		}
		if packed {
			c.limits.DecodedBytesMax = min(most, loopDecodedMax, loopWorkMax-p.work-records)
		}
	}
	err := c.decoder.Open(batch, &c.limits)
	if c.limits.DecodedBytesMax < most && errors.Is(err, recordbatch.ErrTooLarge) {
		return errNotOnLoop
	}
	p.work += records + int64(c.decoder.DecodedBytes())
	return err
}

// charge counts what the decoder takes against the bytes in flight while it has it.
func (c *producer) charge(bytes int64) bool {
	if bytes < 0 {
		c.charging.Uncharge(-bytes)
		return true
	}
	return c.charging.Charge(bytes)
}

// leave lets a worker append the rest of p.
func (l *loop) leave(p *produceRequest) {
	e := p.e
	at := len(e.body) - len(p.rest.b)
	e.retain()
	p.rest.b = e.body[at:]
	p.away = true
	e.conn.alone = true
	l.server.metrics.ProducesLeft.Add(1)
	l.server.busy.run(p.runOnWorker)
}

func (p *produceRequest) runOnWorker() {
	l := p.e.conn.loop
	c := l.server.producers.Get().(*producer)
	c.look(p)
	c.walk(p)
	l.server.producers.Put(c)
	l.net.Post(p)
}

// RunOnLoop takes p back from a worker.
func (p *produceRequest) RunOnLoop(*netio.Loop) {
	c := p.e.conn
	p.away, c.alone = false, false
	done := p.done
	p.done = nil
	for done != nil {
		a := done
		done, a.Next = a.Next, nil
		p.finished(a)
	}
	if p.pending == 0 {
		c.loop.produced(p)
	}
	c.pump()
}
