package recordbatch

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"millrace/engine/model"
)

// Default levels of compression.gzip.level, compression.lz4.level and compression.zstd.level.
const (
	GzipLevelDefault = -1
	LZ4LevelDefault  = 9
	ZstdLevelDefault = 3
)

// lz4LevelMax is the highest level of compression.lz4.level.
const lz4LevelMax = 17

const (
	// xerialChunkSize is the bytes of a chunk before compression, as the Java client writes it.
	xerialChunkSize = 32 << 10
	// compressorKeepMax is the largest buffer that a Compressor keeps for its next call.
	compressorKeepMax = 1 << 20
)

// Compressor encodes like AppendBatches, with batches compressed by one codec at one level. It belongs to
// one goroutine at a time and is not for event loops.
type Compressor struct {
	codec model.Codec
	plain []byte // the batch before compression
	out   appender
	gzip  *gzip.Writer
	lz4   *lz4.Writer
	zstd  *zstd.Encoder
}

// appender is a writer onto the end of a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// NewCompressor returns a compressor. level has the meaning of the topic setting compression.CODEC.level and
// none for snappy; levels that the codec's implementation here does not have are rounded to the nearest.
func NewCompressor(codec model.Codec, level int) (*Compressor, error) {
	c := &Compressor{codec: codec}
	var err error
	switch codec {
	case model.CodecNone, model.CodecSnappy:
	case model.CodecGzip:
		c.gzip, err = gzip.NewWriterLevel(&c.out, level)
	case model.CodecLZ4:
		c.lz4 = lz4.NewWriter(&c.out)
		err = c.lz4.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ConcurrencyOption(1), lz4.ChecksumOption(false),
			lz4.CompressionLevelOption(lz4Level(level)))
	case model.CodecZstd:
		c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
			zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithLowerEncoderMem(true))
	default:
		return nil, fmt.Errorf("%w: %s", ErrUnsupportedCodec, codec)
	}
	if err != nil {
		return nil, fmt.Errorf("compressor %s level %d: %w", codec, level, err)
	}
	return c, nil
}

// lz4Level maps Kafka's levels so that a higher one never compresses worse: up to the default the fast
// compressor, above it ever longer searches. Every default compresses fast, also one that was set by hand,
// since the two cannot be told apart.
func lz4Level(level int) lz4.CompressionLevel {
	switch {
	case level <= LZ4LevelDefault:
		return lz4.Fast
	case level < lz4LevelMax:
		return lz4.Level1 << (level - LZ4LevelDefault - 1)
	}
	return lz4.Level9
}

// Codec returns what the compressor compresses with.
func (c *Compressor) Codec() model.Codec { return c.codec }

// AppendBatches is the function of that name with compressed batches. A batch whose compressed form would
// not fit MaxBytes, and control and empty batches, are appended uncompressed. MaxBytes bounds each batch
// before compression, too.
func (c *Compressor) AppendBatches(dst []byte, in *Input, res *Result) ([]byte, error) {
	e := encoding{in: in, start: len(dst), compressor: c}
	if c.codec == model.CodecNone {
		e.compressor = nil
	}
	dst, err := e.run(dst, res)
	c.out.b = nil
	if cap(c.plain) > compressorKeepMax {
		c.plain = nil
	}
	return dst, err
}

// block appends the batch of one block.
func (c *Compressor) block(e *encoding, dst, records []byte, last bool, from int64) ([]byte, error) {
	used := len(dst) - e.start
	limit := e.in.MaxBytes - used
	var err error
	c.plain, err = e.encode(c.plain[:0], records, last, limit, e.in.AtLeastOne && used == 0, from)
	if err != nil || e.records == 0 {
		return dst, err
	}
	e.batch = len(dst)
	if e.in.Header.Flags&model.FlagControl == 0 {
		c.out.b = append(dst, c.plain[:HeaderSize]...)
		if err := c.compress(c.plain[HeaderSize:]); err != nil {
			return dst, err
		}
		if size := len(c.out.b) - e.batch; size <= limit || size <= len(c.plain) {
			e.seal(c.out.b, c.codec)
			return c.out.b, nil
		}
	}
	dst = append(dst, c.plain...)
	e.seal(dst, model.CodecNone)
	return dst, nil
}

// compress appends the compressed records to c.out.
func (c *Compressor) compress(records []byte) error {
	switch c.codec {
	case model.CodecGzip:
		c.gzip.Reset(&c.out)
		return writeAll(c.gzip, records)
	case model.CodecLZ4:
		c.lz4.Reset(&c.out)
		return writeAll(c.lz4, records)
	case model.CodecZstd:
		c.out.b = c.zstd.EncodeAll(records, c.out.b)
	case model.CodecSnappy:
		c.out.b = appendXerial(c.out.b, records)
	}
	return nil
}

func writeAll(w io.WriteCloser, b []byte) error {
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.Close()
}

// appendXerial appends records in snappy-java's framing, version and least compatible version 1.
func appendXerial(dst, records []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	for len(records) > 0 {
		chunk := records[:min(len(records), xerialChunkSize)]
		records = records[len(chunk):]
		at := len(dst) + 4
		dst = reserve(dst, 4+snappy.MaxEncodedLen(len(chunk)))
		block := snappy.Encode(dst[at:], chunk)
		binary.BigEndian.PutUint32(dst[at-4:], uint32(len(block)))
		dst = dst[:at+len(block)]
	}
	return dst
}
