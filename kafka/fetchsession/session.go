// Package fetchsession holds the incremental fetch sessions of KIP-227: which partitions a client follows,
// what it was last told of each, and the epochs that keep both sides in step. It is pure but for the locks
// that let connections of several event loops share it: time comes in as an argument.
package fetchsession

import (
	"math"
	"sync"

	"millrace/engine/model"
)

// Key names a partition in a session: by topic id from Fetch v13 on, by name before.
type Key struct {
	Name  string
	Topic model.TopicID
	Index int32
}

// Partition is one partition that a session follows. Its fields are guarded by the session's lock.
type Partition struct {
	Key
	FetchOffset      int64
	MaxBytes         int32
	LeaderEpoch      int32 // the client's; -1: not to be checked
	LastFetchedEpoch int32

	sentHighWatermark int64 // -1: nothing was sent yet, or an error
	sentLogStart      int64
	served            bool // was given records in the last reply
}

// Changed tells whether the client must be told of the partition, and remembers that it was: when there are
// records, an error, or a high watermark or log start that differ from what it was told last. A partition in
// error is told of again each time.
func (p *Partition) Changed(code int16, recordBytes int, highWatermark, logStart int64) bool {
	changed := recordBytes > 0 || code != 0 || p.sentHighWatermark != highWatermark || p.sentLogStart != logStart
	p.sentHighWatermark, p.sentLogStart = highWatermark, logStart
	p.served = recordBytes > 0
	if code != 0 {
		p.sentHighWatermark = -1
	}
	return changed
}

// Session is what one client follows.
type Session struct {
	ID         int32
	UsesIDs    bool // topics are named by id (Fetch v13 and later)
	sync.Mutex      // guards what follows
	epoch      int32
	order      []*Partition // in the order in which they are served
	byKey      map[Key]*Partition
	moved      []*Partition // scratch of Rotate

	usedMillis int64 // guarded by the cache
}

// Partitions returns what is followed, in serving order. Call it under the lock; the slice is valid until
// the session changes.
func (s *Session) Partitions() []*Partition { return s.order }

// Put adds a partition or changes what is asked of it. name may be a slice of a frame; it is copied when the
// partition is new. Call it under the lock.
func (s *Session) Put(name []byte, topic model.TopicID, index int32, offset int64, maxBytes, leaderEpoch, lastFetchedEpoch int32) *Partition {
	p := s.byKey[Key{string(name), topic, index}]
	if p == nil {
		p = &Partition{Key: Key{string(name), topic, index}, sentHighWatermark: -1, sentLogStart: -1}
		s.byKey[p.Key] = p
		s.order = append(s.order, p)
	}
	p.FetchOffset, p.MaxBytes, p.LeaderEpoch, p.LastFetchedEpoch = offset, maxBytes, leaderEpoch, lastFetchedEpoch
	return p
}

// Forget removes a partition; unknown ones are ignored. Call it under the lock.
func (s *Session) Forget(name []byte, topic model.TopicID, index int32) {
	p := s.byKey[Key{string(name), topic, index}]
	if p == nil {
		return
	}
	delete(s.byKey, p.Key)
	for i, q := range s.order {
		if q == p {
			s.order = append(s.order[:i], s.order[i+1:]...)
			return
		}
	}
}

// Rotate moves the partitions that were given records in the last reply to the end, so that each has its
// turn under a small reply limit. Call it under the lock.
func (s *Session) Rotate() {
	kept := s.order[:0]
	s.moved = s.moved[:0]
	for _, p := range s.order {
		if p.served {
			p.served = false
			s.moved = append(s.moved, p)
		} else {
			kept = append(kept, p)
		}
	}
	s.order = append(kept, s.moved...)
	clear(s.moved)
}

func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}
