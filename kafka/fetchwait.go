package kafka

import (
	"time"

	"millrace/engine/model"
	"millrace/kafka/fetchsession"
	"millrace/meta/config"
	"millrace/netio"
)

// Long polls hold their slots for as long as they wait. A wide one is answered at once where many wait already.
const (
	pollSlotsMax  = 1 << 18
	pollSlotsFree = 16 // a poll of so few may always wait: the exchanges of its connection bound them

	// A poll of more partitions than these is tried again by the clock: an event loop would take long to watch them all.
	watchedSlotsMax = 1 << 14
	unwatchedRetry  = 100 * time.Millisecond
)

// mayPoll tells whether f may wait.
func (l *loop) mayPoll(f *fetchRequest) bool {
	return len(f.slots) <= pollSlotsFree || l.pollSlots+len(f.slots) <= pollSlotsMax
}

// poll lets f wait until one of its partitions changes or its time is over.
func (l *loop) poll(f *fetchRequest) {
	if f.deadline == 0 {
		f.deadline = l.now() + int64(f.maxWait)
		f.e.forget() // it was read: what is left of it are the slots
		l.server.metrics.FetchesWaited.Add(1)
	}
	f.e.waitsSince = l.server.o.Now()
	l.pollSlots += len(f.slots)
	l.keys = l.keys[:0]
	watched, until := f.slots, f.deadline
	if len(watched) > watchedSlotsMax {
		watched, until = nil, min(until, l.now()+int64(unwatchedRetry))
	}
	for i := range watched {
		if sh := watched[i].shard; sh != nil {
			sh.Watch(l.index)
			l.keys = append(l.keys, sh)
		}
	}
	f.wait.Owner = f
	l.polls.Add(&f.wait, until, l.keys)
	c := f.e.conn
	if f.connNext = c.polls; f.connNext != nil {
		f.connNext.connPrev = f
	}
	c.polls = f
	// What moved between planning and watching is told by nobody.
	for i := range watched {
		s := &watched[i]
		if s.shard != nil && s.shard.State() != s.state {
			l.unpoll(f)
			l.attempt(f)
			return
		}
	}
	l.armTimer()
}

// unpoll ends the wait of f.
func (l *loop) unpoll(f *fetchRequest) {
	l.polls.Remove(&f.wait)
	f.e.waited += l.server.o.Now().Sub(f.e.waitsSince)
	l.pollSlots -= len(f.slots)
	if f.connPrev != nil {
		f.connPrev.connNext = f.connNext
	} else {
		f.e.conn.polls = f.connNext
	}
	if f.connNext != nil {
		f.connNext.connPrev = f.connPrev
	}
	f.connPrev, f.connNext = nil, nil
}

// retryPoll tries f again, because something changed or its time is over.
func (l *loop) retryPoll(f *fetchRequest) {
	l.unpoll(f)
	l.attempt(f)
}

// abandon ends a long poll whose connection is gone.
func (l *loop) abandon(f *fetchRequest) {
	l.unpoll(f)
	e := f.e
	l.freeFetch(f)
	l.drop(e)
}

// fetchOnWorker lets a worker read what is not resident, compress, or encode what is large.
func (l *loop) fetchOnWorker(f *fetchRequest) {
	f.e.conn.fetching = true
	l.server.metrics.FetchesBlocking.Add(1)
	l.chargeReply(f, f.askedBytes())
	l.server.workers.run(f.runOnWorker)
}

// askedBytes is the most that the reply can hold.
func (f *fetchRequest) askedBytes() int {
	total := 0
	for i := range f.slots {
		s := &f.slots[i]
		if s.code == codeNone && s.offset < s.upTo {
			total += max(s.maxBytes, 0)
		}
		if total >= f.maxBytes {
			return f.maxBytes
		}
	}
	return total
}

func (f *fetchRequest) runOnWorker() {
	f.releaseSpans()
	f.plan(true)
	if f.compresses() {
		f.loop.server.busy.run(f.encodeOnWorker)
		return
	}
	f.encodeOnWorker()
}

func (f *fetchRequest) encodeOnWorker() {
	s := f.loop.server
	c := s.encoders.Get().(*fetchEncoder)
	f.encode(c)
	s.encoders.Put(c)
	f.loop.net.Post(f)
}

// fetchWide lets a worker do all that there is to do for a request of many partitions. Those behind it wait, since it may
// change its session.
func (l *loop) fetchWide(f *fetchRequest, hurried bool) {
	f.e.conn.fetching, f.e.conn.alone = true, true
	l.server.metrics.FetchesBlocking.Add(1)
	l.server.large.run(func() { f.runWide(hurried) })
}

// runWide makes the reply or, where there is too little to send, none.
func (f *fetchRequest) runWide(hurried bool) {
	d := fetchReader{views: views{server: f.loop.server}}
	if !f.opened {
		f.opened = true
		d.seen = make(map[fetchsession.Key]int, cap(f.slots))
		d.openSession(f)
	}
	if f.code != codeNone {
		f.loop.net.Post(f)
		return
	}
	failed := d.resolve(f)
	total, outOfReach := f.plan(false)
	if !outOfReach && !hurried && !f.due(total, failed) {
		f.releaseSpans()
		f.loop.net.Post(f)
		return
	}
	f.loop.chargeReply(f, f.askedBytes())
	f.runOnWorker()
}

// RunOnLoop sends what a worker made, or lets f wait.
func (f *fetchRequest) RunOnLoop(*netio.Loop) {
	l, c := f.loop, f.e.conn
	c.fetching = false
	c.alone = c.alone && !f.wide
	switch {
	case f.reply != nil || f.code != codeNone:
		l.sendFetch(f, f.reply)
	case c.net.Closed():
		l.abandonStalled([]*fetchRequest{f})
	default:
		l.poll(f)
		c.pump()
	}
	if len(c.stalled) > 0 {
		l.retryStalled()
		l.armTimer()
	}
}

// codecOf is the codec, and its level, that a topic's records are fetched with.
func codecOf(c *config.Topic) (codec model.Codec, level int) {
	switch c.Compression {
	case config.CompressionGzip:
		return model.CodecGzip, c.CompressionGzipLevel
	case config.CompressionSnappy:
		return model.CodecSnappy, 0
	case config.CompressionLZ4:
		return model.CodecLZ4, c.CompressionLZ4Level
	case config.CompressionZstd:
		return model.CodecZstd, c.CompressionZstdLevel
	}
	return model.CodecNone, 0
}
