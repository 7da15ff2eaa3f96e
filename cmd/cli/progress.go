package cli

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progress counts records and bytes, and shows a line with the rate on a terminal twice a second.
type progress struct {
	records, bytes atomic.Int64
	out            io.Writer
	verb           string
	started        time.Time
	stop           chan struct{}
	ended          sync.WaitGroup
	live           bool
}

// startProgress begins to count. live shows the line; the caller ends it with finish.
func startProgress(out io.Writer, verb string, live bool) *progress {
	p := &progress{out: out, verb: verb, started: time.Now(), stop: make(chan struct{}), live: live}
	if live {
		p.ended.Go(p.show)
	}
	return p
}

func (p *progress) add(bytes int) {
	p.records.Add(1)
	p.bytes.Add(int64(bytes))
}

func (p *progress) show() {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(p.out, "\r\033[K%s", p.line())
		case <-p.stop:
			fmt.Fprint(p.out, "\r\033[K")
			return
		}
	}
}

// finish takes the live line away and, if asked, leaves the totals.
func (p *progress) finish(summary bool) {
	close(p.stop)
	p.ended.Wait()
	if summary {
		fmt.Fprintln(p.out, p.line())
	}
}

func (p *progress) line() string {
	took := time.Since(p.started).Seconds()
	records, bytes := p.records.Load(), p.bytes.Load()
	return fmt.Sprintf("%s %s (%s) in %.1f s, %.0f records/s, %s/s", p.verb, count(records, "record"), size(bytes), took,
		float64(records)/took, size(int64(float64(bytes)/took)))
}

// size writes bytes with a unit, in steps of 1,000.
func size(bytes int64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, units := float64(bytes), "kMGTPE"
	unit := -1
	for value >= 999.5 && unit+1 < len(units) {
		value /= 1000
		unit++
	}
	return fmt.Sprintf("%.1f %cB", value, units[unit])
}
