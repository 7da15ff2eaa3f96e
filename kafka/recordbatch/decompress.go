package recordbatch

import (
	"bytes"
	"errors"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"millrace/engine/model"
)

// decompressors are the codecs' states that are worth keeping, made when first needed.
type decompressors struct {
	source bytes.Reader
	gzip   gzip.Reader
	zstd   *zstd.Decoder
	// factor is what recent batches of a codec grew by, rounded up: it saves steps.
	factor [model.CodecZstd + 1]int
}

// decompress fills d.records from the compressed records of d.batch.
func (d *Decoder) decompress() (err error) {
	codec := d.batch.Codec()
	defer func() {
		// The codecs are other people's code on hostile bytes: a panic there costs the batch, not the broker.
		if p := recover(); p != nil {
			d.codecs = decompressors{}
			err = refuse(ErrInvalidRecord, "%s: %v", codec, p)
		}
	}()
	src := d.batch.Records
	d.scratch.max = d.limits.DecodedBytesMax
	guess := len(src) * max(d.codecs.factor[codec], 2)
	if err := d.scratch.grow(int(min(int64(max(min(guess, scratchGuessMax), scratchStepMin)), d.scratch.max))); err != nil {
		return err
	}
	switch codec {
	case model.CodecGzip:
		err = d.codecs.gunzip(src, &d.scratch)
	case model.CodecSnappy:
		err = decodeSnappy(src, &d.scratch)
	case model.CodecLZ4:
		err = decodeLZ4(src, &d.scratch)
	case model.CodecZstd:
		err = d.codecs.unzstd(src, &d.scratch)
	}
	d.codecs.source.Reset(nil)
	if err != nil {
		var known *BatchError
		if errors.As(err, &known) {
			return err
		}
		return refuse(ErrInvalidRecord, "%s: %v", codec, err)
	}
	d.records = d.scratch.data()
	if len(src) > 0 {
		d.codecs.factor[codec] = (len(d.records) + len(src) - 1) / len(src)
	}
	return nil
}

// gunzip decompresses one or more members. What follows a member and does not begin another is ignored, as
// Java does.
func (c *decompressors) gunzip(src []byte, s *scratch) error {
	c.source.Reset(src)
	err := c.gzip.Reset(&c.source)
	for ; err == nil; err = c.gzip.Reset(&c.source) {
		c.gzip.Multistream(false)
		if err := s.readAll(&c.gzip); err != nil {
			return err
		}
		if c.source.Len() == 0 {
			return nil
		}
		src = nil
	}
	if src == nil {
		return nil
	}
	return err
}

// zstdWindowMax is the largest window of a frame; it is no memory, since frames are decompressed in one
// piece, and is what the JVM's binding takes.
const zstdWindowMax = 128 << 20

// zstdBlockRoom is the memory that the decoder needs for a block of the largest size, with slack.
const zstdBlockRoom = 128<<10 + 1<<10

// zstdSteps is by how much the memory for an unsized frame grows when it ends.
const zstdSteps = 8

// unzstd decompresses one or more frames. The decoder decompresses into the memory that is there and stops
// where that ends; it is then given much more and begins again: what it did is done again, what it was given
// stays in the pool.
func (c *decompressors) unzstd(src []byte, s *scratch) error {
	if c.zstd == nil {
		var err error
		c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindowMax), zstd.WithDecoderMaxMemory(1<<31),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return err
		}
	}
	for {
		room, err := s.spare()
		if err != nil {
			return err
		}
		// Where a block ends just where the memory does, the decoder copies all to larger memory before it notices.
		// Blocks are mostly of 128 KiB: with a byte more or less that does not come about.
		limit := len(room) - 1
		if int64(len(room)) >= s.max {
			limit = min(len(room)+1, cap(s.buffer.B))
		}
		out, err := c.zstd.DecodeAll(src, s.buffer.B[:0:limit])
		if err == nil && len(out) <= len(room) {
			if len(out) > 0 && &out[0] != &room[0] {
				return errors.New("decompressed elsewhere")
			}
			s.extend(len(out))
			return nil
		}
		// The decoder has more than one error for memory that ends; it cannot be that where another block
		// would have fitted behind what came out.
		if err != nil && !errors.Is(err, zstd.ErrDecoderSizeExceeded) && limit-len(out) >= zstdBlockRoom {
			return err
		}
		if int64(len(room)) >= s.max {
			return s.tooLarge()
		}
		if err := s.stretch(zstdSteps * len(room)); err != nil {
			return err
		}
	}
}
