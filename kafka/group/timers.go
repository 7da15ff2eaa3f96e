package group

import (
	"container/heap"
	"time"
)

// timer fires once when its time is reached. The zero value is not set.
type timer struct {
	at    time.Duration
	index int // in the heap, plus one; 0: not set
	fire  func()
}

// timers are those of all groups, on the monotonic clock that comes in with each call.
type timers struct{ heap []*timer }

func (t *timers) Len() int           { return len(t.heap) }
func (t *timers) Less(i, j int) bool { return t.heap[i].at < t.heap[j].at }
func (t *timers) Swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].index, t.heap[j].index = i+1, j+1
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	e := x.(*timer)
	t.heap = append(t.heap, e)
	e.index = len(t.heap)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	e := t.heap[len(t.heap)-1]
	t.heap[len(t.heap)-1] = nil
	t.heap = t.heap[:len(t.heap)-1]
	e.index = 0
	return e
}

// set lets e fire at a time, instead of when it was set to before.
func (t *timers) set(e *timer, at time.Duration, fire func()) {
	e.at, e.fire = at, fire
	if e.index > 0 {
		heap.Fix(t, e.index-1)
		return
	}
	heap.Push(t, e)
}

func (t *timers) stop(e *timer) {
	if e.index > 0 {
		heap.Remove(t, e.index-1)
	}
	e.fire = nil
}

// next returns when the first timer fires.
func (t *timers) next() (at time.Duration, ok bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].at, true
}

// due takes the first timer off that is due.
func (t *timers) due(now time.Duration) *timer {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return nil
	}
	return heap.Pop(t).(*timer)
}
