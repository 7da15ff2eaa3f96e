package engine

import (
	"sync"
	"time"
)

// logLimitInterval is the least time between two lines of one logLimit.
const logLimitInterval = time.Second

// logLimit thins out a log line that clients can cause at any rate. The zero value is ready.
type logLimit struct {
	mu         sync.Mutex
	last       time.Time
	suppressed int64
}

// allow tells whether to log at a time on the monotonic clock, and how many lines were left out since the
// last: the first is logged at once, later ones at most each logLimitInterval.
func (l *logLimit) allow(now time.Time) (suppressed int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && now.Sub(l.last) < logLimitInterval {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed = l.suppressed, 0
	l.last = now
	return suppressed, true
}

// warnAppend logs that appends failed: on a full disk every client causes one after the other.
func (s *Store) warnAppend(sh *Shard, err error) {
	suppressed, ok := s.appendWarnings.allow(time.Now())
	if !ok {
		return
	}
	sh.mu.Lock()
	topic := sh.topicName
	sh.mu.Unlock()
	s.log.Warn("append failed", "shard", sh.id.String(), "topic", topic, "err", err, "suppressed", suppressed)
}
