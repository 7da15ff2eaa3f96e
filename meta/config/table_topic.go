package config

import (
	"errors"
	"fmt"
	"regexp"
)

const (
	forever    = "9223372036854775807"
	minute     = int64(60_000)
	hour       = 60 * minute
	noTiers    = "There is no tiered storage here: accepted, and changes nothing."
	oneReplica = "Partitions have one replica here: accepted, and changes nothing."
)

// topicTable lists the configs of topics: those of Apache Kafka 4.4.
func topicTable() []*Definition {
	var list []*Definition
	list = append(list, topicCompression()...)
	list = append(list, topicMessages()...)
	list = append(list, topicRetention()...)
	list = append(list, topicFlush()...)
	list = append(list, topicCompaction()...)
	list = append(list, topicWithoutMeaning()...)
	for _, d := range list {
		d.Scope = ScopeTopic
		d.Importance = Medium
		if d.Standing == 0 {
			d.Standing = Effective
		}
	}
	return list
}

func checked(d *Definition, check func(Parsed) error, valid string) *Definition {
	d.Check, d.Valid = check, valid
	return d
}

// numbered is a number that must be low or more, with one synonym.
func numbered(name string, t Type, value string, low int64, synonym, doc string) *Definition {
	check, valid := atLeast(low)
	d := &Definition{Name: name, Type: t, Default: value, Check: check, Valid: valid, Doc: doc}
	if synonym != "" {
		d.Synonyms = []Synonym{{Name: synonym, Factor: 1}}
	}
	return d
}

func without(d *Definition) *Definition {
	d.Standing = NoMeaning
	return d
}

func same(name string) []Synonym { return []Synonym{{Name: name, Factor: 1}} }

func topicCompression() []*Definition {
	types, typesValid := oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
	gzip := func(v Parsed) error {
		if v.Number != -1 && (v.Number < 1 || v.Number > 9) {
			return errors.New("value must be 1 to 9, or -1 for the codec's default")
		}
		return nil
	}
	lz4, lz4Valid := between(1, 17)
	zstd, zstdValid := between(-131072, 22)
	return []*Definition{
		checked(&Definition{Name: "compression.type", Type: String, Default: "producer", Synonyms: same("compression.type"),
			Doc: "What batches are encoded with when they are fetched. Records are stored decoded: 'producer' and 'uncompressed' fetch as uncompressed batches, a codec's name as batches compressed with it."},
			types, typesValid),
		checked(&Definition{Name: "compression.gzip.level", Type: Int, Default: "-1", Synonyms: same("compression.gzip.level"),
			Doc: "The level of compression where compression.type is gzip."}, gzip, "[1,...,9] or -1"),
		checked(&Definition{Name: "compression.lz4.level", Type: Int, Default: "9", Synonyms: same("compression.lz4.level"),
			Doc: "The level of compression where compression.type is lz4: up to 9 the fast compressor, above it slower ones that compress better."}, lz4, lz4Valid),
		checked(&Definition{Name: "compression.zstd.level", Type: Int, Default: "3", Synonyms: same("compression.zstd.level"),
			Doc: "The level of compression where compression.type is zstd; the nearest of the encoder's levels is taken."}, zstd, zstdValid),
	}
}

func topicMessages() []*Definition {
	timestamp, timestampValid := oneOf("CreateTime", "LogAppendTime")
	decompressed, decompressedValid := between(1, 2147483639)
	return []*Definition{
		numbered("max.message.bytes", Int, "1048588", 0, "message.max.bytes",
			"The largest batch that a producer may send, as it is on the wire (compressed where it is compressed)."),
		checked(&Definition{Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639",
			Synonyms: same("max.decompressed.message.bytes"),
			Doc:      "The largest record after decompression; a larger one is refused as invalid. millrace.produce.decoded.bytes.max bounds the whole batch besides."},
			decompressed, decompressedValid),
		checked(&Definition{Name: "message.timestamp.type", Type: String, Default: "CreateTime", Synonyms: same("log.message.timestamp.type"),
			Doc: "Whether a record keeps the time that its producer gave it (CreateTime) or gets the time of its append (LogAppendTime)."},
			timestamp, timestampValid),
		numbered("message.timestamp.before.max.ms", Long, forever, 0, "log.message.timestamp.before.max.ms",
			"How far a record's timestamp may lie before the broker's clock; an older one is refused. It counts for CreateTime only."),
		numbered("message.timestamp.after.max.ms", Long, "3600000", 0, "log.message.timestamp.after.max.ms",
			"How far a record's timestamp may lie after the broker's clock; a later one is refused. It counts for CreateTime only."),
		without(numbered("min.insync.replicas", Int, "1", 1, "min.insync.replicas",
			"How many replicas must be in sync for a produce request with acks=all to be taken. Partitions have one replica here, and the minimum that counts is never above the number of replicas: accepted, and changes nothing.")),
	}
}

