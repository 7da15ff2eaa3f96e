package disktest

import (
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"millrace/diskio"
)

// mapping is a view of a simulated file. It has an array of its own, into which every write to the file is
// copied, so that slices of it are live whatever becomes of the file's bytes, and so that the race detector
// sees who reads what an appender writes.
type mapping struct {
	disk *Disk
	node *node
	name string
	mem  []byte
	// system says that mem comes from the system: pages that nobody touches cost nothing then, which large
	// mappings of small files need. The race detector does not look there.
	system bool
	poison []byte // memory that faults, for KindTouch
	gone   bool
}

// goMappingBytesMax is the largest mapping that is a Go slice.
const goMappingBytesMax = 8 << 20

// Map implements diskio.File.
func (f *file) Map(size int64) (diskio.Mapping, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	err := f.usableLocked(false)
	if err == nil {
		err = d.admitErrorLocked(KindMap, f.name)
	}
	if err == nil && (size < 0 || size > fileBytesMax) {
		err = unix.EINVAL
	}
	m := &mapping{disk: d, node: f.node, name: f.name, system: size > goMappingBytesMax}
	if err == nil && m.system {
		m.mem, err = unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	} else if err == nil {
		m.mem = make([]byte, size)
	}
	if err != nil {
		return nil, fail("map", f.name, err)
	}
	copy(m.mem, f.node.data)
	f.node.opens++
	f.node.views[m] = struct{}{}
	return m, nil
}

// put copies what was written to the file; clear does the same for what was cut off.
func (m *mapping) put(b []byte, pos int64) {
	if pos < int64(len(m.mem)) {
		copy(m.mem[pos:], b)
	}
}

func (m *mapping) clear(from int64) {
	if from < int64(len(m.mem)) {
		clear(m.mem[from:])
	}
}

// Slice implements diskio.Mapping. Where a bit is flipped in the range, the slice is a copy and not live.
func (m *mapping) Slice(pos, end int64) []byte {
	b := m.mem[pos:end:end]
	d := m.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.cut && d.admitLocked(KindTouch, m.name) != nil && pos < end {
		return m.poisonLocked(end - pos)
	}
	if m.node.flipped.Load() && m.node.flipsIn(pos, end) {
		b = slices.Clone(b)
		m.node.flipInto(b, pos)
	}
	return b
}

// poisonLocked returns memory that may not be read: a reader under diskio.Guard gets ErrFault, as for a page
// that the disk could not give.
func (m *mapping) poisonLocked(size int64) []byte {
	if int64(len(m.poison)) < size {
		// A smaller one stays until the process ends: slices of it may be in use.
		b, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err != nil {
			panic(fmt.Sprintf("disktest: memory that faults: %v", err))
		}
		m.poison = b
	}
	return m.poison[:size:size]
}

// Resident implements diskio.Mapping.
func (m *mapping) Resident(pos, end int64) bool {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if pos >= end {
		return true
	}
	size := (int64(len(m.node.data)) + pageBytes - 1) / pageBytes * pageBytes
	if end > size {
		return false
	}
	for page := pos / pageBytes; page*pageBytes < end && len(m.node.cold) > 0; page++ {
		if _, cold := m.node.cold[page]; cold {
			return false
		}
	}
	return true
}

// Load implements diskio.Mapping.
func (m *mapping) Load(pos, end int64) error {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if pos < 0 || end > int64(len(m.mem)) || pos > end {
		return fail("load", m.name, fmt.Errorf("range %d to %d of a mapping of %d: %w", pos, end, len(m.mem), fs.ErrInvalid))
	}
	if pos == end {
		return nil
	}
	if err := m.disk.admitErrorLocked(KindRead, m.name); err != nil {
		return fail("load", m.name, fmt.Errorf("%w (%w)", diskio.ErrFault, err))
	}
	for page := pos / pageBytes; page*pageBytes < end && len(m.node.cold) > 0; page++ {
		delete(m.node.cold, page)
	}
	if end > int64(len(m.node.data)) {
		return fail("load", m.name, io.EOF)
	}
	return nil
}

// Len implements diskio.Mapping.
func (m *mapping) Len() int64 { return int64(len(m.mem)) }

// Unmap implements diskio.Mapping.
func (m *mapping) Unmap() error {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if m.gone {
		return nil
	}
	m.gone = true
	delete(m.node.views, m)
	m.disk.closeLocked(m.node)
	mem, poison := m.mem, m.poison
	m.mem, m.poison = nil, nil
	if poison != nil {
		if err := unix.Munmap(poison); err != nil {
			return fail("unmap", m.name, err)
		}
	}
	if m.system {
		if err := unix.Munmap(mem); err != nil {
			return fail("unmap", m.name, err)
		}
	}
	return nil
}
