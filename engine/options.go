package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/diskio"
	"millrace/perf"
)

// Forever switches an age limit off.
const Forever = time.Duration(-1)

// Bounds of Options.
const (
	writersMax            = 64
	openSegmentsDefault   = 16384
	indexCacheDefault     = 16 << 20
	gatherBytesDefault    = 256 << 20
	reserveBytesDefault   = 16 << 20
	producersMaxDefault   = 100_000
	checkpointBytesDef    = 64 << 20
	checkpointIntervalDef = time.Minute
	retentionIntervalDef  = 5 * time.Minute
	producerExpirationDef = 24 * time.Hour
	cleanIntervalDef      = 15 * time.Second
	cleanMemoryDef        = 128 << 20
	cleanMemoryMin        = 1 << 20
)

// Options configure a Store. EnsureDefaults fills what is zero, Validate reports every fault at once.
type Options struct {
	// Dir is the data directory. It is made where it is missing.
	Dir string
	// FS reaches the segment files. The store does not close it.
	FS diskio.FS
	// IndexFS is the file system of the index store; nil means the operating system's.
	IndexFS vfs.FS
	Pool    *perf.Pool
	Logger  *slog.Logger
	// Now is the only clock that decides about data: ages of segments and producers, times in files.
	Now func() time.Time
	// Sinks take finished appends, one for each event loop. SetSinks may give them later.
	Sinks []Sink

	// Writers is the number of writer goroutines; shards are spread over them. Default 1.
	Writers int
	// IndexCacheBytes is the block cache of the index store; default 16 MiB.
	IndexCacheBytes int64
	// OpenSegmentsMax bounds open segment files; default 16,384 or a quarter of the process's limit of open
	// files. Where so many have bytes that wait for a checkpoint, the oldest are synced early.
	OpenSegmentsMax int
	// MappingsMax bounds mappings of segments; default as OpenSegmentsMax.
	MappingsMax int
	// GatherBytesMax bounds the bytes that wait to be written or synced in all shards; beyond it Submit
	// answers ErrBackpressure. Default 256 MiB.
	GatherBytesMax int64
	// ReserveBytes of free space are left to the index store and others on the file system: below it appends
	// are refused. Default 16 MiB.
	ReserveBytes int64
	// ProducersMax bounds the producers that one shard remembers; beyond it the one that has been silent
	// longest is forgotten. Default 100,000.
	ProducersMax int
	// A checkpoint of a shard is due when so many bytes were written since the last, or so long after the
	// first of them. Defaults 64 MiB and 1 minute.
	CheckpointBytes    int64
	CheckpointInterval time.Duration
	// RetentionCheckInterval is the time between two looks for segments to delete; default 5 minutes.
	RetentionCheckInterval time.Duration
	Upkeep
}

// Upkeep are those of the Options that SetUpkeep changes while the store is open.
type Upkeep struct {
	// CleanInterval is the time between two looks for shards to compact; default 15 seconds.
	CleanInterval time.Duration
	// CleanMemoryBytes bounds the memory for keys of one compaction; default 128 MiB, at least 1 MiB. What has
	// more keys is compacted in several passes.
	CleanMemoryBytes int64
	// CleanBytesPerSecond bounds what compaction reads and writes; 0 sets no bound.
	CleanBytesPerSecond int64
	// ProducerExpiration forgets a producer that has not written for so long; default 24 hours.
	ProducerExpiration time.Duration
}

// EnsureDefaults fills what is not set.
func (u *Upkeep) EnsureDefaults() {
	fill(&u.CleanInterval, cleanIntervalDef)
	fill(&u.CleanMemoryBytes, cleanMemoryDef)
	fill(&u.ProducerExpiration, producerExpirationDef)
}

// EnsureDefaults fills what is not set.
func (o *Options) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.IndexFS == nil {
		o.IndexFS = vfs.Default
	}
	if o.Pool == nil {
		o.Pool = perf.NewPool(64 << 20)
	}
	fill(&o.Writers, 1)
	fill(&o.IndexCacheBytes, indexCacheDefault)
	fill(&o.OpenSegmentsMax, openSegmentsLimit())
	fill(&o.MappingsMax, o.OpenSegmentsMax)
	fill(&o.GatherBytesMax, gatherBytesDefault)
	fill(&o.ReserveBytes, reserveBytesDefault)
	fill(&o.ProducersMax, producersMaxDefault)
	fill(&o.CheckpointBytes, checkpointBytesDef)
	fill(&o.CheckpointInterval, checkpointIntervalDef)
	fill(&o.RetentionCheckInterval, retentionIntervalDef)
	o.Upkeep.EnsureDefaults()
}