func topicRetention() []*Definition {
	anyTime, anyTimeValid := atLeast(-1)
	list := []*Definition{
		checked(&Definition{Name: "cleanup.policy", Type: List, Default: "delete", Synonyms: same("log.cleanup.policy"),
			Doc: "What happens to old segments: 'delete' removes them by retention.ms and retention.bytes, 'compact' keeps the last record of each key, both do both, an empty list keeps everything. With 'compact' a record without a key is refused; those from before are dropped."},
			checkCleanupPolicy, "[compact, delete]"),
		checked(&Definition{Name: "retention.ms", Type: Long, Default: "604800000",
			Synonyms: []Synonym{{Name: "log.retention.ms", Factor: 1}, {Name: "log.retention.minutes", Factor: minute}, {Name: "log.retention.hours", Factor: hour}},
			Doc:      "How long records are kept at least before their sealed segment is deleted, in milliseconds by their timestamps; -1 keeps them forever."},
			anyTime, anyTimeValid),
		{Name: "retention.bytes", Type: Long, Default: "-1", Synonyms: same("log.retention.bytes"),
			Doc: "How large a partition may get before its oldest sealed segments are deleted; -1 sets no bound."},
		numbered("segment.bytes", Int, "1073741824", 1<<20, "log.segment.bytes",
			"How large a segment may get before a new one is begun; a segment passes it by one append at most."),
		checked(&Definition{Name: "segment.ms", Type: Long, Default: "604800000",
			Synonyms: []Synonym{{Name: "log.roll.ms", Factor: 1}, {Name: "log.roll.hours", Factor: hour}},
			Doc:      "How old a segment may get before a new one is begun, so that retention can delete it."}, firstOf(atLeast(1)), "[1,...]"),
		checked(&Definition{Name: "segment.jitter.ms", Type: Long, Default: "0",
			Synonyms: []Synonym{{Name: "log.roll.jitter.ms", Factor: 1}, {Name: "log.roll.jitter.hours", Factor: hour}},
			Doc:      "How much is taken at random from segment.ms for each segment, so that not all roll at once."}, firstOf(atLeast(0)), "[0,...]"),
		numbered("file.delete.delay.ms", Long, "60000", 0, "log.segment.delete.delay.ms",
			"How long the file of a deleted segment or partition stays before its space is given back."),
	}
	return list
}

func firstOf(check func(Parsed) error, _ string) func(Parsed) error { return check }

// checkCleanupPolicy refuses what Kafka refuses.
func checkCleanupPolicy(v Parsed) error {
	seen := map[string]bool{}
	for _, policy := range v.List {
		if policy != "delete" && policy != "compact" {
			return fmt.Errorf("value must be one of delete, compact")
		}
		if seen[policy] {
			return fmt.Errorf("%s stands twice", policy)
		}
		seen[policy] = true
	}
	return nil
}

func topicFlush() []*Definition {
	interval := numbered("flush.ms", Long, forever, 0, "log.flush.interval.ms",
		"How long records may lie in the page cache before they are synced to disk. A partition that takes a record and sees no sync for this long is synced.")
	interval.Synonyms[0].Null = true
	return []*Definition{
		numbered("flush.messages", Long, forever, 1, "log.flush.interval.messages",
			"After how many records a partition is synced to disk; with 1 no produce request is acknowledged before its records are on disk."),
		interval,
	}
}

