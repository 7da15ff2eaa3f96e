package disktest

import "slices"

// extent is the bytes [pos, end) of a file.
type extent struct{ pos, end int64 }

// extents is a sorted set of extents that neither touch nor overlap.
type extents []extent

// add joins [pos, end) to the set.
func (s *extents) add(pos, end int64) {
	if pos >= end {
		return
	}
	first, _ := slices.BinarySearchFunc(*s, pos, func(e extent, pos int64) int {
		if e.end < pos {
			return -1
		}
		return 1
	})
	last := first
	for last < len(*s) && (*s)[last].pos <= end {
		pos, end = min(pos, (*s)[last].pos), max(end, (*s)[last].end)
		last++
	}
	*s = slices.Replace(*s, first, last, extent{pos, end})
}

// remove takes [pos, end) out of the set.
func (s *extents) remove(pos, end int64) {
	var kept extents
	for _, e := range *s {
		if e.pos < min(e.end, pos) {
			kept = append(kept, extent{e.pos, min(e.end, pos)})
		}
		if max(e.pos, end) < e.end {
			kept = append(kept, extent{max(e.pos, end), e.end})
		}
	}
	*s = kept
}

// cut takes all from size on out of the set.
func (s *extents) cut(size int64) { s.remove(size, fileBytesMax+1) }

// overlaps tells whether a byte of [pos, end) is in the set.
func (s extents) overlaps(pos, end int64) bool {
	for _, e := range s {
		if e.pos < end && pos < e.end {
			return true
		}
	}
	return false
}
