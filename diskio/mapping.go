package diskio

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is a view of a file in the process's address space.
//
// It is advised as random: the kernel then reads nothing ahead on a fault, and with the explicit reads of
// Load being the only ones, a page in the cache is a page that has been read. Fault-around, which maps up to
// 16 cached pages on a first touch, works the same under every advice.
type mapping struct {
	b    []byte
	f    *file
	host *pageHost // that of f
}

// pageHost holds what the kernel offers for asking about pages. The files of a backend share one.
type pageHost struct {
	pageBytes int64
	cachestat bool
	populate  bool
}

// probePages asks the kernel, at the cost of two calls.
func probePages() *pageHost {
	host := &pageHost{pageBytes: int64(os.Getpagesize())}
	// A bad descriptor is told apart from a missing call (Linux before 6.5) or a forbidden one.
	var span unix.CachestatRange
	var stat unix.Cachestat_t
	host.cachestat = unix.Cachestat(^uint(0)>>1, &span, &stat, 0) == unix.EBADF
	// Linux before 5.14 does not know the advice, and says so for an empty range too.
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, 0, 0, unix.MADV_POPULATE_READ)
	host.populate = errno == 0
	return host
}

// Map implements File.
func (f *file) Map(size int64) (Mapping, error) {
	if size < 0 || size > 1<<46 {
		return nil, f.fail("map", unix.EINVAL)
	}
	m := &mapping{f: f, host: f.host}
	if size == 0 {
		return m, nil
	}
	b, err := unix.Mmap(f.fd.get(), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, f.fail("map", err)
	}
	// Failure costs speed only.
	_ = unix.Madvise(b, unix.MADV_RANDOM)
	m.b = b
	return m, nil
}

// Slice implements Mapping.
func (m *mapping) Slice(pos, end int64) []byte { return m.b[pos:end:end] }

// Len implements Mapping.
func (m *mapping) Len() int64 { return int64(len(m.b)) }

// Unmap implements Mapping.
func (m *mapping) Unmap() error {
	if m.b == nil {
		return nil
	}
	b := m.b
	m.b = nil
	if err := unix.Munmap(b); err != nil {
		return m.f.fail("unmap", err)
	}
	return nil
}

// Resident implements Mapping. cachestat is the cheaper question (0.7 us against 2.5 to 33 us for 1 MiB), but
// it counts pages that are still being read. Those come from Load alone (see mapping), so while one runs on
// the file, mincore is asked, which knows them apart. The file may be closed by another goroutine between
// the look at the descriptor and the call: the answer may then be about another file and costs one stall.
func (m *mapping) Resident(pos, end int64) bool {
	pos, end = m.pages(pos, end)
	if pos >= end {
		return true
	}
	fd := m.f.fd.get()
	if m.host.cachestat && fd != closedDescriptor && m.f.loads.Load() == 0 {
		span := unix.CachestatRange{Off: uint64(pos), Len: uint64(end - pos)}
		var stat unix.Cachestat_t
		if unix.Cachestat(uint(fd), &span, &stat, 0) == nil {
			return int64(stat.Cache) >= (end-pos)/m.host.pageBytes
		}
	}
	return m.mincore(pos, end)
}

// mincore asks page by page; pos and end lie on page borders.
func (m *mapping) mincore(pos, end int64) bool {
	var seen [1024]byte
	step := int64(len(seen)) * m.host.pageBytes
	for ; pos < end; pos += step {
		span := min(step, end-pos)
		for {
			_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(m.b)))+uintptr(pos),
				uintptr(span), uintptr(unsafe.Pointer(&seen[0])))
			if errno == unix.EAGAIN || errno == unix.EINTR {
				continue
			}
			if errno != 0 {
				return false
			}
			break
		}
		for _, page := range seen[:span/m.host.pageBytes] {
			if page&1 == 0 {
				return false
			}
		}
	}
	return true
}

// Load implements Mapping. WILLNEED starts the reads of the whole range at once; POPULATE_READ then waits for
// each page and puts it into the page table, which saves the reader the first-touch faults. Both answer with
// an error where a touch would have raised SIGBUS.
func (m *mapping) Load(pos, end int64) error {
	if pos < 0 || end > int64(len(m.b)) || pos > end {
		return m.f.fail("load", fmt.Errorf("range %d to %d of a mapping of %d: %w", pos, end, len(m.b), fs.ErrInvalid))
	}
	short := false
	if size, err := m.f.fd.size(); err == nil && end > size {
		end, short = size, true
	}
	if pos < end {
		if err := m.loadPages(m.pages(pos, end)); err != nil {
			return m.f.fail("load", err)
		}
	}
	if short {
		return m.f.fail("load", io.EOF)
	}
	return nil
}

func (m *mapping) loadPages(pos, end int64) error {
	m.f.loads.Add(1)
	defer m.f.loads.Add(-1)
	span := m.b[pos:min(end, int64(len(m.b)))]
	// Failure to start early costs speed only.
	_ = unix.Madvise(span, unix.MADV_WILLNEED)
	if !m.host.populate {
		return m.readThrough(pos, end)
	}
	for {
		switch err := unix.Madvise(span, unix.MADV_POPULATE_READ); err {
		case nil:
			return nil
		case unix.EINTR, unix.EAGAIN:
		case unix.EFAULT, unix.EHWPOISON:
			return fmt.Errorf("%w (%w)", ErrFault, err)
		default:
			return m.readThrough(pos, end)
		}
	}
}

// readThrough waits for the pages by reading them into a scratch buffer.
func (m *mapping) readThrough(pos, end int64) error {
	scratch := make([]byte, min(end-pos, 256<<10))
	for pos < end {
		n, err := unix.Pread(m.f.fd.get(), scratch[:min(end-pos, int64(len(scratch)))], pos)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("%w (%w)", ErrFault, err)
		case n == 0:
			return nil // the end of the file
		default:
			pos += int64(n)
		}
	}
	return nil
}

// pages widens a range to whole pages of the mapping.
func (m *mapping) pages(pos, end int64) (int64, int64) {
	mask := m.host.pageBytes - 1
	return pos &^ mask, (end + mask) &^ mask
}
