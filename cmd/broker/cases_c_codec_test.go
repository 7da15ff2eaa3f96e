package broker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"testing"

	"github.com/pierrec/lz4/v4"

	"millrace/cmd/broker/brokertest"
)

// oldMessage encodes a magic 0 or 1 message; its CRC is the IEEE one.
func oldMessage(magic, attributes byte, offset int64, value []byte) []byte {
	body := []byte{magic, attributes}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, 1000)
	}
	body = binary.BigEndian.AppendUint32(body, math.MaxUint32) // null key
	body = binary.BigEndian.AppendUint32(body, uint32(len(value)))
	body = append(body, value...)
	out := binary.BigEndian.AppendUint64(nil, uint64(offset))
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	return append(out, body...)
}

func TestC12OldMessageFormats(t *testing.T) {
	b, c := start(t)
	for version := range int16(3) {
		for magic := range byte(2) {
			topic := b.NewTopic(t, 1, nil)
			var plain, inner []byte
			for i := range int64(5) {
				plain = append(plain, oldMessage(magic, 0, i, []byte("value"))...)
				inner = append(inner, oldMessage(magic, 0, 0, []byte("value"))...)
			}
			wrapped := oldMessage(magic, 1, 0, brokertest.Compress(brokertest.Gzip, inner))
			for _, records := range [][]byte{plain, wrapped} {
				c := brokertest.Dial(t, b.Addr)
				req := brokertest.ProduceRequest(version, -1, topic, brokertest.Part{Records: records})
				_, err := c.TryReceive(req, c.Send(req, version), brokertest.Patience)
				if err != nil && err != brokertest.ErrClosed {
					t.Errorf("v%d magic %d: %v", version, magic, err)
				}
			}
			wantOneOf(t, fmt.Sprintf("v%d magic %d: log end", version, magic), c.LogEnd(topic, 0), 0, 10)
			_, err := oldRead(c, topic)
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// oldRead demands that what was stored, if anything, is served as v2 batches.
func oldRead(c *brokertest.Conn, topic brokertest.Topic) ([]*brokertest.Batch, error) {
	return brokertest.DecodeBatches(c.Fetch(topic, 0, 0).RecordBatches)
}

// codecBatch is three records of 40 KiB each, which make several chunks and blocks in every codec.
func codecBatch(codec int16) *brokertest.Batch {
	var values []string
	for i := range 3 {
		var value []byte
		for j := range 10_000 {
			value = binary.BigEndian.AppendUint32(value, uint32(i*j*2654435761))
		}
		values = append(values, string(value))
	}
	return batchOf(values...).Compressed(codec)
}

func TestC14UncommonFraming(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	f := func(what string, codec int16, encode func(plain []byte) []byte) {
		t.Helper()
		batch := codecBatch(codec)
		batch.Payload = encode(batch.EncodeRecords())
		roundTrip(t, c, topic, what, batch)
	}
	inTwo := func(codec int16) func([]byte) []byte {
		return func(plain []byte) []byte {
			half := len(plain) / 2
			return append(brokertest.Compress(codec, plain[:half]), brokertest.Compress(codec, plain[half:])...)
		}
	}
	withLZ4 := func(options ...lz4.Option) func([]byte) []byte {
		return func(plain []byte) []byte { return brokertest.CompressLZ4(plain, options...) }
	}
	f("zstd without content size", brokertest.Zstd, brokertest.CompressZstdStream)
	f("zstd, two frames", brokertest.Zstd, inTwo(brokertest.Zstd))
	f("gzip, two members", brokertest.Gzip, inTwo(brokertest.Gzip))
	f("gzip, junk after the member", brokertest.Gzip, func(plain []byte) []byte {
		return append(brokertest.Compress(brokertest.Gzip, plain), "junk"...)
	})
	f("lz4 with content checksum", brokertest.LZ4, withLZ4(lz4.ChecksumOption(true)))
	f("lz4 without content checksum", brokertest.LZ4, withLZ4(lz4.ChecksumOption(false)))
	f("lz4 with block checksums", brokertest.LZ4, withLZ4(lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block64Kb)))
	f("lz4 with content size", brokertest.LZ4, func(plain []byte) []byte {
		return brokertest.CompressLZ4(plain, lz4.SizeOption(uint64(len(plain))))
	})
	f("snappy of Java in 32 KiB chunks", brokertest.Snappy, func(plain []byte) []byte {
		return brokertest.SnappyJava(1, 1, slices.Collect(slices.Chunk(plain, 32<<10))...)
	})
	f("snappy of Java with an empty chunk", brokertest.Snappy, func(plain []byte) []byte {
		return brokertest.SnappyJava(1, 1, plain[:100], nil, plain[100:])
	})
	f("snappy of Java, version 0", brokertest.Snappy, func(plain []byte) []byte { return brokertest.SnappyJava(0, 0, plain) })
	t.Run("linked blocks", func(t *testing.T) {
		value := codecBatch(brokertest.LZ4).Records[1].Value[:1000]
		batch := batchOf(string(value), string(value)).Compressed(brokertest.LZ4)
		batch.Payload = linkedLZ4(batch.EncodeRecords(), value)
		if plain, err := brokertest.Decompress(brokertest.LZ4, batch.Payload); err != nil || !bytes.Equal(plain, batch.EncodeRecords()) {
			t.Fatalf("the test's own frame does not decode: %v", err)
		}
		b.SkipOnKafka(t, "it refuses lz4 frames of linked blocks")
		roundTrip(t, c, topic, "lz4 linked blocks", batch)
	})
}

// linkedLZ4 frames two linked blocks, the second of which refers back into the first; the writer of the lz4 package
// makes independent blocks only. repeated stands in plain once in each half.
func linkedLZ4(plain, repeated []byte) []byte {
	first, second := bytes.Index(plain, repeated), bytes.LastIndex(plain, repeated)
	header := []byte{0x04, 0x22, 0x4d, 0x18, 0x40, 0x40} // version 1, linked blocks; blocks of 64 KiB
	out := append(header, headerChecksum(header[4:6]))
	split := first + len(repeated)
	out = binary.LittleEndian.AppendUint32(out, uint32(split)|1<<31) // stored
	out = append(out, plain[:split]...)

	matched := len(repeated) - 20 // a block ends with literals
	block := lz4Sequence(plain[split:second], second-first, matched)
	tail := plain[second+matched:]
	block = append(block, lz4Sequence(tail, 0, 0)...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(block)))
	return append(append(out, block...), 0, 0, 0, 0)
}

// lz4Sequence is literals and then a match; without a match it is the last of a block.
func lz4Sequence(literals []byte, back, match int) []byte {
	length := func(n int) (nibble byte, more []byte) {
		if n < 15 {
			return byte(n), nil
		}
		for n -= 15; n >= 255; n -= 255 {
			more = append(more, 255)
		}
		return 15, append(more, byte(n))
	}
	high, more := length(len(literals))
	out := append([]byte{high << 4}, more...)
	out = append(out, literals...)
	if match > 0 {
		low, more := length(match - 4)
		out[0] |= low
		out = binary.LittleEndian.AppendUint16(out, uint16(back))
		out = append(out, more...)
	}
	return out
}

// headerChecksum is the second byte of xxHash32 of an lz4 frame's descriptor (two bytes, seed 0).
func headerChecksum(descriptor []byte) byte {
	const prime1, prime3, prime5 = 2654435761, 3266489917, 374761393
	prime2 := uint32(2246822519)
	h := uint32(prime5) + uint32(len(descriptor))
	for _, b := range descriptor {
		h += uint32(b) * prime5
		h = (h<<11 | h>>21) * prime1
	}
	h = (h ^ h>>15) * prime2
	h = (h ^ h>>13) * prime3
	h ^= h >> 16
	return byte(h >> 8)
}

func TestC14DamagedFraming(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	f := func(what string, codec int16, spoil func(good []byte) []byte) {
		t.Helper()
		batch := codecBatch(codec)
		batch.Payload = spoil(brokertest.Compress(codec, batch.EncodeRecords()))
		if brokertest.Outside() != "" { // it answers -1 where 2 or 87 is right
			anError(t, c, topic, what, batch.Encode())
		} else {
			refused(t, c, topic, what, batch.Encode(), errCorruptMessage, errInvalidRecord)
		}
	}
	flip := func(at int) func([]byte) []byte {
		return func(good []byte) []byte {
			bad := bytes.Clone(good)
			bad[(len(bad)+at)%len(bad)] ^= 0x55
			return bad
		}
	}
	garbage := func([]byte) []byte { return []byte("this is not compressed at all, whatever the attributes say") }
	for codec := brokertest.Gzip; codec <= brokertest.Zstd; codec++ {
		f(fmt.Sprintf("codec %d: garbage", codec), codec, garbage)
		f(fmt.Sprintf("codec %d: truncated", codec), codec, func(good []byte) []byte { return good[:len(good)/2] })
		f(fmt.Sprintf("codec %d: empty", codec), codec, func([]byte) []byte { return []byte{} })
	}
	f("gzip crc", brokertest.Gzip, flip(-6))
	f("lz4 header checksum", brokertest.LZ4, flip(6))
	f("lz4 block checksum", brokertest.LZ4, func([]byte) []byte {
		batch := codecBatch(brokertest.LZ4)
		framed := brokertest.CompressLZ4(batch.EncodeRecords(), lz4.BlockChecksumOption(true), lz4.ChecksumOption(false))
		framed[len(framed)-6] ^= 1 // the last block's checksum stands before the four zero bytes of the end mark
		return framed
	})
	t.Run("content checksum", func(t *testing.T) {
		b.SkipOnKafka(t, "it stores a frame whose lz4 content checksum is wrong")
		f("lz4 content checksum", brokertest.LZ4, flip(-2))
	})
}

func TestC14DecompressionBomb(t *testing.T) {
	b, c := start(t)
	b.SkipOnKafka(t, "a batch may decode to any size there")
	topic := b.NewTopic(t, 1, nil)
	c.Alive()
	before := residentBytes(t, b)
	bomb := batchOf("")
	bomb.Plain = make([]byte, 512<<20)
	for _, codec := range []int16{brokertest.Gzip, brokertest.Zstd} {
		bomb.Compressed(codec)
		refused(t, c, topic, fmt.Sprintf("codec %d: half a gigabyte of zeros", codec), bomb.Encode(), errMessageTooLarge, errInvalidRecord, errCorruptMessage)
	}
	if grown := residentBytes(t, b) - before; grown > (64+64+32)<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

func TestC15CodecsTheVersionDoesNotKnow(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 2, nil)
	zstd := batchOf("v").Compressed(brokertest.Zstd).Encode()
	for version := int16(3); version <= 7; version++ {
		rp := c.ProduceParts(version, -1, topic, brokertest.Part{Records: zstd})[0]
		if version < 7 {
			want(t, fmt.Sprintf("zstd in v%d", version), rp.ErrorCode, errUnsupportedCompression)
		} else {
			want(t, "zstd in v7", rp.ErrorCode, errNone)
		}
	}
	want(t, "log end", c.LogEnd(topic, 0), 1)
	for codec := int16(5); codec <= 7; codec++ {
		unknown := batchOf("v").Compressed(codec).Encode()
		for _, version := range []int16{7, 9, 13} {
			parts := c.ProduceParts(version, -1, topic, brokertest.Part{Records: unknown}, brokertest.Part{Partition: 1, Records: batchOf("v").Encode()})
			if parts[0].ErrorCode == errNone {
				t.Errorf("codec %d in v%d is accepted", codec, version)
			}
			want(t, "the good partition", parts[1].ErrorCode, errNone)
		}
	}
	want(t, "log end", c.LogEnd(topic, 0), 1)
}

func TestC25OffsetDeltasInCompressedBatches(t *testing.T) {
	b, c := start(t)
	for _, codec := range []int16{brokertest.Gzip, brokertest.None} {
		for _, deltas := range [][]int32{{0, 0, 0}, {0, 5, 2}, {2, 1, 0}, {1, 2, 3}} {
			if codec == brokertest.None && brokertest.Outside() != "" {
				continue // stored as sent there
			}
			topic := b.NewTopic(t, 1, nil)
			batch := batchOf("a", "b", "c").Compressed(codec)
			for i, d := range deltas {
				batch.Records[i].OffsetDelta = d
			}
			rp := c.Produce(topic, 0, batch.Encode())
			if rp.ErrorCode != errNone {
				if brokertest.Outside() == "" {
					want(t, fmt.Sprint("deltas ", deltas), rp.ErrorCode, errInvalidRecord)
				}
				want(t, "log end", c.LogEnd(topic, 0), 0)
				continue
			}
			sameRecords(t, fmt.Sprint("deltas ", deltas), c.Records(topic, 0, 0), batch.Records, 0)
		}
	}
}

func TestC26RecordsDisagreeWithTheirCount(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	f := func(what string, spoil func(batch *brokertest.Batch)) {
		t.Helper()
		for _, codec := range []int16{brokertest.None, brokertest.Gzip} {
			batch := batchOf("aaaa", "bbbb", "cccc").Compressed(codec)
			spoil(batch)
			refused(t, c, topic, fmt.Sprintf("%s, codec %d", what, codec), batch.Encode(), errInvalidRecord)
		}
	}
	counted := func(count int32) func(*brokertest.Batch) {
		return func(batch *brokertest.Batch) { batch.Count, batch.LastOffsetDelta = count, count-1 }
	}
	f("count 2 of 3", counted(2))
	f("count 4 of 3", counted(4))
	f("junk after the last record", func(batch *brokertest.Batch) { batch.Plain = append(batch.EncodeRecords(), "junk"...) })
	t.Run("record length", func(t *testing.T) {
		b.SkipOnKafka(t, "it takes a wrong record length inside a compressed batch")
		f("last record's length too small", func(batch *brokertest.Batch) { batch.Plain = batch.EncodeRecords(); spoilLastLength(batch, -1) })
		f("last record's length too large", func(batch *brokertest.Batch) { batch.Plain = batch.EncodeRecords(); spoilLastLength(batch, 1) })
		f("first record's length too small", func(batch *brokertest.Batch) { batch.Plain = batch.EncodeRecords(); batch.Plain[0] -= 2 })
		f("first record's length too large", func(batch *brokertest.Batch) { batch.Plain = batch.EncodeRecords(); batch.Plain[0] += 2 })
	})
}

// spoilLastLength changes the length varint of the last of three equally long records by delta (zigzag: twice).
func spoilLastLength(batch *brokertest.Batch, delta int) {
	batch.Plain[len(batch.Plain)/3*2] += byte(2 * delta)
}

func TestC27BadVarints(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	f := func(what string, plain []byte, codes ...int16) {
		t.Helper()
		for _, codec := range []int16{brokertest.None, brokertest.Gzip} {
			batch := batchOf("v").Compressed(codec)
			batch.Plain = plain
			what := fmt.Sprintf("%s, codec %d", what, codec)
			if len(codes) == 0 {
				anError(t, c, topic, what, batch.Encode())
			} else {
				refused(t, c, topic, what, batch.Encode(), codes...)
			}
		}
	}
	f("record length -1", varints(-1), errInvalidRecord)
	f("record length 0", varints(0), errInvalidRecord)
	f("header count -1", recordOf(varints(0, 0, -1, -1, -1)), errInvalidRecord)
	f("header count 2^31-1", recordOf(varints(0, 0, -1, -1, math.MaxInt32)), errInvalidRecord)
	f("header key null", recordOf(varints(0, 0, -1, -1, 1, -1, -1)), errInvalidRecord)
	f("key longer than the record", recordOf(varints(0, 0, math.MaxInt32, -1, 0)), errInvalidRecord)
	f("key varint of ten bytes", recordOf(append(varints(0, 0), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)), errInvalidRecord)
	f("record length of ten bytes", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f("no bytes at all", []byte{}, errInvalidRecord)
	t.Run("length -2", func(t *testing.T) {
		b.SkipOnKafka(t, "it takes every negative length as null")
		f("key length -2", recordOf(varints(0, 0, -2, -1, 0)), errInvalidRecord)
		f("value length -2", recordOf(varints(0, 0, -1, -2, 0)), errInvalidRecord)
		header := append(varints(0, 0, -1, -1, 1, 1), 'h')
		f("header value length -2", recordOf(append(header, varints(-2)...)), errInvalidRecord)
	})
}
