package config

import "time"

// Compression is what compression.type names.
type Compression uint8

// The codecs. CompressionProducer leaves the choice to the broker, which then fetches uncompressed.
const (
	CompressionProducer Compression = iota
	CompressionUncompressed
	CompressionGzip
	CompressionSnappy
	CompressionLZ4
	CompressionZstd
)

// Topic holds the values that take effect for one topic. It is immutable and shared by all topics that
// have the same overrides, so that holding one per partition costs a pointer.
type Topic struct {
	Compression          Compression
	CompressionGzipLevel int
	CompressionLZ4Level  int
	CompressionZstdLevel int

	MessageBytesMax             int // max.message.bytes
	DecompressedMessageBytesMax int // max.decompressed.message.bytes, of one record

	LogAppendTime          bool  // message.timestamp.type
	TimestampBeforeMaxMS   int64 // message.timestamp.before.max.ms
	TimestampAfterMaxMS    int64 // message.timestamp.after.max.ms
	UncleanLeaderElection  bool
	CleanupDelete          bool // cleanup.policy holds delete
	CleanupCompact         bool // cleanup.policy holds compact
	RetentionBytes         int64
	RetentionAge           time.Duration // -1: forever
	SegmentBytes           int64
	SegmentAge             time.Duration
	SegmentJitter          time.Duration
	FlushMessages          int64         // math.MaxInt64: never
	FlushInterval          time.Duration // math.MaxInt64: never
	FileDeleteDelay        time.Duration
	DeleteRetention        time.Duration
	MinCleanableDirtyRatio float64
	MinCompactionLag       time.Duration
	MaxCompactionLag       time.Duration
}
