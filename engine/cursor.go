package engine

import "sync"

const cursorSlots = 4

// cursorCache remembers where recent reads of a shard ended, so that sequential readers skip index and
// walk. A cursor is a hint: the read that uses it verifies that an append with that very offset begins there.
type cursorCache struct {
	mu    sync.Mutex
	slots [cursorSlots]cursor
	next  int
}

type cursor struct {
	segment *segment
	entry   indexEntry
}

// find returns the cursor at exactly this offset.
func (c *cursorCache) find(s *segment, offset int64) (indexEntry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.slots {
		if c.slots[i].entry.offset == offset && c.slots[i].segment == s {
			return c.slots[i].entry, true
		}
	}
	return indexEntry{}, false
}

// note remembers where a read ended.
func (c *cursorCache) note(s *segment, e indexEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.slots {
		if c.slots[i].segment == s && c.slots[i].entry.offset == e.offset {
			c.slots[i].entry = e
			return
		}
	}
	c.slots[c.next] = cursor{s, e}
	c.next = (c.next + 1) % cursorSlots
}

// forget drops the cursors into a segment that leaves the log.
func (c *cursorCache) forget(s *segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.slots {
		if c.slots[i].segment == s {
			c.slots[i] = cursor{}
		}
	}
}
