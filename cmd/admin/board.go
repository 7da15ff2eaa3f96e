package admin

import (
	"cmp"
	"sync"
	"time"
)

// Ages of what a board has seen. Looking costs with the number of partitions and groups, so nobody looks unless asked,
// and those who ask at once share a look.
const (
	boardFresh = time.Second      // so old an answer is given once more, and older where a look takes long
	boardShare = 20               // a look takes at most one part in so many of the time
	boardOld   = 30 * time.Second // beyond it a rate would say little
)

// board keeps the last look at something that changes, so that the next one knows rates. The zero value is ready.
type board[T any] struct {
	mu   sync.Mutex
	at   time.Time
	took time.Duration
	rows []T
}

// look returns rows of about now, which must not be changed. take makes them; before are the rows before and since how
// many seconds passed, none and 0 where there is nothing to compare with.
func (b *board[T]) look(take func(before []T, since float64) []T) []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	passed := now.Sub(b.at)
	switch {
	case passed < min(max(boardFresh, boardShare*b.took), boardOld/2):
		return b.rows
	case passed > boardOld:
		b.rows = take(nil, 0)
	default:
		b.rows = take(b.rows, passed.Seconds())
	}
	b.at, b.took = now, time.Since(now)
	return b.rows
}

// rate is how much a second, nil where that is not known yet.
func rate(now, before int64, since float64) *float64 {
	r := float64(max(now-before, 0)) / since
	return &r
}

// byRate puts the higher rate first, unknown ones last.
func byRate(a, b *float64) int {
	known := func(r *float64) float64 {
		if r == nil {
			return -1
		}
		return *r
	}
	return cmp.Compare(known(b), known(a))
}
