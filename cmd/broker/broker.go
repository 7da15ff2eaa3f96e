package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"millrace/cmd/admin"
	"millrace/cmd/logs"
	"millrace/engine"
	"millrace/kafka"
	"millrace/kafka/group"
	"millrace/meta"
	"millrace/meta/cluster"
	"millrace/meta/config"
	"millrace/netio"
	"millrace/perf"
)

// clusterMachine is the number of the cluster state among the machines of the Raft group. It stands in the
// group's log and never changes.
const clusterMachine uint8 = 1

// groupMachine is that of the consumer groups.
const groupMachine uint8 = 2

// Names in the data directory beside those of shards.
const (
	lockName = "broker.lock"
	metaName = "meta"
)

// poolRetainBytes bounds the idle buffers that are kept for the next burst. The buffer of the largest batch that
// may be decompressed by default fits beside the small ones: without it each would be garbage of 64 MiB.
const poolRetainBytes = 96 << 20

// Broker is a running broker.
type Broker struct {
	config *config.Broker
	log    *slog.Logger
	ready  atomic.Bool
	why    atomic.Pointer[string] // what is being done while not ready

	admin   *admin.Server
	pool    *perf.Pool
	memory  *memoryKeeper
	store   directories
	machine *cluster.Machine
	groups  *group.Store
	meta    *meta.Node
	shards  *shardKeeper
	kafka   *kafka.Server
	net     *netio.Server

	// simulate, where a test sets it, puts both stores on a simulated disk.
	simulate func(*engine.Options, *meta.Options)
}

// Open starts a broker and returns when clients can connect, or why they never will. It blocks for the
// recovery of an unclean stop; ctx ends that. Everything that was started is ended again on an error.
func Open(ctx context.Context, settings *config.Broker, log *slog.Logger) (*Broker, error) {
	b := &Broker{config: settings, log: log, pool: perf.NewPool(poolRetainBytes), machine: cluster.NewMachine(),
		groups: group.NewStore()}
	if err := b.open(ctx); err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return nil, errors.Join(err, b.Close(stopping))
	}
	return b, nil
}

func (b *Broker) open(ctx context.Context) error {
	if err := checkListeners(b.config, b.log); err != nil {
		return err
	}
	b.stage("opening the data directory")
	if err := b.openAdmin(); err != nil {
		return err
	}
	b.memory = newMemoryKeeper(b.pool)
	go b.memory.run() // until Close
	if err := b.store.find(b.config, b.log); err != nil {
		return err
	}
	b.stage("recovering")
	if err := b.openStores(ctx); err != nil {
		return err
	}
	if err := b.checkOrphans(); err != nil {
		return err
	}
	endpoints, err := resolvePorts(b.config)
	if err != nil {
		return err
	}
	b.stage("registering")
	if err := b.join(ctx, endpoints); err != nil {
		return err
	}
	b.stage("opening listeners")
	if err := b.serve(endpoints); err != nil {
		return err
	}
	b.ready.Store(true)
	return nil
}

// stage is what /readyz says while the broker is not ready.
func (b *Broker) stage(what string) { b.why.Store(&what) }

// openStores opens engine and Raft group at once: each waits for syncs of its own.
func (b *Broker) openStores(ctx context.Context) error {
	metaOptions := meta.Options{
		Dir: filepath.Join(b.config.DataDir, metaName), NodeID: b.config.NodeID, Sync: b.config.MetaFsync,
		Machines: map[uint8]meta.Machine{clusterMachine: b.machine, groupMachine: b.groups}, Logger: logs.For(b.log, "meta"),
	}
	engineOptions := b.engineOptions()
	if b.simulate != nil {
		b.simulate(&engineOptions, &metaOptions)
	}
	opened := make(chan error, 1)
	go func() {
		var err error
		b.meta, err = meta.Open(ctx, metaOptions)
		opened <- err
	}()
	err := b.store.open(ctx, engineOptions)
	metaErr := <-opened
	if errors.Is(metaErr, meta.ErrIdentity) {
		metaErr = fmt.Errorf("%w; or start with another --data-dir", metaErr)
	}
	if err := errors.Join(err, metaErr); err != nil {
		return err
	}
	if err := engine.SettleMoves(b.store.Stores()); err != nil {
		return err
	}
	b.store.moves.begin(b.log)
	if b.admin != nil {
		return b.admin.Export(append(b.store.collectors(), admin.Meta(b.meta, b.machine), admin.Pool(b.pool))...)
	}
	return nil
}

