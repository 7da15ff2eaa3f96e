package netio

import "time"

// Loop is one event loop.
type Loop struct{}

// Index is 0..Loops-1.
func (l *Loop) Index() int { return 0 }

// Post queues t to run on the loop. Any goroutine may call it; it never blocks.
func (l *Loop) Post(t Task) {}

// SetTimer sets the one timer of this loop; zero clears it. Only on the loop.
func (l *Loop) SetTimer(at time.Time) {}
