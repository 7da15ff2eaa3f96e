package kafka

import (
	"slices"
	"time"

	"millrace/engine/model"
	"millrace/kafka/fetchsession"
)

// maxWaitMax bounds the wait that a client may ask for; beyond it the answer comes early.
const maxWaitMax = 24 * time.Hour

// fetchParsed is what became of reading a request.
type fetchParsed uint8

const (
	fetchReady     fetchParsed = iota
	fetchMalformed             // the request is not whole
	fetchNotNow                // it is too large, and was closed or waits until it fits
)

// fetchedPartitionBytes is about what a partition of a request takes: its slot, its place among those that were
// seen, in the session, and in the answer.
const fetchedPartitionBytes = 640

// fetchReader takes Fetch requests apart and finds what they ask for. A loop has one, and a worker makes one for a wide
// request.
type fetchReader struct {
	views
	seen map[fetchsession.Key]int // slots of the request that is being read
}

// parseFetch reads a Fetch request into f, but for its partitions.
func (l *loop) parseFetch(f *fetchRequest, r *wireReader) fetchParsed {
	version := f.e.version
	f.usesIDs = version >= 13
	if version < 15 {
		r.int32() // replica id
	}
	f.maxWait = min(max(time.Duration(r.int32()), 0)*time.Millisecond, maxWaitMax)
	f.minBytes, f.maxBytes = int(r.int32()), int(r.int32())
	f.maxBytes = max(min(f.maxBytes, l.server.o.Config.FetchBytesMax), 0)
	f.readCommitted = r.int8() == 1
	id, epoch := int32(0), int32(-1)
	if version >= 7 {
		id, epoch = r.int32(), r.int32()
	}
	topics := *r
	partitions, whole := checkFetch(r, version, int(l.server.o.Config.QueuedRequestBytesMax/2/fetchedPartitionBytes))
	if !whole {
		return fetchMalformed
	}
	if partitions += l.server.sessions.Follows(id); partitions > wideRequest &&
		!l.afford(f.e, int64(partitions)*fetchedPartitionBytes) {
		return fetchNotNow
	}
	f.slots = slices.Grow(f.slots, partitions) // growing by and by would leave as much behind again
	f.wide = partitions > wideRequest
	f.topics, f.sessionID, f.sessionEpoch = topics, id, epoch
	return fetchReady
}

// checkFetch tells whether the request is whole from its topics on, of at most most partitions, and how many it names.
func checkFetch(r *wireReader, version int16, most int) (partitions int, whole bool) {
	ok := true
	count := func() {
		if partitions++; partitions > most {
			r.bad, r.b = true, nil
		}
	}
	eachFetched(r, version, func([]byte, model.TopicID, fetchedPartition) { count() }, &ok)
	if version >= 7 {
		eachForgotten(r, version, func([]byte, model.TopicID, int32) { count() }, &ok)
	}
	if version >= 11 {
		_, rack := r.string() // which may be empty, but not null
		ok = ok && rack
	}
	r.tags(taggedInFetch)
	return partitions, ok && !r.bad
}

// fetchedPartition is one partition as the request names it.
type fetchedPartition struct {
	index            int32
	leaderEpoch      int32
	offset           int64
	lastFetchedEpoch int32
	maxBytes         int32
}

func eachFetched(r *wireReader, version int16, f func(name []byte, id model.TopicID, p fetchedPartition), ok *bool) {
	for range r.array(1) {
		name, id := topicRef(r, version, ok)
		for range r.array(16) {
			p := fetchedPartition{index: r.int32(), leaderEpoch: -1, lastFetchedEpoch: -1}
			if version >= 9 {
				p.leaderEpoch = r.int32()
			}
			p.offset = r.int64()
			if version >= 12 {
				p.lastFetchedEpoch = r.int32()
			}
			if version >= 5 {
				r.int64() // the follower's log start
			}
			p.maxBytes = r.int32()
			r.tags(taggedInFetchedPartition)
			if r.bad {
				return
			}
			f(name, id, p)
		}
		r.tags(noneTagged)
	}
}

func eachForgotten(r *wireReader, version int16, f func(name []byte, id model.TopicID, index int32), ok *bool) {
	for range r.array(1) {
		name, id := topicRef(r, version, ok)
		for range r.array(4) {
			index := r.int32()
			if r.bad {
				return
			}
			f(name, id, index)
		}
		r.tags(noneTagged)
	}
}

// topicRef reads a topic's id or, before v13, its name, which must not be null.
func topicRef(r *wireReader, version int16, ok *bool) (name []byte, id model.TopicID) {
	if version >= 13 {
		copy(id[:], r.take(len(id)))
		return nil, id
	}
	name, present := r.string()
	*ok = *ok && present
	return name, id
}

