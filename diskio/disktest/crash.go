package disktest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// CrashMode says what a power cut leaves of what was not durable.
type CrashMode int

const (
	// CrashDrop leaves only what is durable.
	CrashDrop CrashMode = iota
	// CrashKeep leaves everything, as after the end of the process.
	CrashKeep
	// CrashTear keeps or drops each sector that was written and not synced by chance, ends each file
	// somewhere between its durable and its last size, and keeps the first so many changes of each
	// directory. Sectors that were dropped beyond the durable size read as zero.
	CrashTear
	// CrashStale is CrashTear, but dropped sectors beyond the durable size hold old bytes: those of the file
	// itself at another place, or noise.
	CrashStale
	// CrashMix draws one of the modes above for each file and each directory.
	CrashMix
)

// CrashModes lists all modes, for tests that try each.
func CrashModes() []CrashMode {
	return []CrashMode{CrashDrop, CrashKeep, CrashTear, CrashStale, CrashMix}
}

// String returns the mode's name.
func (m CrashMode) String() string {
	switch m {
	case CrashDrop:
		return "drop"
	case CrashKeep:
		return "keep"
	case CrashTear:
		return "tear"
	case CrashStale:
		return "stale"
	case CrashMix:
		return "mix"
	default:
		return fmt.Sprintf("mode %d", int(m))
	}
}

// Crash returns the disk as a machine may find it after a power cut at this moment. Everything on it is
// durable; it has no faults, locks or counts, and the same capacity. The disk itself stays as it is, so that
// several outcomes of one moment can be tried; a test that is to end what still runs calls Cut before.
func (d *Disk) Crash(mode CrashMode) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := New(d.random.Uint64())
	after.capacity = d.capacity
	c := crash{mode: mode, random: d.random, after: after, made: make(map[*node]*node)}
	after.root = c.copy(d.root)
	return after
}

// crash builds the disk after a power cut.
type crash struct {
	mode   CrashMode
	random *rand.Rand
	after  *Disk
	made   map[*node]*node // copies by what they were made of: a file may have several names
}

func (c *crash) draw() CrashMode {
	if c.mode == CrashMix {
		return CrashMode(c.random.IntN(int(CrashMix)))
	}
	return c.mode
}

func (c *crash) copy(n *node) *node {
	if made := c.made[n]; made != nil {
		return made
	}
	if !n.isDir() {
		made := c.copyFile(n)
		c.made[n] = made
		return made
	}
	made := newDirectory()
	c.made[n] = made
	entries := c.entries(n)
	// In order, so that the seed decides the outcome.
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		child := c.copy(entries[name])
		child.links++
		child.charge(c.after)
		made.entries[name] = child
	}
	made.syncEntries()
	return made
}

func (c *crash) entries(n *node) map[string]*node {
	switch c.draw() {
	case CrashDrop:
		return n.durable
	case CrashKeep:
		return n.entries
	default:
		entries := maps.Clone(n.durable)
		for i := range c.random.IntN(len(n.pending) + 1) {
			n.pending[i].apply(entries)
		}
		return entries
	}
}

func (c *crash) copyFile(n *node) *node {
	made := newFile()
	made.flips = slices.Clone(n.flips)
	made.flipped.Store(len(made.flips) > 0)
	switch mode := c.draw(); mode {
	case CrashDrop:
		made.data = slices.Clone(n.synced)
	case CrashKeep:
		made.data = slices.Clone(n.data)
	default:
		made.data = c.tear(n, mode == CrashStale)
	}
	made.synced = slices.Clone(made.data)
	made.reserved = int64(len(made.data))
	return made
}

// tear builds a file out of sectors of the durable and of the last bytes.
func (c *crash) tear(n *node, stale bool) []byte {
	low, high := min(len(n.synced), len(n.data)), max(len(n.synced), len(n.data))
	size := low + c.random.IntN(high-low+1)
	out := make([]byte, size)
	copy(out, n.synced)
	for pos := 0; pos < size; pos += SectorBytes {
		end := min(pos+SectorBytes, size)
		if !n.dirty.overlaps(int64(pos), int64(end)) && !n.lost.overlaps(int64(pos), int64(end)) {
			continue // size may lie beyond data that was cut: synced stands
		}
		sector := out[pos:end]
		if c.random.IntN(2) == 0 {
			copy(sector, n.data[min(pos, len(n.data)):])
			continue
		}
		// The rest of the sector with the durable end is zero: it was written with it.
		if stale && pos >= len(n.synced) {
			c.stale(sector, n)
		}
	}
	return out
}

// stale fills b with bytes that a block may hold from earlier use.
func (c *crash) stale(b []byte, n *node) {
	if len(n.data) > len(b) && c.random.IntN(2) == 0 {
		from := c.random.IntN(len(n.data)-len(b)) / SectorBytes * SectorBytes
		copy(b, n.data[from:])
		return
	}
	for i := range b {
		b[i] = byte(c.random.Uint32())
	}
}
