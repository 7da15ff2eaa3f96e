package meta

import "sync/atomic"

// Metrics count what the node does. All are safe to read at any time.
type Metrics struct {
	Proposals      atomic.Int64 // taken
	ProposalsBytes atomic.Int64
	Applied        atomic.Int64 // index of the last applied entry
	Writes         atomic.Int64 // of the log; synced where Options.Sync asks for it
	Snapshots      atomic.Int64 // taken since the start
	SnapshotBytes  atomic.Int64 // of the last one
	LogEntries     atomic.Int64 // since the last snapshot
	LogBytes       atomic.Int64
	Waiting        atomic.Int64 // proposals without an answer, at most the queue and one batch
}
