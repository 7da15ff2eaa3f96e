package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"millrace/diskio"
	"millrace/engine/model"
	"millrace/perf"
)

// segmentHeaderSize is the size of the frame that a segment file begins with; docs/format.md lists its bytes.
const (
	segmentHeaderSize    = 128
	segmentMagic         = 0x4D525347 // "MRSG"
	segmentHeaderVersion = 1
)

// segmentHeader is what a segment file says of itself.
type segmentHeader struct {
	Shard       model.ShardID
	Number      uint64
	Generation  uint32
	BaseOffset  int64
	LeaderEpoch int32
	Created     int64 // milliseconds since the epoch
}

// put writes the frame with its checksum into dst[:segmentHeaderSize].
func (h *segmentHeader) put(dst []byte) {
	be := binary.BigEndian
	d := dst[:segmentHeaderSize:segmentHeaderSize]
	clear(d)
	be.PutUint32(d[4:], segmentMagic)
	be.PutUint16(d[8:], segmentHeaderVersion)
	copy(d[12:], h.Shard.Topic[:])
	be.PutUint32(d[28:], uint32(h.Shard.Partition))
	be.PutUint64(d[32:], h.Number)
	be.PutUint32(d[40:], h.Generation)
	be.PutUint32(d[44:], uint32(h.LeaderEpoch))
	be.PutUint64(d[48:], uint64(h.BaseOffset))
	be.PutUint64(d[56:], uint64(h.Created))
	be.PutUint32(d, perf.CRC32C(d[4:]))
}

// parse reads and verifies the frame at the start of b. Errors wrap ErrCorrupt, or model.ErrVersion.
func (h *segmentHeader) parse(b []byte) error {
	be := binary.BigEndian
	if len(b) < segmentHeaderSize {
		return fmt.Errorf("segment header: %w: %d bytes", ErrCorrupt, len(b))
	}
	d := b[:segmentHeaderSize:segmentHeaderSize]
	if be.Uint32(d[4:]) != segmentMagic {
		return fmt.Errorf("segment header: %w: not a segment", ErrCorrupt)
	}
	if be.Uint32(d) != perf.CRC32C(d[4:]) {
		return fmt.Errorf("segment header: %w: checksum does not match", ErrCorrupt)
	}
	if v := be.Uint16(d[8:]); v != segmentHeaderVersion {
		return fmt.Errorf("segment header: %w %d, this program knows %d", model.ErrVersion, v, segmentHeaderVersion)
	}
	copy(h.Shard.Topic[:], d[12:])
	h.Shard.Partition = int32(be.Uint32(d[28:]))
	h.Number = be.Uint64(d[32:])
	h.Generation = be.Uint32(d[40:])
	h.LeaderEpoch = int32(be.Uint32(d[44:]))
	h.BaseOffset = int64(be.Uint64(d[48:]))
	h.Created = int64(be.Uint64(d[56:]))
	if h.BaseOffset < 0 || h.Shard.Partition < 0 {
		return fmt.Errorf("segment header: %w: base offset %d, partition %d", ErrCorrupt, h.BaseOffset, h.Shard.Partition)
	}
	return nil
}

const segmentSuffix = ".msg"

// segmentName returns the name of a segment's first file.
func segmentName(number uint64) string { return segmentFileName(number, 1) }

// segmentFileName returns the name of a segment's file of a generation.
func segmentFileName(number uint64, generation uint32) string {
	if generation == 1 {
		return fmt.Sprintf("%020d%s", number, segmentSuffix)
	}
	return fmt.Sprintf("%020d-%d%s", number, generation, segmentSuffix)
}

// parseSegmentName reads number and generation from the name of a segment's file.
func parseSegmentName(name string) (number uint64, generation uint32, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, 0, false
	}
	digits, count, later := strings.Cut(digits, "-")
	if len(digits) != 20 {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if !later {
		return number, 1, true
	}
	g, err := strconv.ParseUint(count, 10, 32)
	generation = uint32(g)
	return number, generation, err == nil && generation > 1 && segmentFileName(number, generation) == name
}

// parseShardName reads a shard's identity from the name of its directory.
func parseShardName(name string) (id model.ShardID, ok bool) {
	topic, partition, ok := strings.Cut(name, "-")
	if !ok || len(topic) != 2*len(id.Topic) {
		return id, false
	}
	for i := range id.Topic {
		v, err := strconv.ParseUint(topic[2*i:2*i+2], 16, 8)
		if err != nil {
			return id, false
		}
		id.Topic[i] = byte(v)
	}
	p, err := strconv.ParseInt(partition, 10, 32)
	if err != nil || p < 0 {
		return id, false
	}
	id.Partition = int32(p)
	return id, id.String() == name
}

// readSegmentHeader reads the header of a segment file.
func readSegmentHeader(fsys diskio.FS, path string) (h segmentHeader, err error) {
	f, err := fsys.OpenReadOnly(path)
	if err != nil {
		return h, fmt.Errorf("open segment %s: %w", path, err)
	}
	defer f.Close()
	var frame [segmentHeaderSize]byte
	n, err := f.ReadAt(frame[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return h, fmt.Errorf("read segment %s: %w", path, err)
	}
	return h, h.parse(frame[:n])
}