// engineOptions are those of each directory. What bounds the whole broker is divided among them.
func (b *Broker) engineOptions() engine.Options {
	o := engine.Options{
		Pool: b.pool, Logger: logs.For(b.log, "engine"),
		RetentionCheckInterval: b.config.RetentionCheckInterval, Upkeep: b.store.upkeep(b.config.Upkeep),
	}
	if n := len(b.store.list); n > 1 {
		o.EnsureDefaults()
		o.OpenSegmentsMax = max(o.OpenSegmentsMax/n, 16)
		o.MappingsMax = o.OpenSegmentsMax
		o.GatherBytesMax = max(o.GatherBytesMax/int64(n), 16<<20)
	}
	return o
}

// checkOrphans refuses to make a new cluster over the shards of an old one: their topics would be unknown,
// and taken for deleted ones.
func (b *Broker) checkOrphans() error {
	if len(b.machine.Image().Brokers()) > 0 {
		return nil
	}
	for _, at := range b.store.list {
		if found := at.store.Orphans(); len(found) > 0 {
			return fmt.Errorf("data directory %s holds %d shards, but no cluster state says which topics they are: %s is missing or new; "+
				"put it back from where it was, or, to begin anew without these records, move the shard directories away or start with an empty --data-dir",
				at.path, len(found), filepath.Join(b.config.DataDir, metaName))
		}
	}
	return nil
}

// join makes this broker a part of the cluster and its shards follow the cluster's state.
func (b *Broker) join(ctx context.Context, endpoints []cluster.Endpoint) error {
	client := cluster.NewClient(b.meta, clusterMachine, b.machine)
	if !b.store.clean() && b.machine.Image().TopicCount() > 0 {
		// Readers may have seen records that the stop took: the new epoch makes them look where theirs ended.
		raised, err := client.RaiseLeaderEpochs(ctx, cluster.RaiseLeaderEpochs{NodeID: b.config.NodeID})
		if err = errors.Join(err, raised.Err()); err != nil {
			return fmt.Errorf("raise leader epochs: %w", err)
		}
		if raised.Partitions > 0 {
			b.log.Info("leader epochs raised after an unclean stop", "partitions", raised.Partitions)
		}
	}
	b.shards = newShardKeeper(b.config, &b.store, b.log, b.settle)
	b.machine.OnChange(b.shards.onChange)
	if err := b.shards.removeOrphans(); err != nil {
		return err
	}
	registration := cluster.RegisterBroker{ClusterID: b.meta.ClusterID(), NodeID: b.config.NodeID, Rack: b.config.Rack,
		Endpoints: endpoints, Time: time.Now()}
	rand.Read(registration.Incarnation[:])
	registered, err := client.RegisterBroker(ctx, registration)
	if err = errors.Join(err, registered.Err()); err != nil {
		return fmt.Errorf("register broker: %w", err)
	}
	return nil
}

// serve lets clients in.
func (b *Broker) serve(endpoints []cluster.Endpoint) error {
	network := netio.Options{
		Listeners: netListeners(b.config, endpoints), Loops: b.config.NetLoops,
		FrameBytesMax: b.config.RequestBytesMax, InflightBytesMax: b.config.QueuedRequestBytesMax,
		OutboundBytesMax: b.config.OutboundBytesMax, ConnectionsMax: b.config.ConnectionsMax,
		ConnectionsMaxPerAddress: cmp.Or(b.config.ConnectionsMaxPerAddress, -1), ConnectionsMaxOverrides: b.config.ConnectionsMaxOverrides,
		IdleTimeout: orNever(b.config.ConnectionsMaxIdle), SlowTimeout: b.config.SlowReader, Pool: b.pool, Logger: logs.For(b.log, "netio"),
	}
	network.EnsureDefaults()
	var err error
	b.kafka, err = kafka.New(kafka.Options{
		NodeID: b.config.NodeID, Rack: b.config.Rack, Advertised: kafkaEndpoints(endpoints), Shards: &b.store, Cluster: b.machine,
		Proposer: b.meta, ClusterCode: clusterMachine, Groups: b.groups, GroupCode: groupMachine,
		ProducerIDs: cluster.NewProducerIDs(cluster.NewClient(b.meta, clusterMachine, b.machine)),
		Config:      b.config, Pool: b.pool, Logger: logs.For(b.log, "kafka"), Loops: network.Loops,
	})
	if err != nil {
		return err
	}
	b.store.setSinks(b.kafka.Sinks())
	network.Handler = b.kafka
	server, err := netio.Start(network)
	if err != nil {
		return listenHint(err)
	}
	b.machine.Between(func(image *cluster.Image) {
		b.net = server
		b.shards.resolve(image)
	})
	if b.admin != nil {
		b.showAdmin()
		return b.admin.Export(admin.Kafka(b.kafka), admin.Groups(b.kafka), admin.Net(b.net.Metrics()), admin.Limits(b.config, b.store.disks))
	}
	return nil
}

