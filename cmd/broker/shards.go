package broker

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/meta/cluster"
	"millrace/meta/config"
)

// shardKeeper makes the engine's shards follow the cluster state: those that this node is a replica of
// exist, with the epoch and configs of their topic; others do not.
type shardKeeper struct {
	nodeID   int32
	settings *config.Broker
	store    *directories
	log      *slog.Logger
	settle   func(*config.Resolver) // takes over settings that may have changed; never nil

	// Of the goroutine that applies changes, and of who reads settings again between two of them:
	resolver *config.Resolver
	started  bool // the change that tells of everything from before the start was carried out

	// Deleting a shard renames its directory, which may wait for the disk; the goroutine that applies
	// changes must not. Nor for where new shards are to become durable.
	mu      sync.Mutex
	dropped []model.ShardID
	made    bool
	wake    chan struct{}
	ended   sync.WaitGroup
}

func newShardKeeper(settings *config.Broker, store *directories, log *slog.Logger, settle func(*config.Resolver)) *shardKeeper {
	k := &shardKeeper{nodeID: settings.NodeID, settings: settings, store: store, log: log, settle: settle, wake: make(chan struct{}, 1)}
	k.ended.Go(k.dropAll)
	return k
}

// onChange carries out what the cluster state asks for. It runs on the goroutine that applies changes,
// before their proposer is answered: a topic that was created can be written to at once.
func (k *shardKeeper) onChange(d cluster.Delta) {
	if k.resolver == nil || d.BrokerConfigs {
		k.resolve(d.Image)
	}
	for _, change := range d.Topics {
		k.follow(change)
	}
	if d.BrokerConfigs {
		k.followAll(d.Image)
	}
	k.started = true
}

// reread takes over settings that were read again. It is called between two changes.
func (k *shardKeeper) reread(settings *config.Broker, image *cluster.Image) {
	k.settings = settings
	k.resolve(image)
	k.followAll(image)
}

func (k *shardKeeper) resolve(image *cluster.Image) {
	k.resolver = config.NewResolver(k.settings, brokerConfigs(image, cluster.AllBrokers), brokerConfigs(image, k.nodeID))
	k.settle(k.resolver)
}

func (k *shardKeeper) followAll(image *cluster.Image) {
	image.Topics(func(t *cluster.Topic) bool {
		k.follow(cluster.TopicChange{Old: t, New: t})
		return true
	})
}

func brokerConfigs(image *cluster.Image, scope int32) map[string]string {
	if r := image.BrokerConfigs(scope); r != nil {
		return r.Configs
	}
	return nil
}

func (k *shardKeeper) follow(change cluster.TopicChange) {
	if change.Old != nil {
		for p := range change.Old.Partitions {
			if change.New == nil || !k.hosts(change.New, int32(p)) {
				k.drop(model.ShardID{Topic: change.Old.ID, Partition: int32(p)})
			}
		}
	}
	if change.New == nil {
		return
	}
	settings := shardConfig(k.resolver.Topic(change.New.Configs))
	for p := range change.New.Partitions {
		if k.hosts(change.New, int32(p)) {
			k.ensure(change.New, int32(p), settings)
		}
	}
}

func (k *shardKeeper) hosts(t *cluster.Topic, partition int32) bool {
	p := t.Partition(partition)
	return p != nil && slices.Contains(p.Replicas, k.nodeID)
}

func (k *shardKeeper) ensure(t *cluster.Topic, partition int32, settings engine.ShardConfig) {
	id, epoch := model.ShardID{Topic: t.ID, Partition: partition}, t.Partitions[partition].LeaderEpoch
	if sh := k.store.Shard(id); sh != nil {
		sh.SetLeaderEpoch(epoch)
		sh.SetConfig(settings)
		return
	}
	if _, err := k.store.ensure(id, engine.ShardSpec{TopicName: t.Name, LeaderEpoch: epoch, Config: settings}, !k.started); err != nil {
		// Clients get an error for this partition; the others go on.
		k.log.Error("partition cannot be served", "topic", t.Name, "partition", partition, "shard", id.String(), "err", err)
	}
	k.later(func() { k.made = true })
}

func (k *shardKeeper) drop(id model.ShardID) {
	k.later(func() { k.dropped = append(k.dropped, id) })
}

// later notes what dropAll is to do.
func (k *shardKeeper) later(note func()) {
	k.mu.Lock()
	note()
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// dropAll deletes what is queued, and syncs where new shards are, until close.
func (k *shardKeeper) dropAll() {
	for range k.wake {
		k.mu.Lock()
		ids, made := k.dropped, k.made
		k.dropped, k.made = nil, false
		k.mu.Unlock()
		if made {
			k.store.syncRecords(k.log)
		}
		if err := k.store.drop(ids); err != nil {
			k.log.Error("shards not deleted; the next start does it", "err", err)
		}
	}
}

// close waits for what is queued. No change may come after it.
func (k *shardKeeper) close() {
	close(k.wake)
	k.ended.Wait()
}

// removeOrphans takes the shards on disk away whose topics were deleted while their directories could not be. What
// has records is only set aside: a cluster state that lost its last changes looks the same.
func (k *shardKeeper) removeOrphans() error {
	orphans := 0
	for _, at := range k.store.list {
		orphans += len(at.store.Orphans())
		if err := at.store.SetOrphansAside(); err != nil {
			return fmt.Errorf("set shards of deleted topics aside: %w", err)
		}
	}
	if orphans > 0 {
		k.log.Info("shards of topics that do not exist taken away", "shards", orphans)
	}
	return nil
}

// shardConfig is what a topic's settings say about its shards. The engine takes zero for "not set", so zero
// becomes the least value there is.
func shardConfig(t *config.Topic) engine.ShardConfig {
	c := engine.ShardConfig{
		SegmentBytes: t.SegmentBytes, SegmentAge: orLeast(t.SegmentAge), SegmentJitter: t.SegmentJitter,
		RetentionAge: orLeast(t.RetentionAge), RetentionBytes: max(t.RetentionBytes, -1),
		FlushMessages: max(t.FlushMessages, 1), FlushInterval: orLeast(t.FlushInterval), FileDeleteDelay: t.FileDeleteDelay,
		Compact: t.CleanupCompact, DeleteRetention: orLeast(t.DeleteRetention), MinDirtyRatio: t.MinCleanableDirtyRatio,
		MinCompactionLag: t.MinCompactionLag, MaxCompactionLag: orLeast(t.MaxCompactionLag),
	}
	if t.FileDeleteDelay == 0 {
		c.FileDeleteDelay = -1
	}
	if c.RetentionBytes == 0 {
		c.RetentionBytes = 1
	}
	if t.RetentionAge < 0 || !t.CleanupDelete {
		c.RetentionAge = engine.Forever
	}
	if !t.CleanupDelete {
		c.RetentionBytes = -1
	}
	if t.FlushInterval < 0 {
		c.FlushInterval = math.MaxInt64
	}
	return c
}

func orLeast(d time.Duration) time.Duration {
	if d == 0 {
		return 1
	}
	return d
}
