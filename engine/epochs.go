package engine

import "sort"

// epochEntry says that a leader epoch's first record has at least this offset.
type epochEntry struct {
	epoch int32
	start int64
}

// epochList is the history of a shard's leader epochs: both fields rise strictly. It is pure and is guarded
// by its owner.
type epochList []epochEntry

// assign notes that epoch begins at start. Entries that contradict it go: those of no older epoch, and
// those that begin no earlier (an epoch that wrote nothing).
func (l epochList) assign(epoch int32, start int64) epochList {
	if n := len(l); n > 0 && l[n-1].epoch >= epoch {
		return l
	}
	for len(l) > 0 && l[len(l)-1].start >= start {
		l = l[:len(l)-1]
	}
	return append(l, epochEntry{epoch, start})
}

// latest returns the newest epoch, -1 where none is known.
func (l epochList) latest() int32 {
	if len(l) == 0 {
		return -1
	}
	return l[len(l)-1].epoch
}

// at returns the epoch of the record at offset, -1 where none is known.
func (l epochList) at(offset int64) int32 {
	i := sort.Search(len(l), func(i int) bool { return l[i].start > offset })
	if i == 0 {
		return -1
	}
	return l[i-1].epoch
}

// truncateStart drops what lies below the log start; the epoch that reaches over it begins there.
func (l epochList) truncateStart(logStart int64) epochList {
	i := sort.Search(len(l), func(i int) bool { return l[i].start > logStart })
	if i == 0 {
		return l
	}
	out := append(epochList(nil), l[i-1:]...)
	out[0].start = logStart
	return out
}

// truncateEnd drops the epochs that begin at or above the log end, but keeps the newest known epoch: it was
// announced, even if it wrote nothing that stayed. It also serves after appends that failed.
func (l epochList) truncateEnd(logEnd int64) epochList {
	newest := l.latest()
	for len(l) > 0 && l[len(l)-1].start >= logEnd {
		l = l[:len(l)-1]
	}
	if newest >= 0 && l.latest() != newest {
		l = append(l, epochEntry{newest, logEnd})
	}
	return l
}

// endOffset answers OffsetForLeaderEpoch (KIP-101, KIP-279): the largest known epoch that is not above the
// asked one, and the offset at which it ended; (-1, -1) where the epoch is negative or newer than all. Below
// the first known epoch the asked one comes back with the start of the first.
func (l epochList) endOffset(epoch int32, logEnd int64) (int32, int64) {
	if epoch < 0 || len(l) == 0 || epoch > l.latest() {
		return -1, -1
	}
	if epoch == l.latest() {
		return epoch, logEnd
	}
	above := sort.Search(len(l), func(i int) bool { return l[i].epoch > epoch })
	if above == 0 {
		return epoch, l[0].start
	}
	return l[above-1].epoch, l[above].start
}
