package kafka

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/group"
	"millrace/meta/cluster"
	"millrace/meta/config"
	"millrace/perf"
)

// Proposer replicates a command of the cluster's state and returns the machine's result once it is applied.
// It blocks and may be called from many goroutines.
type Proposer interface {
	Propose(ctx context.Context, machine uint8, command []byte) ([]byte, error)
}

// Endpoint is an address that clients are told to connect to.
type Endpoint struct {
	Listener string
	Host     string
	Port     int32
}

// Shards are the logs that this broker has, in one store for each of its data directories.
type Shards interface {
	// Shard returns a log, nil where there is none. It does not block or allocate.
	Shard(id model.ShardID) *engine.Shard
	// Stores returns the store of each directory, in the order of the settings.
	Stores() []*engine.Store
	// Move begins to move a log to another store, in place of a move of it that is under way, or ends that where the
	// log is there. It does not block.
	Move(sh *engine.Shard, to *engine.Store)
	// Moving returns where a log is moved to and how far that came, nil where it is not.
	Moving(id model.ShardID) (*engine.Store, *engine.MoveProgress)
	// Cordoned tells whether a store gets no new logs, and whether none of all does.
	Cordoned(store *engine.Store) (it, all bool)
}

// Options wire a Server.
type Options struct {
	NodeID      int32
	Rack        string
	Advertised  []Endpoint // one per listener
	Shards      Shards
	Cluster     *cluster.Machine
	Proposer    Proposer
	ClusterCode uint8 // the machine number under which Cluster is registered with Proposer
	ProducerIDs *cluster.ProducerIDs
	Groups      *group.Store // registered with Proposer as the machine GroupCode
	GroupCode   uint8
	Config      *config.Broker // static settings of this broker
	Pool        *perf.Pool
	Logger      *slog.Logger
	Now         func() time.Time
	Loops       int // event loops of the netio server that this handles
	Workers     int // requests that may be worked on at once off the loops; default 64
}

// EnsureDefaults fills what is not set.
func (o *Options) EnsureDefaults() {
	if o.Workers == 0 {
		o.Workers = 64
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Validate reports every missing part at once.
func (o *Options) Validate() error {
	var errs []error
	missing := func(what string, is bool) {
		if is {
			errs = append(errs, errors.New("kafka: no "+what))
		}
	}
	missing("event loop", o.Loops < 1)
	missing("shards", o.Shards == nil)
	missing("cluster state", o.Cluster == nil)
	missing("proposer", o.Proposer == nil)
	missing("producer ids", o.ProducerIDs == nil)
	missing("group state", o.Groups == nil)
	missing("settings", o.Config == nil)
	missing("buffer pool", o.Pool == nil)
	missing("advertised address", len(o.Advertised) == 0)
	return errors.Join(errs...)
}