func fill[T int | int64 | time.Duration](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

// openSegmentsLimit leaves three quarters of the process's descriptors: to sockets, the index store, other files, and
// what passes the bound for a moment.
func openSegmentsLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 512
	}
	return int(max(16, min(limit.Cur/4, openSegmentsDefault)))
}

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(o.Dir == "", "no data directory")
	fault(o.FS == nil, "no file system")
	fault(o.Writers < 1 || o.Writers > writersMax, "writers %d are not within 1 and %d", o.Writers, writersMax)
	fault(o.IndexCacheBytes < 1<<20, "index cache of %d bytes is below 1 MiB", o.IndexCacheBytes)
	fault(o.OpenSegmentsMax < 1, "open segments %d", o.OpenSegmentsMax)
	fault(o.MappingsMax < 1, "mappings %d", o.MappingsMax)
	fault(o.GatherBytesMax < 1, "gathered bytes %d", o.GatherBytesMax)
	fault(o.ReserveBytes < 0, "reserve of %d bytes", o.ReserveBytes)
	fault(o.ProducersMax < 1, "producers %d", o.ProducersMax)
	fault(o.CheckpointBytes < 1, "checkpoint bytes %d", o.CheckpointBytes)
	fault(o.CheckpointInterval < 0, "checkpoint interval %s", o.CheckpointInterval)
	fault(o.RetentionCheckInterval < 0, "retention check interval %s", o.RetentionCheckInterval)
	fault(o.CleanInterval < 0, "compaction interval %s", o.CleanInterval)
	fault(o.CleanMemoryBytes < cleanMemoryMin, "memory for compaction of %d bytes is below 1 MiB", o.CleanMemoryBytes)
	fault(o.CleanBytesPerSecond < 0, "compaction of %d bytes a second", o.CleanBytesPerSecond)
	fault(o.ProducerExpiration < 0, "producer expiration %s", o.ProducerExpiration)
	return errors.Join(faults...)
}

// ShardConfig is what a topic's settings say about its shards. Zero values mean the defaults of
// EnsureDefaults.
type ShardConfig struct {
	// SegmentBytes is where a segment is sealed: it exceeds this by at most one append. Default 1 GiB.
	SegmentBytes int64
	// SegmentAge seals a segment so long after its first append, earlier by up to SegmentJitter, which differs
	// from segment to segment. Default 7 days, no jitter.
	SegmentAge    time.Duration
	SegmentJitter time.Duration
	// RetentionAge deletes a sealed segment whose largest timestamp is older; Forever never. Default 7 days.
	RetentionAge time.Duration
	// RetentionBytes deletes the oldest sealed segments while the others hold at least so many; -1 never.
	// Default -1.
	RetentionBytes int64
	// FlushMessages makes records durable before they are acknowledged as soon as so many are not yet.
	// Default never.
	FlushMessages int64
	// FlushInterval makes records durable so long after they were written. Default never.
	FlushInterval time.Duration
	// FileDeleteDelay is the time between a segment's removal from the log and of its file. Default 1 minute.
	// A negative one means at once.
	FileDeleteDelay time.Duration
	// Compact keeps of sealed segments the last record of each key. Records without a key are dropped.
	Compact bool
	// DeleteRetention keeps tombstones so long after the first compaction that met them. Default 24 hours.
	DeleteRetention time.Duration
	// MinCompactionLag leaves a segment alone whose largest timestamp is not so old. Default none.
	MinCompactionLag time.Duration
	// MaxCompactionLag seals and compacts what was written so long ago, whatever MinDirtyRatio says. Default
	// never.
	MaxCompactionLag time.Duration
	// MinDirtyRatio leaves a shard alone while not more than this part of what could be compacted was written
	// since the last compaction: 0 to 1.
	MinDirtyRatio float64
}

// EnsureDefaults fills what is not set.
func (c *ShardConfig) EnsureDefaults() {
	fill(&c.SegmentBytes, 1<<30)
	fill(&c.SegmentAge, 7*24*time.Hour)
	fill(&c.RetentionAge, 7*24*time.Hour)
	fill(&c.RetentionBytes, -1)
	fill(&c.FlushMessages, math.MaxInt64)
	fill(&c.FlushInterval, math.MaxInt64)
	fill(&c.FileDeleteDelay, time.Minute)
	fill(&c.DeleteRetention, 24*time.Hour)
	fill(&c.MaxCompactionLag, math.MaxInt64)
}

// ShardSpec says what a shard is for.
type ShardSpec struct {
	// TopicName goes into the shard's directory for people and offline tools.
	TopicName string
	// LeaderEpoch is the epoch that appends are written under.
	LeaderEpoch int32
	Config      ShardConfig
	// Record puts a new shard on record, durable after SyncRecords, so that the next start finds it here although
	// nothing was appended.
	Record bool
}
