package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/wire"
)

// content is what every batch of a part holds. All its batches are alike, so that the value of a record
// follows from its offset, and a reader knows what it must find.
type content struct {
	values [][]byte
	batch  []byte // encoded, compressed where asked
	plain  int    // bytes of the batch before compression
}

// newContent makes batches of records of text, which compresses about as logs do.
func newContent(records, size int, codec string) (*content, error) {
	c := &content{values: make([][]byte, records)}
	sea := text(64<<10 + size)
	for i := range c.values {
		// The number first: a value in another's place shows in its first bytes.
		value := append(fmt.Appendf(nil, "%07x ", i), sea[(i*97)%(64<<10):]...)
		c.values[i] = value[:size]
	}
	compress, err := compressor(codec)
	if err != nil {
		return nil, err
	}
	c.batch, c.plain = wire.AppendBatch(nil, c.values, time.Now().UnixMilli(), compress)
	if len(c.batch) > batchBytesMax {
		return nil, fmt.Errorf("a batch of %d bytes; topics take %d at most", len(c.batch), batchBytesMax)
	}
	return c, nil
}

// text returns words in an order that is the same in each run.
func text(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 4096)
	for i := range words {
		w := make([]byte, 2+random.IntN(9))
		for j := range w {
			w[j] = byte('a' + random.IntN(26))
		}
		words[i] = string(w)
	}
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString(words[random.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.Bytes()
}

func compressor(codec string) (wire.Compress, error) {
	codecs := map[string]kgo.CompressionCodec{"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	c, ok := codecs[codec]
	if !ok {
		return nil, nil
	}
	made, err := kgo.DefaultCompressor(c)
	if err != nil {
		return nil, fmt.Errorf("codec %s: %w", codec, err)
	}
	return func(records []byte) ([]byte, int8) {
		packed, number := made.Compress(new(bytes.Buffer), records)
		return packed, int8(number)
	}, nil
}

// checker verifies batches that come back.
type checker struct {
	content *content
	unpack  kgo.Decompressor
	whole   bool // compare all bytes of a value, not only its length and first bytes
}

// prefixBytes of a value are compared where whole is not asked.
const prefixBytes = 8

// batch verifies the batch that src begins with: its checksum, that its records go on at offset next, and
// what they hold. It returns the batch's size, 0 for one that is cut off, how many records were new, and the
// bytes that the batch has uncompressed.
func (c *checker) batch(src []byte, next int64) (size int, fresh int64, plain int, err error) {
	h, body, size, err := wire.ParseBatch(src)
	if err != nil || size == 0 {
		return 0, 0, 0, err
	}
	if h.Control {
		return 0, 0, 0, fmt.Errorf("control batch at offset %d, where nobody wrote one", h.BaseOffset)
	}
	if h.Codec != 0 {
		if body, err = c.unpack.Decompress(body, kgo.CompressionCodecType(h.Codec)); err != nil {
			return 0, 0, 0, fmt.Errorf("batch at offset %d: %w", h.BaseOffset, err)
		}
	}
	records := wire.NewRecords(body)
	last := int64(-1)
	for range h.Count {
		delta, value, err := records.Next()
		if err != nil {
			return 0, 0, 0, fmt.Errorf("batch at offset %d: %w", h.BaseOffset, err)
		}
		last = delta
		offset := h.BaseOffset + delta
		if offset < next {
			continue // a batch may begin before the offset that was asked for
		}
		if offset > next {
			return 0, 0, 0, fmt.Errorf("offset %d comes where %d is due: records are missing", offset, next)
		}
		if err := c.value(offset, value); err != nil {
			return 0, 0, 0, err
		}
		next++
		fresh++
	}
	if records.Rest() != 0 || last != int64(h.LastDelta) {
		return 0, 0, 0, fmt.Errorf("batch at offset %d: %d records end at delta %d with %d bytes left, its header says delta %d", h.BaseOffset, h.Count, last, records.Rest(), h.LastDelta)
	}
	return size, fresh, wire.HeaderBytes + len(body), nil
}

func (c *checker) value(offset int64, got []byte) error {
	want := c.content.values[offset%int64(len(c.content.values))]
	same := len(got) == len(want)
	if same && c.whole {
		same = bytes.Equal(got, want)
	} else if same {
		n := min(prefixBytes, len(want))
		same = string(got[:n]) == string(want[:n])
	}
	if !same {
		return fmt.Errorf("the record at offset %d is not what was produced: %d bytes %.40q, want %d bytes %.40q", offset, len(got), got, len(want), want)
	}
	return nil
}