func topicCompaction() []*Definition {
	ratio := func(v Parsed) error {
		if v.Double < 0 || v.Double > 1 {
			return errors.New("value must be 0 to 1")
		}
		return nil
	}
	return []*Definition{
		numbered("delete.retention.ms", Long, "86400000", 0, "log.cleaner.delete.retention.ms",
			"How long a tombstone stays in a compacted topic after the first compaction that met it, so that readers get to see it."),
		numbered("min.compaction.lag.ms", Long, "0", 0, "log.cleaner.min.compaction.lag.ms",
			"How old the newest record of a segment must be before the segment is compacted."),
		numbered("max.compaction.lag.ms", Long, forever, 1, "log.cleaner.max.compaction.lag.ms",
			"How long after its append a record is compacted at the latest; a segment is sealed for it where it must be."),
		checked(&Definition{Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Synonyms: same("log.cleaner.min.cleanable.ratio"),
			Doc: "A partition is compacted when more than this part of what could be compacted was written since the last time."}, ratio, "[0,...,1]"),
	}
}

func topicWithoutMeaning() []*Definition {
	return []*Definition{
		without(numbered("index.interval.bytes", Int, "4096", 0, "log.index.interval.bytes",
			"How many bytes lie between two entries of the offset index. The index here has an entry for each 64 KiB or so: accepted, and changes nothing.")),
		without(numbered("segment.index.bytes", Int, "10485760", 4, "log.index.size.max.bytes",
			"How large the index of a segment may get. The index here is one for all segments and has no bound of its own: accepted, and changes nothing.")),
		without(&Definition{Name: "preallocate", Type: Bool, Default: "false", Synonyms: same("log.preallocate"),
			Doc: "Whether a new segment's file is allocated at once. Files are allocated ahead here in steps that follow the rate of writing: accepted, and changes nothing."}),
		without(&Definition{Name: "unclean.leader.election.enable", Type: Bool, Default: "false", Synonyms: same("unclean.leader.election.enable"),
			Doc: "Whether a replica out of sync may become leader when no other is left. " + oneReplica}),
		without(throttled("leader.replication.throttled.replicas", "leader")),
		without(throttled("follower.replication.throttled.replicas", "follower")),
		{Name: "remote.storage.enable", Type: Bool, Default: "false", Standing: Refused,
			Doc:    "Whether old segments move to tiered storage. Only false is possible here.",
			Reason: "there is no tiered storage here; leave it out"},
		without(&Definition{Name: "remote.log.copy.disable", Type: Bool, Default: "false", Doc: "Whether tiered data becomes read-only. " + noTiers}),
		without(&Definition{Name: "remote.log.delete.on.disable", Type: Bool, Default: "false", Doc: "Whether tiered data is deleted when tiering ends. " + noTiers}),
		without(numbered("remote.copy.lag.ms", Long, "0", -1, "log.remote.copy.lag.ms", "How long a sealed segment waits before it is tiered. "+noTiers)),
		without(numbered("remote.copy.lag.bytes", Long, "-1", -1, "log.remote.copy.lag.bytes", "How much stays untiered. "+noTiers)),
		without(numbered("local.retention.ms", Long, "-2", -2, "log.local.retention.ms", "How long tiered segments stay local too. "+noTiers)),
		without(numbered("local.retention.bytes", Long, "-2", -2, "log.local.retention.bytes", "How much of tiered segments stays local too. "+noTiers)),
		{Name: "errors.deadletterqueue.group.enable", Type: Bool, Default: "false", Standing: Refused,
			Doc:    "Whether the topic may be the dead letter queue of share groups. Only false is possible here.",
			Reason: "share groups do not exist here yet; leave it out"},
	}
}

func throttled(name, role string) *Definition {
	element := regexp.MustCompile(`^[0-9]+:[0-9]+$`)
	check := func(v Parsed) error {
		if len(v.List) == 1 && v.List[0] == "*" {
			return nil
		}
		for _, e := range v.List {
			if !element.MatchString(e) {
				return errors.New("value must be *, or a list of PARTITION:BROKER")
			}
		}
		return nil
	}
	return checked(&Definition{Name: name, Type: List, Default: "",
		Doc: "Replicas whose replication is throttled on the " + role + "'s side. " + oneReplica},
		check, "[partitionId]:[brokerId],[partitionId]:[brokerId],...")
}