// openSession finds or makes the request's session (KIP-227) and fills f.slots with what is to be served. A fault of the
// session is left in f.code.
func (d *fetchReader) openSession(f *fetchRequest) {
	sessions := d.server.sessions
	now := d.server.now() / int64(time.Millisecond)
	topics, id, epoch := f.topics, f.sessionID, f.sessionEpoch
	f.topics, f.sessionID = wireReader{}, 0
	if epoch == 0 || epoch == -1 {
		f.full = true
		if id != 0 {
			sessions.Close(id)
		}
		d.fillSlots(f, &topics)
		if epoch == 0 && len(f.slots) > 0 {
			d.createSession(f, now)
		}
		return
	}
	s, err := sessions.Continue(now, id, epoch, f.usesIDs)
	if err != nil {
		f.code = codeOf(err)
		return
	}
	defer s.Unlock()
	ok, full := true, false
	eachFetched(&topics, f.e.version, func(name []byte, id model.TopicID, p fetchedPartition) {
		if s.Put(name, id, p.index, p.offset, p.maxBytes, p.leaderEpoch, p.lastFetchedEpoch) == nil {
			full = true
		}
	}, &ok)
	eachForgotten(&topics, f.e.version, s.Forget, &ok)
	if full { // the client begins again, without a session
		sessions.Close(s.ID)
		f.code = codeFetchSessionIDNotFound
		return
	}
	if len(s.Partitions()) == 0 {
		sessions.Close(s.ID)
		f.full = true
		return
	}
	f.session, f.sessionID = s, s.ID
	for _, p := range s.Partitions() {
		f.addSlot(p.Topic, fetchedPartition{index: p.Index, leaderEpoch: p.LeaderEpoch,
			offset: p.FetchOffset, lastFetchedEpoch: p.LastFetchedEpoch, maxBytes: p.MaxBytes})
		slot := &f.slots[len(f.slots)-1]
		slot.known = p
		if !f.usesIDs {
			if n := len(f.slots) - 1; n > 0 && f.slots[n-1].known.Name == p.Name {
				slot.nameFrom, slot.nameTo = f.slots[n-1].nameFrom, f.slots[n-1].nameTo
				continue
			}
			slot.nameFrom = len(f.names)
			f.names = append(f.names, p.Name...)
			slot.nameTo = len(f.names)
		}
	}
}

// createSession makes a session of what f asks for, if a slot is free.
func (d *fetchReader) createSession(f *fetchRequest, now int64) {
	s := d.server.sessions.Create(now, f.usesIDs, len(f.slots))
	if s == nil {
		return
	}
	s.Lock()
	defer s.Unlock()
	for i := range f.slots {
		t := &f.slots[i]
		t.known = s.Put(f.name(t), t.topic, t.partition, t.offset, int32(t.maxBytes), t.leaderEpoch, t.lastFetchedEpoch)
		if t.known == nil { // too many: go on without a session
			d.server.sessions.Close(s.ID)
			for j := range f.slots[:i] {
				f.slots[j].known = nil
			}
			return
		}
	}
	f.session, f.sessionID = s, s.ID
}

// fillSlots takes the partitions of the request itself; of a partition that is named twice the last counts.
func (d *fetchReader) fillSlots(f *fetchRequest, topics *wireReader) {
	clear(d.seen)
	ok := true
	name, nameFrom := []byte(nil), 0
	eachFetched(topics, f.e.version, func(n []byte, id model.TopicID, p fetchedPartition) {
		if f.usesIDs {
			if !d.replaceSlot(f, fetchsession.Key{Topic: id, Index: p.index}, p) {
				f.addSlot(id, p)
			}
			return
		}
		if len(f.slots) == 0 || string(n) != string(name) {
			name, nameFrom = n, len(f.names)
			f.names = append(f.names, n...)
		}
		key := fetchsession.Key{Index: p.index}
		if t := d.image().TopicByName(n); t != nil {
			key.Topic = t.ID
			if d.replaceSlot(f, key, p) {
				return
			}
		}
		f.addSlot(id, p)
		s := &f.slots[len(f.slots)-1]
		s.nameFrom, s.nameTo = nameFrom, nameFrom+len(n)
	}, &ok)
}

// replaceSlot overwrites the slot of a partition that was named before and tells whether there is one.
func (d *fetchReader) replaceSlot(f *fetchRequest, key fetchsession.Key, p fetchedPartition) bool {
	i, again := d.seen[key]
	if !again {
		d.seen[key] = len(f.slots)
		return false
	}
	s := &f.slots[i]
	s.offset, s.maxBytes, s.leaderEpoch, s.lastFetchedEpoch = p.offset, int(p.maxBytes), p.leaderEpoch, p.lastFetchedEpoch
	return true
}

func (f *fetchRequest) addSlot(id model.TopicID, p fetchedPartition) {
	if len(f.slots) < cap(f.slots) {
		f.slots = f.slots[:len(f.slots)+1]
	} else {
		f.slots = append(f.slots, fetchSlot{})
	}
	s := &f.slots[len(f.slots)-1]
	*s = fetchSlot{topic: id, partition: p.index, offset: p.offset, maxBytes: int(p.maxBytes),
		leaderEpoch: p.leaderEpoch, lastFetchedEpoch: p.lastFetchedEpoch, divergesEpoch: -1}
}
