package disktest

import (
	"maps"
	"sync/atomic"
	"syscall"
)

// node is a file or a directory.
type node struct {
	// entries are the names of a directory; nil for a file. durable is what SyncDir made of them, pending
	// what happened since, in order.
	entries map[string]*node
	durable map[string]*node
	pending []entryChange

	data   []byte // what a file holds now
	synced []byte // what it held at its last sync
	dirty  extents
	lost   extents // what a failed sync was to write

	links    int   // names
	opens    int   // open handles and mappings
	reserved int64 // end of what is preallocated
	charged  int64 // bytes counted in Disk.used

	views   map[*mapping]struct{}
	cold    map[int64]struct{} // pages that are not in the page cache
	flips   []flip
	flipped atomic.Bool // there are flips
}

// entryChange is one change of a directory: names that went and names that came, which a journal keeps
// together.
type entryChange struct {
	remove string
	add    string
	node   *node
}

func (c *entryChange) apply(entries map[string]*node) {
	if c.remove != "" {
		delete(entries, c.remove)
	}
	if c.add != "" {
		entries[c.add] = c.node
	}
}

// flip is a bit that readers see turned over.
type flip struct {
	pos  int64
	mask byte
	once bool
}

func newDirectory() *node {
	return &node{entries: make(map[string]*node), durable: make(map[string]*node)}
}

func newFile() *node { return &node{views: make(map[*mapping]struct{})} }

func (n *node) isDir() bool { return n.entries != nil }

// change applies c to the directory. It is durable after syncEntries.
func (n *node) change(c entryChange) {
	c.apply(n.entries)
	n.pending = append(n.pending, c)
}

func (n *node) syncEntries() {
	n.durable = maps.Clone(n.entries)
	n.pending = nil
}

// put writes b at pos as far as the disk has room, and returns how much went in.
func (n *node) put(d *Disk, b []byte, pos int64) (int64, error) {
	if pos < 0 || pos+int64(len(b)) > fileBytesMax {
		return 0, syscall.EFBIG
	}
	if len(b) == 0 {
		return 0, nil
	}
	end := pos + int64(len(b))
	var err error
	// What lies within the blocks that the file has needs no more room.
	if room := n.charged + d.capacity - d.used; end > n.charged && end > room {
		end, err = max(pos, room), syscall.ENOSPC
	}
	b = b[:end-pos]
	if len(b) == 0 {
		return 0, err
	}
	n.grow(end)
	copy(n.data[pos:], b)
	for view := range n.views {
		view.put(b, pos)
	}
	n.dirty.add(pos, end)
	n.charge(d)
	for page := pos / pageBytes; page*pageBytes < end && len(n.cold) > 0; page++ {
		delete(n.cold, page)
	}
	n.heal(pos, end)
	return int64(len(b)), err
}

// grow makes the file reach size. Bytes between count as written: they are zero on every file system.
func (n *node) grow(size int64) {
	old := int64(len(n.data))
	if size <= old {
		return
	}
	if size > int64(cap(n.data)) {
		fresh := make([]byte, old, max(size, 2*int64(cap(n.data))))
		copy(fresh, n.data)
		n.data = fresh
	}
	n.data = n.data[:size]
	n.dirty.add(old, size)
}

// truncate cuts the file to size, which must not be beyond its end.
func (n *node) truncate(d *Disk, size int64) {
	clear(n.data[size:])
	for view := range n.views {
		view.clear(size)
	}
	n.dirty.cut(size)
	n.lost.cut(size)
	n.data = n.data[:size]
	n.reserved = size
	n.charge(d)
}

// sync makes the bytes durable; where the disk fails they never will be.
func (n *node) sync(failed bool) {
	if failed {
		for _, e := range n.dirty {
			n.lost.add(e.pos, e.end)
		}
		n.dirty = n.dirty[:0]
		return
	}
	if len(n.synced) > len(n.data) {
		n.synced = n.synced[:len(n.data)]
	}
	if grown := len(n.data) - len(n.synced); grown > 0 {
		n.synced = append(n.synced, make([]byte, grown)...)
	}
	for _, e := range n.dirty {
		copy(n.synced[e.pos:e.end], n.data[e.pos:e.end])
		n.lost.remove(e.pos, e.end)
	}
	n.dirty = n.dirty[:0]
}

// charge counts what the file takes of the disk.
func (n *node) charge(d *Disk) {
	takes := int64(0)
	if n.links > 0 || n.opens > 0 {
		takes = max(int64(len(n.data)), n.reserved)
	}
	d.used += takes - n.charged
	n.charged = takes
}

// heal takes away the flips of bytes that were written again.
func (n *node) heal(pos, end int64) {
	if len(n.flips) == 0 {
		return
	}
	kept := n.flips[:0]
	for _, f := range n.flips {
		if f.pos < pos || f.pos >= end {
			kept = append(kept, f)
		}
	}
	n.flips = kept
	n.flipped.Store(len(kept) > 0)
}

// flipsIn tells whether a read of [pos, end) meets a flip.
func (n *node) flipsIn(pos, end int64) bool {
	for _, f := range n.flips {
		if f.pos >= pos && f.pos < end {
			return true
		}
	}
	return false
}

// flipInto turns over bits of b, which was read at pos.
func (n *node) flipInto(b []byte, pos int64) {
	kept := n.flips[:0]
	for _, f := range n.flips {
		hit := f.pos >= pos && f.pos < pos+int64(len(b))
		if hit {
			b[f.pos-pos] ^= f.mask
		}
		if !hit || !f.once {
			kept = append(kept, f)
		}
	}
	n.flips = kept
	n.flipped.Store(len(kept) > 0)
}
