// Package fetchsession holds the incremental fetch sessions of KIP-227: which partitions a client follows,
// what it was last told of each, and the epochs that keep both sides in step. It is pure but for the locks
// that let connections of several event loops share it: time comes in as an argument.
package fetchsession

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

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
	forgotten         bool // is to leave the order
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
	cache      *Cache
	follows    atomic.Int64 // partitions, as counted in the cache; leftSession once it has left that
	sync.Mutex              // guards what follows
	epoch      int32
	order      []*Partition // in the order in which they are served
	byKey      map[Key]*Partition
	moved      []*Partition // scratch of Rotate
	forgot     bool         // order holds partitions that are forgotten
	name       string       // of the partition that was put last: those of one topic share it

	usedMillis int64 // guarded by the cache
}

// Partitions returns what is followed, in serving order. Call it under the lock; the slice is valid until
// the session changes.
func (s *Session) Partitions() []*Partition {
	if s.forgot { // once for all of a request: there may be very many
		s.order = slices.DeleteFunc(s.order, func(p *Partition) bool { return p.forgotten })
		s.forgot = false
	}
	return s.order
}

// leftSession stands in Session.follows of a session that is not in its cache any more.
const leftSession = math.MinInt64

// grow counts n more partitions and returns whether that is allowed.
func (s *Session) grow(n int64) bool {
	if n > 0 && s.cache.follows.Load()+n > partitionsMax {
		return false
	}
	for {
		had := s.follows.Load()
		if had == leftSession {
			return true // its last request; it goes with that
		}
		if s.follows.CompareAndSwap(had, had+n) {
			s.cache.follows.Add(n)
			return true
		}
	}
}

// leave takes the session's partitions out of the cache's count.
func (s *Session) leave() {
	if had := s.follows.Swap(leftSession); had != leftSession {
		s.cache.follows.Add(-had)
	}
}

// Put adds a partition or changes what is asked of it. name may be a slice of a frame; it is copied when the
// partition is new. It returns nil where the partition cannot be followed: all sessions together follow too many,
// or no topic can have that name. Call it under the lock.
func (s *Session) Put(name []byte, topic model.TopicID, index int32, offset int64, maxBytes, leaderEpoch, lastFetchedEpoch int32) *Partition {
	p := s.byKey[Key{string(name), topic, index}]
	if p == nil {
		if len(name) > nameBytesMax || !s.grow(1) {
			return nil
		}
		if s.name != string(name) {
			s.name = string(name)
		}
		p = &Partition{Key: Key{s.name, topic, index}, sentHighWatermark: -1, sentLogStart: -1}
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
	p.forgotten, s.forgot = true, true
	s.grow(-1)
}

// Rotate moves the partitions that were given records in the last reply to the end, so that each has its
// turn under a small reply limit. Call it under the lock.
func (s *Session) Rotate() {
	order := s.Partitions()
	kept := order[:0]
	s.moved = s.moved[:0]
	for _, p := range order {
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
