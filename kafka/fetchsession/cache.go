package fetchsession

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

var (
	// ErrNotFound answers FETCH_SESSION_ID_NOT_FOUND.
	ErrNotFound = errors.New("fetch session is not known")
	// ErrInvalidEpoch answers INVALID_FETCH_SESSION_EPOCH.
	ErrInvalidEpoch = errors.New("fetch session epoch is not the next one")
	// ErrTopicID answers FETCH_SESSION_TOPIC_ID_ERROR.
	ErrTopicID = errors.New("fetch session names topics the other way")
)

// idleMillis is how long a session must be unused before a new one may take its slot (Kafka's constant).
const idleMillis = 120_000

const (
	// partitionsMax bounds the partitions that all sessions follow together, at about 250 bytes each.
	partitionsMax = 1 << 18
	// nameBytesMax is the length of the longest topic name there can be; others are not followed.
	nameBytesMax = 249
)

// Cache holds at most a fixed number of sessions, which follow a bounded number of partitions together. It is
// safe for concurrent use.
type Cache struct {
	slots   int
	follows atomic.Int64 // partitions of all sessions

	mu       sync.Mutex
	sessions map[int32]*Session
	evicted  int64
}

// NewCache returns a cache of slots sessions.
func NewCache(slots int) *Cache {
	return &Cache{slots: slots, sessions: make(map[int32]*Session)}
}

// Len returns the number of sessions, Evicted how many lost their slot to a new one.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions)
}

// Evicted returns how many sessions lost their slot to a new one.
func (c *Cache) Evicted() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.evicted
}

// Create makes a session for about as many partitions as given, whose next request carries epoch 1. It returns
// nil when no slot is free and none has been idle long enough, or when all sessions together would follow too
// many partitions; the client then goes on without a session.
func (c *Cache) Create(nowMillis int64, usesIDs bool, partitions int) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.follows.Load()+int64(partitions) > partitionsMax {
		return nil
	}
	if len(c.sessions) >= c.slots && !c.evictLocked(nowMillis) {
		return nil
	}
	id := rand.Int32N(1<<31-1) + 1
	for c.sessions[id] != nil {
		id = rand.Int32N(1<<31-1) + 1
	}
	s := &Session{ID: id, UsesIDs: usesIDs, cache: c, epoch: 1,
		byKey: make(map[Key]*Partition, partitions), order: make([]*Partition, 0, partitions), usedMillis: nowMillis}
	c.sessions[id] = s
	return s
}

func (c *Cache) evictLocked(nowMillis int64) bool {
	var oldest *Session
	for _, s := range c.sessions {
		if oldest == nil || s.usedMillis < oldest.usedMillis {
			oldest = s
		}
	}
	if oldest == nil || nowMillis-oldest.usedMillis <= idleMillis {
		return false
	}
	delete(c.sessions, oldest.ID)
	oldest.leave()
	c.evicted++
	return true
}

// Continue finds the session of an incremental request and, when its epoch is the expected one, returns it
// locked and with its epoch moved on; the caller unlocks it.
func (c *Cache) Continue(nowMillis int64, id, epoch int32, usesIDs bool) (*Session, error) {
	c.mu.Lock()
	s := c.sessions[id]
	if s != nil {
		s.usedMillis = nowMillis
	}
	c.mu.Unlock()
	if s == nil {
		return nil, ErrNotFound
	}
	s.Lock()
	switch {
	case s.UsesIDs != usesIDs:
		s.Unlock()
		return nil, ErrTopicID
	case s.epoch != epoch:
		s.Unlock()
		return nil, ErrInvalidEpoch
	}
	s.epoch = nextEpoch(epoch)
	return s, nil
}

// Close forgets a session; an unknown id is ignored.
func (c *Cache) Close(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[id]; s != nil {
		delete(c.sessions, id)
		s.leave()
	}
}

// Follows returns how many partitions a session follows; none for an unknown id.
func (c *Cache) Follows(id int32) int {
	if id == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[id]; s != nil {
		return int(max(s.follows.Load(), 0))
	}
	return 0
}
