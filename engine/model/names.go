package model

import "strconv"

// Kind says what an append is.
type Kind uint8

const (
	// KindData holds the records of one producer batch.
	KindData Kind = 1
	// KindControl holds a marker: commit, abort or coordinator epoch.
	KindControl Kind = 2
	// KindEmpty holds no records: what is left of a producer's last batch after compaction.
	KindEmpty Kind = 3
)

// String names the kind for people.
func (k Kind) String() string {
	switch k {
	case KindData:
		return "data"
	case KindControl:
		return "control"
	case KindEmpty:
		return "empty"
	}
	return "kind-" + strconv.Itoa(int(k))
}

// Flags are the marks of an append.
type Flags uint16

const (
	// FlagLogAppendTime: the broker set the timestamps; every record has the append's max timestamp.
	FlagLogAppendTime Flags = 1 << 0
	// FlagTransactional: the records belong to a transaction.
	FlagTransactional Flags = 1 << 1
	// FlagControl: the records are markers that no reader of data sees.
	FlagControl Flags = 1 << 2
	// FlagDeleteHorizon: DeleteHorizon is set.
	FlagDeleteHorizon Flags = 1 << 3

	flagsKnown = FlagLogAppendTime | FlagTransactional | FlagControl | FlagDeleteHorizon
)

// String lists the set flags, joined by "+"; "none" where none is.
func (f Flags) String() string {
	names := [...]string{"log-append-time", "transactional", "control", "delete-horizon"}
	s := ""
	for i, name := range names {
		if f&(1<<i) != 0 {
			s = join(s, name)
		}
	}
	if rest := f &^ flagsKnown; rest != 0 {
		s = join(s, "0x"+strconv.FormatUint(uint64(rest), 16))
	}
	if s == "" {
		return "none"
	}
	return s
}

func join(s, name string) string {
	if s == "" {
		return name
	}
	return s + "+" + name
}

// Codec is how a producer had compressed what it sent, kept as a fact: stored records are never compressed.
type Codec uint8

// The codecs of the first version.
const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2
	CodecLZ4    Codec = 3
	CodecZstd   Codec = 4
)

// String names the codec as settings do.
func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecGzip:
		return "gzip"
	case CodecSnappy:
		return "snappy"
	case CodecLZ4:
		return "lz4"
	case CodecZstd:
		return "zstd"
	}
	return "codec-" + strconv.Itoa(int(c))
}
