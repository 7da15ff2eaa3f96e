package disktest

import (
	"errors"
	"math/rand/v2"
	"sync"

	"millrace/diskio"
)

// SectorBytes is the unit that a disk writes whole: a torn write is torn between sectors.
const SectorBytes = 512

const (
	pageBytes = 4096
	// fileBytesMax bounds one simulated file.
	fileBytesMax = 4 << 30
	// capacityDefault is the size of a disk without a limit of its own.
	capacityDefault = 1 << 40
)

// ErrCut is what every operation answers after the power was cut.
var ErrCut = errors.New("power is cut")

// Disk is a simulated disk: a tree of files in memory that knows what of it is durable. It is safe for use by
// several goroutines. Paths are cleaned; relative ones start at the root, which exists.
//
// The rules are the strictest that POSIX allows. Bytes are durable after Sync of the file, names after SyncDir
// of the directory that holds them (that of a new directory in its parent included). A failed sync leaves
// what it was to write not durable for ever, although later syncs succeed.
type Disk struct {
	mu       sync.Mutex
	random   *rand.Rand
	root     *node
	locked   map[*node]bool
	capacity int64
	used     int64

	counts  [kinds]int64
	faults  []*Fault
	cutLeft int64 // changing operations until the power is cut; negative for never
	cut     bool
}

var _ diskio.FS = (*Disk)(nil)

// New returns an empty disk. The seed decides what Crash leaves behind: print it where a test fails.
func New(seed uint64) *Disk {
	return &Disk{
		random:   rand.New(rand.NewPCG(seed, 0x6d696c6c72616365)),
		root:     newDirectory(),
		locked:   make(map[*node]bool),
		capacity: capacityDefault,
		cutLeft:  -1,
	}
}

// SetCapacity limits the bytes of all files together, preallocated blocks included; 0 takes the limit away.
// Writes beyond it end with ENOSPC after what still went in.
func (d *Disk) SetCapacity(size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size == 0 {
		size = capacityDefault
	}
	d.capacity = size
}

// Used returns the bytes in use.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// Evict takes the bytes of a file out of the simulated page cache: mappings of it are not resident until
// they are loaded.
func (d *Disk) Evict(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.findFile(path)
	if err != nil {
		return fail("evict", path, err)
	}
	n.cold = make(map[int64]struct{})
	for page := range (int64(len(n.data)) + pageBytes - 1) / pageBytes {
		n.cold[page] = struct{}{}
	}
	return nil
}

// FlipBit turns over one bit of the byte at pos as readers see it, by ReadAt and by mappings: at the next
// read of it, or, where once is false, at every read until the byte is written again. Slices that were taken
// before do not change.
func (d *Disk) FlipBit(path string, pos int64, bit uint, once bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.findFile(path)
	if err != nil {
		return fail("flip bit", path, err)
	}
	n.flips = append(n.flips, flip{pos: pos, mask: 1 << (bit % 8), once: once})
	n.flipped.Store(true)
	return nil
}

// ClearFlips turns every flipped bit back.
func (d *Disk) ClearFlips() {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := make(map[*node]bool)
	var clearAll func(n *node)
	clearAll = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		n.flips = nil
		n.flipped.Store(false)
		for _, child := range n.entries {
			clearAll(child)
		}
	}
	clearAll(d.root)
}
