package brokertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compress encodes plain with codec; an unknown codec leaves it as it is.
func Compress(codec int16, plain []byte) []byte {
	switch codec {
	case Gzip:
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		w.Write(plain)
		w.Close()
		return buf.Bytes()
	case Snappy:
		return snappy.Encode(nil, plain)
	case LZ4:
		return CompressLZ4(plain)
	case Zstd:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err)
		}
		defer w.Close()
		return w.EncodeAll(plain, nil)
	}
	return plain
}

// CompressLZ4 makes an lz4 frame with the given options.
func CompressLZ4(plain []byte, options ...lz4.Option) []byte {
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	if err := w.Apply(options...); err != nil {
		panic(err)
	}
	w.Write(plain)
	w.Close()
	return buf.Bytes()
}

// CompressZstdStream makes a zstd frame without the content size.
func CompressZstdStream(plain []byte) []byte {
	var buf bytes.Buffer
	w, err := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(false))
	if err != nil {
		panic(err)
	}
	for len(plain) > 0 { // more than one write and a flush, so that the size is not known at the start
		n := min(len(plain), max(1, len(plain)/2))
		w.Write(plain[:n])
		w.Flush()
		plain = plain[n:]
	}
	w.Close()
	return buf.Bytes()
}

// SnappyJava frames chunks as snappy-java's output stream does: magic, version and compatible version as
// big-endian words, then length-prefixed raw blocks.
func SnappyJava(version, compatible uint32, chunks ...[]byte) []byte {
	out := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}
	out = binary.BigEndian.AppendUint32(out, version)
	out = binary.BigEndian.AppendUint32(out, compatible)
	for _, chunk := range chunks {
		block := snappy.Encode(nil, chunk)
		out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
		out = append(out, block...)
	}
	return out
}

// Decompress reverses Compress and reads both snappy forms.
func Decompress(codec int16, payload []byte) ([]byte, error) {
	switch codec {
	case None:
		return payload, nil
	case Gzip:
		return decompressGzip(payload)
	case Snappy:
		return decompressSnappy(payload)
	case LZ4:
		return io.ReadAll(lz4.NewReader(bytes.NewReader(payload)))
	case Zstd:
		r, err := zstd.NewReader(bytes.NewReader(payload), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	return nil, fmt.Errorf("codec %d", codec)
}

// decompressGzip reads member after member and leaves what follows the last one, as every reader of batches does.
func decompressGzip(payload []byte) ([]byte, error) {
	src := bytes.NewReader(payload)
	r, err := gzip.NewReader(src)
	if err != nil {
		return nil, err
	}
	var plain []byte
	for {
		r.Multistream(false)
		member, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		plain = append(plain, member...)
		if r.Reset(src) != nil {
			return plain, nil
		}
	}
}

func decompressSnappy(payload []byte) ([]byte, error) {
	if !bytes.HasPrefix(payload, []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}) {
		return snappy.Decode(nil, payload)
	}
	var plain []byte
	for rest := payload[16:]; len(rest) > 0; {
		if len(rest) < 4 || int(binary.BigEndian.Uint32(rest)) > len(rest)-4 {
			return nil, fmt.Errorf("snappy-java chunk ends early")
		}
		n := int(binary.BigEndian.Uint32(rest))
		chunk, err := snappy.Decode(nil, rest[4:4+n])
		if err != nil {
			return nil, err
		}
		plain = append(plain, chunk...)
		rest = rest[4+n:]
	}
	return plain, nil
}