// orNever makes a limit that is off one that is never reached.
func orNever(d time.Duration) time.Duration {
	if d <= 0 {
		return math.MaxInt64
	}
	return d
}

// openAdmin starts the admin endpoint first, so that /readyz tells what a long start is doing.
func (b *Broker) openAdmin() error {
	if b.config.AdminListen == "" {
		return nil
	}
	var err error
	b.admin, err = admin.Start(admin.Options{Listen: b.config.AdminListen, Token: b.config.AdminToken, Healthy: b.Healthy, Ready: b.Ready, Impaired: b.Impaired, Logger: logs.For(b.log, "admin")})
	return err
}

// Reread takes over the dynamic settings of again, which were read from where the broker's own came from, and logs what
// cannot change before the next start. Configs of the cluster count before either.
func (b *Broker) Reread(again *config.Broker) error {
	now, waiting, err := b.config.Reread(again)
	if err != nil {
		return err
	}
	b.machine.Between(func(image *cluster.Image) { b.shards.reread(now, image) })
	b.kafka.Reread(now)
	b.log.Info("settings read again")
	if len(waiting) > 0 {
		b.log.Warn("settings that changed wait for the next start", "settings", strings.Join(waiting, ","))
	}
	return nil
}

// settle takes over the dynamic settings that are no topic's. It is called between two changes of the cluster state.
func (b *Broker) settle(r *config.Resolver) {
	logs.Set(b.log, r.LogLevels())
	b.store.cordon(r.Cordoned)
	b.store.moves.rate.Store(r.MoveRate())
	b.store.setUpkeep(r.Upkeep())
	if b.net == nil {
		return // serve calls again
	}
	b.kafka.LogSlowRequests(r.SlowRequest())
	limits := netio.Limits{Rate: r.ConnectionRate(""), ListenerRate: map[string]int{}}
	limits.Max, limits.PerAddress, limits.Overrides = r.ConnectionsMax()
	for _, l := range b.config.Listeners {
		limits.ListenerRate[l.Name] = r.ConnectionRate(l.Name)
	}
	if err := b.net.Limit(limits); err != nil {
		b.log.Error("limits of connections stay as they were", "err", err)
	}
}

// Ready returns why clients are not served now, nil while they are.
func (b *Broker) Ready() error {
	if b.ready.Load() {
		return b.Healthy()
	}
	return errors.New(*b.why.Load())
}

// Healthy returns why the broker cannot go on in full, nil while it can.
func (b *Broker) Healthy() error {
	if !b.ready.Load() {
		return nil // starting or stopping; the stores may not be there
	}
	if errs, all := b.store.failed(); all {
		return errors.Join(append(errs, b.meta.Failed())...)
	}
	return b.meta.Failed()
}

// Impaired returns which data directories failed while others serve, nil where none did.
func (b *Broker) Impaired() error {
	if !b.ready.Load() {
		return nil
	}
	errs, _ := b.store.failed()
	return errors.Join(errs...)
}

// Addresses returns the address of each listener, with the real port.
func (b *Broker) Addresses() []string { return b.net.Addresses() }

// AdminAddress returns that of the admin endpoint, empty where there is none.
func (b *Broker) AdminAddress() string {
	if b.admin == nil {
		return ""
	}
	return b.admin.Address()
}

// ClusterID returns the cluster's id.
func (b *Broker) ClusterID() string { return b.meta.ClusterID() }

// Close stops the broker: no more connections and requests are taken, answers that are due go out, and
// everything is synced and closed. ctx bounds how long clients are waited for, not the closing of stores.
func (b *Broker) Close(ctx context.Context) error {
	b.stage("stopping")
	b.ready.Store(false)
	if b.admin != nil {
		b.admin.Hide()
	}
	var errs []error
	if b.kafka != nil {
		b.kafka.Drain()
	}
	if b.net != nil {
		if err := b.net.Stop(ctx); err != nil {
			b.log.Warn("clients were cut off", "err", err)
		}
	}
	if b.kafka != nil {
		b.kafka.Close()
	}
	b.store.moves.end()
	if b.meta != nil {
		errs = append(errs, b.meta.Close())
	}
	if b.shards != nil {
		b.shards.close()
	}
	errs = append(errs, b.store.closeStores())
	if b.admin != nil {
		errs = append(errs, b.admin.Close(ctx))
	}
	errs = append(errs, b.store.release())
	if b.memory != nil {
		b.memory.close()
	}
	return errors.Join(errs...)
}
