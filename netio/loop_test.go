package netio

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

type countTask struct {
	n    atomic.Int64
	last func()
	at   int64
}

func (c *countTask) RunOnLoop(*Loop) {
	if c.n.Add(1) == c.at {
		c.last()
	}
}

func TestPostRunsEveryTaskInOrder(t *testing.T) {
	s := start(t, Options{Loops: 2})
	const posters, each = 4, 5000
	for _, l := range s.Loops() {
		var ran atomic.Int64
		var got [posters][]int
		var wait sync.WaitGroup
		for p := range posters {
			wait.Go(func() {
				for i := range each {
					l.Post(taskFunc(func(on *Loop) {
						if on != l {
							t.Error("wrong loop")
						}
						got[p] = append(got[p], i)
						ran.Add(1)
					}))
				}
			})
		}
		wait.Wait()
		eventually(t, "all ran", func() bool { return ran.Load() == posters*each })
		for p := range got {
			for i, n := range got[p] {
				if n != i {
					t.Fatalf("task %d of poster %d ran as number %d", n, p, i)
				}
			}
		}
	}
}

func TestPostDoesNotAllocate(t *testing.T) {
	s := start(t, Options{Loops: 1})
	const batch = 100
	done := make(chan struct{}, 1)
	task := &countTask{last: func() { done <- struct{}{} }}
	l := s.Loops()[0]
	round := func() {
		task.at = task.n.Load() + batch
		for range batch {
			l.Post(task)
		}
		<-done
	}
	for range 20 {
		round()
	}
	if n := testing.AllocsPerRun(200, round); n > 0 {
		t.Fatalf("%v allocations for %d posts", n, batch)
	}
}

func TestPostAfterStopIsDropped(t *testing.T) {
	s := start(t, Options{})
	l := s.Loops()[0]
	must(t, s.Stop(t.Context()))
	l.Post(taskFunc(func(*Loop) { t.Error("ran") }))
}

func TestTimerFiresInTimeAndCanBeMoved(t *testing.T) {
	fired := make(chan time.Time, 10)
	s := start(t, Options{Loops: 1, Handler: &handler{onTimer: func(*Loop) { fired <- time.Now() }}})
	l := s.Loops()[0]
	on := func(f func()) {
		done := make(chan struct{})
		l.Post(taskFunc(func(*Loop) { f(); close(done) }))
		<-done
	}
	begin := time.Now()
	on(func() { l.SetTimer(begin.Add(30 * time.Millisecond)) })
	if at := <-fired; at.Sub(begin) < 30*time.Millisecond {
		t.Fatalf("fired after %v", at.Sub(begin))
	}
	begin = time.Now()
	on(func() {
		l.SetTimer(begin.Add(time.Hour))
		l.SetTimer(begin.Add(20 * time.Millisecond)) // nearer
		l.SetTimer(begin.Add(60 * time.Millisecond)) // farther
	})
	if at := <-fired; at.Sub(begin) < 60*time.Millisecond {
		t.Fatalf("fired after %v", at.Sub(begin))
	}
	on(func() { l.SetTimer(time.Now().Add(-time.Second)) }) // past: at once
	<-fired
	on(func() { l.SetTimer(time.Now().Add(10 * time.Millisecond)); l.SetTimer(time.Time{}) })
	select {
	case <-fired:
		t.Fatal("a cleared timer fired")
	case <-time.After(40 * time.Millisecond):
	}
}
