package lsm

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Gate is a compaction scheduler that has Pebble compact one thing at a time, and nothing before its Open has
// returned: an Open that fails, as on a disk that fails, closes what a compaction that a flush of the replayed log
// began is still using, and the process ends in a panic of that goroutine (Pebble 2.1.7). Its own scheduler also
// leaves a goroutine behind then. After a compaction that failed the gate can be made to rest.
type Gate struct {
	db pebble.DBForCompaction // set before all other calls

	mu       sync.Mutex
	idle     *sync.Cond // granting came to an end
	open     bool
	gone     bool
	busy     bool        // a compaction runs, or is about to
	granting bool        // the DB is being asked
	missed   bool        // somebody wanted to meanwhile
	resting  *time.Timer // nil: not
}

// restTime is for how long a gate rests.
const restTime = time.Minute

// NewGate returns a gate that is closed, for the Options of one Pebble.
func NewGate() *Gate {
	g := &Gate{}
	g.idle = sync.NewCond(&g.mu)
	return g
}

// Open lets compactions begin. It is to be called when Pebble's Open has succeeded.
func (g *Gate) Open() {
	g.mu.Lock()
	g.open = true
	g.mu.Unlock()
	g.grant()
}

// Rest lets no compaction begin for a minute. It is to be called when one failed: Pebble tries the same again at once,
// and on a damaged table without end.
func (g *Gate) Rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.resting == nil && !g.gone {
		g.resting = time.AfterFunc(restTime, g.rested)
	}
}

func (g *Gate) rested() {
	g.mu.Lock()
	g.resting = nil
	g.mu.Unlock()
	g.grant()
}

// freeLocked tells whether a compaction may begin.
func (g *Gate) freeLocked() bool { return g.open && !g.gone && !g.busy && g.resting == nil }

// Register implements pebble.CompactionScheduler.
func (g *Gate) Register(_ int, db pebble.DBForCompaction) { g.db = db }

// Unregister implements pebble.CompactionScheduler.
func (g *Gate) Unregister() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = true
	if g.resting != nil {
		g.resting.Stop()
	}
	for g.granting {
		g.idle.Wait()
	}
}

// TrySchedule implements pebble.CompactionScheduler. What is refused waits in the DB for a grant.
func (g *Gate) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.freeLocked() {
		g.missed = true
		return false, nil
	}
	g.busy = true
	return true, g
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. One is allowed, whatever happens.
func (g *Gate) UpdateGetAllowedWithoutPermission() {}

// Started implements pebble.CompactionGrantHandle.
func (g *Gate) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (g *Gate) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (g *Gate) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (g *Gate) Done() {
	g.mu.Lock()
	g.busy = false
	g.missed = true
	g.mu.Unlock()
	g.grant()
}

// grant lets the DB run what it waits for. The DB is asked without the lock, which it takes before its own.
func (g *Gate) grant() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.granting {
		return // who asks looks again
	}
	for again := true; again && g.freeLocked(); again = g.missed {
		g.granting, g.busy, g.missed = true, true, false
		g.mu.Unlock()
		accepted := false
		if waiting, _ := g.db.GetWaitingCompaction(); waiting {
			accepted = g.db.Schedule(g)
		}
		g.mu.Lock()
		g.granting = false
		if !accepted {
			g.busy = false
		}
	}
	g.idle.Broadcast()
}
