package compare

import (
	"time"

	"millrace/bench"
)

// What a start is guessed to take before one of its kind was seen.
const (
	guessedStart       = 6 * time.Second // and its end
	guessedPart        = 3 * time.Second // around what is measured
	guessedBytesPerSec = 250_000_000
	guessedTouch       = 90 * time.Second // of 10,000 partitions
)

// left estimates how long the comparison still takes: what is known of earlier starts of a side and placement
// is taken for the later ones.
func (c *comparison) left() time.Duration {
	var left time.Duration
	for _, s := range c.Plan.steps() {
		if c.report.has(s) {
			continue
		}
		takes := c.takes(s)
		if s == c.current {
			takes = max(takes-time.Since(c.began), time.Second)
		}
		left += takes
	}
	return left
}

func (c *comparison) takes(s step) time.Duration {
	var sum float64
	n := 0
	for _, t := range c.report.Starts {
		if t.Side == s.side && t.Placement == s.placement {
			sum += t.Seconds
			n++
		}
	}
	if n > 0 {
		return time.Duration(sum / float64(n) * 1e9)
	}
	takes := guessedStart
	if s.side == 1 {
		takes += c.Plan.Warm
	}
	for _, id := range c.Plan.Workloads {
		for _, p := range bench.Find(id).Parts(c.Plan.Scale) {
			takes += guess(p)
		}
	}
	return takes
}

func guess(s bench.Settings) time.Duration {
	byBytes := time.Duration(float64(s.Bytes) / guessedBytesPerSec * 1e9)
	takes := s.Duration
	switch {
	case s.Bytes > 0 && (takes == 0 || s.Rate == 0 && s.Batch > 1 && byBytes < takes):
		takes = byBytes
	case s.Bytes > 0:
		takes /= 2 // small requests: the bytes come first on a fast broker, the time on a slow one
	}
	if s.Partitions >= 1000 {
		takes += guessedTouch
	}
	return takes + s.Warmup + guessedPart
}
