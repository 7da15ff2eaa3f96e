// Package purgatory keeps the waits of one event loop: requests that are answered when something they watch
// changes or when their time is over. It is pure: time and events come in, the waits that are due go out. A
// Set belongs to one goroutine.
package purgatory

import "container/heap"

// Wait is one waiting request. The zero value is ready; a Wait may be used again after it was removed, and
// then allocates nothing as long as it watches no more keys than before.
type Wait[K comparable] struct {
	Owner any // whoever waits; the Set does not touch it

	deadline int64 // in the caller's unit, as given to Add
	links    []link[K]
	index    int // in the heap
	waiting  bool
}

// Waiting tells whether the wait is in a Set.
func (w *Wait[K]) Waiting() bool { return w.waiting }

type link[K comparable] struct {
	key        K
	wait       *Wait[K]
	prev, next *link[K]
}

// Set holds waits by the keys they watch and by deadline.
type Set[K comparable] struct {
	heads   map[K]*link[K]
	byTime  deadlines[K]
	onEmpty func(K) // told when the last wait on a key is gone
	found   []*Wait[K]
}

// NewSet returns an empty set. onEmpty may be nil.
func NewSet[K comparable](onEmpty func(K)) *Set[K] {
	if onEmpty == nil {
		onEmpty = func(K) {}
	}
	return &Set[K]{heads: make(map[K]*link[K]), onEmpty: onEmpty}
}

// Len returns the number of waits.
func (s *Set[K]) Len() int { return len(s.byTime) }

// Add lets w wait for any of keys until deadline. w must not be waiting.
func (s *Set[K]) Add(w *Wait[K], deadline int64, keys []K) {
	if w.waiting {
		panic("purgatory: wait is added twice")
	}
	w.deadline, w.waiting = deadline, true
	if cap(w.links) < len(keys) {
		w.links = make([]link[K], len(keys))
	}
	w.links = w.links[:len(keys)]
	for i, key := range keys {
		l := &w.links[i]
		*l = link[K]{key: key, wait: w, next: s.heads[key]}
		if l.next != nil {
			l.next.prev = l
		}
		s.heads[key] = l
	}
	heap.Push(&s.byTime, w)
}

// Remove takes w out; removing what does not wait does nothing.
func (s *Set[K]) Remove(w *Wait[K]) {
	if !w.waiting {
		return
	}
	w.waiting = false
	heap.Remove(&s.byTime, w.index)
	for i := range w.links {
		s.unlink(&w.links[i])
	}
}

func (s *Set[K]) unlink(l *link[K]) {
	if l.next != nil {
		l.next.prev = l.prev
	}
	switch {
	case l.prev != nil:
		l.prev.next = l.next
	case l.next != nil:
		s.heads[l.key] = l.next
	default:
		delete(s.heads, l.key)
		s.onEmpty(l.key)
	}
	*l = link[K]{}
}

// Watching returns the waits on key. The slice is valid until the next call of a method.
func (s *Set[K]) Watching(key K) []*Wait[K] {
	s.found = s.found[:0]
	for l := s.heads[key]; l != nil; l = l.next {
		s.found = append(s.found, l.wait)
	}
	return s.found
}

// Due removes and returns one wait whose deadline is at or before now, or nil.
func (s *Set[K]) Due(now int64) *Wait[K] {
	if len(s.byTime) == 0 || s.byTime[0].deadline > now {
		return nil
	}
	w := s.byTime[0]
	s.Remove(w)
	return w
}

// Next returns the earliest deadline; ok is false when nothing waits.
func (s *Set[K]) Next() (deadline int64, ok bool) {
	if len(s.byTime) == 0 {
		return 0, false
	}
	return s.byTime[0].deadline, true
}

// deadlines is a heap of waits, the earliest first.
type deadlines[K comparable] []*Wait[K]

func (d deadlines[K]) Len() int           { return len(d) }
func (d deadlines[K]) Less(i, j int) bool { return d[i].deadline < d[j].deadline }

func (d deadlines[K]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push is for container/heap.
func (d *deadlines[K]) Push(x any) {
	w := x.(*Wait[K])
	w.index = len(*d)
	*d = append(*d, w)
}

// Pop is for container/heap.
func (d *deadlines[K]) Pop() any {
	old := *d
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	return w
}
