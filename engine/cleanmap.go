package engine

import (
	"hash/maphash"
	"math/bits"
)

// keyMap remembers the last offset of each key. Of a key it keeps 128 bits of hash, under two seeds that are
// drawn anew for each map: nobody can prepare keys that collide, and of n keys two collide with a chance of
// n^2/2^129, for 2.5 million keys less than one in 10^25. Of two that did, the older record would be lost.
type keyMap struct {
	high, low maphash.Seed
	slots     []keySlot
	count     int
	bytesMax  int64
	// last has a bit for each of the settled records from settled on: it is the last of its key.
	last         []uint64
	settled, end int64
}

// keyHash is what the map knows of a key.
type keyHash struct{ high, low uint64 }

type keySlot struct {
	high, low uint64
	next      int64 // offset and one; 0 in a free slot
}

const (
	keySlotSize   = int64(3 * 8)
	keySlotsMin   = 4
	keySlotsFirst = 1 << 10
	keyLoadParts  = 8 // of ten slots in use at most
)

// newKeyMap makes a map that never takes more memory than bytesMax, the moments included in which it grows.
func newKeyMap(bytesMax int64) *keyMap {
	size := min(keySlotsFirst, max(bytesMax/keySlotSize, keySlotsMin))
	return &keyMap{high: maphash.MakeSeed(), low: maphash.MakeSeed(), slots: make([]keySlot, size), bytesMax: bytesMax}
}

// bytes returns the memory in use.
func (m *keyMap) bytes() int64 { return int64(len(m.slots))*keySlotSize + int64(len(m.last))*8 }

// hash returns the hash under which the map keeps a key.
func (m *keyMap) hash(key []byte) keyHash {
	return keyHash{maphash.Bytes(m.high, key), maphash.Bytes(m.low, key)}
}

// touch brings the slots of some keys into the cache: many misses at once, which take little longer than one. The
// result is of no use but to keep the compiler from leaving it out.
func (m *keyMap) touch(records []judgedRecord) (sum int64) {
	n := uint64(len(m.slots))
	for i := range records {
		at, _ := bits.Mul64(records[i].hash.high, n)
		slot := &m.slots[at]
		sum += int64(slot.high) + slot.next // a slot may lie in two lines
	}
	return sum
}

// put notes that offset is the last of a key. It returns false where the map has no room for a new key.
func (m *keyMap) put(key keyHash, offset int64) bool {
	high, low := key.high, key.low
	slot := m.find(high, low)
	if slot.next == 0 {
		if (m.count+1)*10 > len(m.slots)*keyLoadParts {
			if !m.grow() {
				return false
			}
			slot = m.find(high, low)
		}
		slot.high, slot.low = high, low
		m.count++
	}
	slot.next = offset + 1
	return true
}

// get returns the last offset of a key, -1 where it is not known.
func (m *keyMap) get(key keyHash) int64 { return m.find(key.high, key.low).next - 1 }

// settle is called when all records from from to end are noted: it has a bit of each of them tell whether it is the
// last of its key, where the memory allows. Bits are asked in their order, while each key is a miss of the cache.
func (m *keyMap) settle(from, end int64) {
	m.settled, m.end = end, end
	words := (end - from + 63) / 64
	if words > (m.bytesMax-m.bytes())/8 {
		return
	}
	m.settled, m.last = from, make([]uint64, words)
	for i := range m.slots {
		if next := m.slots[i].next; next != 0 {
			at := uint64(next - 1 - from)
			m.last[at/64] |= 1 << (at % 64)
		}
	}
}

// replaced tells whether a record is settled and not the last of its key.
func (m *keyMap) replaced(offset int64) bool {
	at := uint64(offset - m.settled)
	return at < uint64(m.end-m.settled) && m.last[at/64]>>(at%64)&1 == 0
}

// find returns the slot of a key, or the free one that it would take.
func (m *keyMap) find(high, low uint64) *keySlot {
	at, _ := bits.Mul64(high, uint64(len(m.slots)))
	for {
		slot := &m.slots[at]
		if slot.next == 0 || slot.high == high && slot.low == low {
			return slot
		}
		if at++; at == uint64(len(m.slots)) {
			at = 0
		}
	}
}

// grow makes room for more keys: twice as much, or what is left of the memory while the old slots are in use.
func (m *keyMap) grow() bool {
	n := int64(len(m.slots))
	size := min(2*n, m.bytesMax/keySlotSize-n)
	if size < n+n/4 {
		return false
	}
	old := m.slots
	m.slots = make([]keySlot, size)
	for i := range old {
		if s := &old[i]; s.next != 0 {
			*m.find(s.high, s.low) = *s
		}
	}
	return true
}
