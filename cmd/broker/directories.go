package broker

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/cmd/admin"
	"millrace/diskio"
	"millrace/engine"
	"millrace/engine/model"
	"millrace/meta/config"
)

// Two designs were weighed for several data directories. *One store over many directories* shares writers, syncs and
// the index store, and would need to know of each what it survives. *One store per directory behind a router*, taken
// here, shares nothing: the rule that decides is that whatever a disk does, hang, fill, fail or come back older than
// it was, may reach the shards on it and no others. The price is a few goroutines and an index store for each.

// directories are the data directories of the broker: a store for each, in the order of the settings. The first also
// holds the cluster state.
type directories struct {
	list []*directory
	mu   sync.Mutex // guards what is believed of their room, and which are cordoned

	moves moves
}

// directory is one data directory.
type directory struct {
	path  string
	fs    diskio.FS // nil where it cannot be opened
	lock  io.Closer
	store *engine.Store
	known bool  // it may hold partitions from before the start
	cause error // why it cannot be opened

	looked time.Time // when room was found
	room   int64

	cordoned bool // it gets no new partitions
}

// roomInterval is how long the room of a directory is believed.
const roomInterval = time.Second

// Shard returns a shard that was ensured, nil where there is none. It does not block or allocate.
func (d *directories) Shard(id model.ShardID) *engine.Shard {
	for _, at := range d.list {
		if sh := at.store.Shard(id); sh != nil {
			return sh
		}
	}
	return nil
}

// Stores returns the store of each directory, in the order of the settings.
func (d *directories) Stores() []*engine.Store {
	stores := make([]*engine.Store, len(d.list))
	for i, at := range d.list {
		stores[i] = at.store
	}
	return stores
}

// ensure returns the shard from where it is, or makes it. One that was there before the start and is not found lies
// in the directory that cannot be opened, where there is one.
func (d *directories) ensure(id model.ShardID, spec engine.ShardSpec, before bool) (*engine.Shard, error) {
	var at *directory
	for _, a := range d.list {
		if a.store.Holds(id) || at == nil && before && a.known && a.store.Offline() {
			at = a
		}
	}
	if at == nil {
		at = d.pick(spec.Config.SegmentBytes)
		spec.Record = len(d.list) > 1
	}
	return at.store.EnsureShard(id, spec)
}

// cordon notes which directories get no new partitions.
func (d *directories) cordon(cordoned func(dir string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.list {
		at.cordoned = cordoned(at.path)
	}
}

// Cordoned tells whether a store gets no new partitions, and whether none of all does.
func (d *directories) Cordoned(store *engine.Store) (it, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all = true
	for _, at := range d.list {
		all = all && at.cordoned
		it = it || at.store == store && at.cordoned
	}
	return it, all
}

// pick chooses where a new shard goes: to the directory with the most room of those that are not cordoned. Since a shard takes none before its first
// append, a segment is put aside for it at once, or all shards of a topic would go to one disk.
func (d *directories) pick(segmentBytes int64) *directory {
	if len(d.list) == 1 {
		return d.list[0]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	best := d.list[0]
	for _, at := range d.list {
		at.look(segmentBytes)
		if best.cordoned && !at.cordoned || at.room > best.room && at.cordoned == best.cordoned {
			best = at
		}
	}
	best.room -= segmentBytes
	return best
}

// look finds the room once in a while: what is free less a segment for each shard without one.
func (at *directory) look(segmentBytes int64) {
	if now := time.Now(); at.looked.IsZero() || now.Sub(at.looked) > roomInterval {
		at.looked = now
		free, err := at.store.Free()
		if err != nil {
			at.room = math.MinInt64 / 2
			return
		}
		at.room = free - int64(at.store.Unwritten())*segmentBytes
	}
}

// drop deletes a shard wherever it is.
func (d *directories) drop(ids []model.ShardID) error {
	var errs []error
	for range len(d.list) { // it may come to the one before while the one after is asked
		for _, at := range d.list {
			errs = append(errs, at.store.DropShards(ids...))
		}
	}
	return errors.Join(errs...)
}

// syncRecords makes durable which directory new shards are in. Of a lost one the next start knows nothing, and takes
// it to be in the directory that cannot be opened, where there is one then.
func (d *directories) syncRecords(log *slog.Logger) {
	if len(d.list) == 1 {
		return
	}
	for _, at := range d.list {
		if err := at.store.SyncRecords(); err != nil {
			log.Warn("where new shards are is not durable", "dir", at.path, "err", err)
		}
	}
}

// clean tells whether the last stop was clean in every directory.
func (d *directories) clean() bool {
	return !slices.ContainsFunc(d.list, func(at *directory) bool { return !at.store.Clean() })
}

// failed returns what is wrong with which directory. With all, nothing can be served.
func (d *directories) failed() (errs []error, all bool) {
	for _, at := range d.list {
		if err := at.store.Failed(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs, len(errs) == len(d.list)
}

// setSinks sets where finished appends of all directories go.
func (d *directories) setSinks(sinks []engine.Sink) {
	for _, at := range d.list {
		at.store.SetSinks(sinks)
	}
}

// setUpkeep changes the settings of what goes on in the background of all directories.
func (d *directories) setUpkeep(u config.Upkeep) {
	for _, at := range d.list {
		at.store.SetUpkeep(d.upkeep(u))
	}
}

// upkeep is the part of each directory in what bounds the whole broker.
func (d *directories) upkeep(u config.Upkeep) engine.Upkeep {
	n := int64(len(d.list))
	part := engine.Upkeep{CleanInterval: u.CleanInterval, CleanMemoryBytes: max(u.CleanMemoryBytes/n, 1<<20),
		CleanBytesPerSecond: u.CleanBytesPerSecond, ProducerExpiration: u.ProducerIDExpiration}
	if part.CleanBytesPerSecond != 0 {
		part.CleanBytesPerSecond = max(part.CleanBytesPerSecond/n, 1)
	}
	return part
}

// collectors export the metrics of each directory. Where there are several each series names its directory.
func (d *directories) collectors() (list []prometheus.Collector) {
	for _, at := range d.list {
		name := ""
		if len(d.list) > 1 {
			name = at.path
		}
		list = append(list, admin.Engine(at.store.Metrics(), at.store.Failed, name))
	}
	return list
}

// closeStores closes the stores at once: each syncs.
func (d *directories) closeStores() error {
	errs := make([]error, len(d.list))
	var closing sync.WaitGroup
	for i, at := range d.list {
		if at.store != nil {
			closing.Go(func() { errs[i] = at.store.Close() })
		}
	}
	closing.Wait()
	return errors.Join(errs...)
}

// release gives up what the stores were opened on.
func (d *directories) release() error {
	var errs []error
	for _, at := range d.list {
		if at.fs != nil {
			errs = append(errs, at.fs.Close())
		}
		if at.lock != nil {
			errs = append(errs, at.lock.Close())
		}
	}
	return errors.Join(errs...)
}
