package wire

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// golden encodes a batch as kmsg does.
func golden(values [][]byte, timestamp, producerID int64, epoch int16, sequence int32) []byte {
	var records []byte
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: v}
		body := r.AppendTo(nil)[1:] // without its length 0, which is one byte
		r.Length = int32(len(body))
		records = r.AppendTo(records)
	}
	b := kmsg.RecordBatch{
		Length: int32(HeaderBytes - atEpoch + len(records)), Magic: 2, LastOffsetDelta: int32(len(values) - 1),
		FirstTimestamp: timestamp, MaxTimestamp: timestamp, ProducerID: producerID, ProducerEpoch: epoch,
		FirstSequence: sequence, NumRecords: int32(len(values)), Records: records,
	}
	raw := b.AppendTo(nil)
	b.CRC = int32(crc32.Checksum(raw[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

func values(n, size int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = bytes.Repeat([]byte{byte('a' + i%26)}, size)
	}
	return all
}

func TestBatchIsTheOneOfKmsg(t *testing.T) {
	f := func(n, size int) {
		t.Helper()
		v := values(n, size)
		got, plain := AppendBatch([]byte("before"), v, 1_700_000_000_123, nil)
		got = got[len("before"):]
		if want := golden(v, 1_700_000_000_123, -1, -1, -1); !bytes.Equal(got, want) || plain != len(want) {
			t.Errorf("%d of %d bytes: differs from kmsg's batch; %d bytes counted of %d", n, size, plain, len(want))
		}
		Stamp(got, 4711, 3, 1<<30)
		if want := golden(v, 1_700_000_000_123, 4711, 3, 1<<30); !bytes.Equal(got, want) {
			t.Errorf("%d of %d bytes: differs from kmsg's batch when stamped", n, size)
		}
	}
	f(1, 0)
	f(1, 1)
	f(1, 63)
	f(1, 64)
	f(10, 1024)
	f(200, 100)
	f(1, 1<<20)
}

func TestParseBatch(t *testing.T) {
	v := values(70, 33)
	b, _ := AppendBatch(nil, v, 5, nil)
	binary.BigEndian.PutUint64(b, 900) // the broker's offset is outside of the checksum
	h, body, size, err := ParseBatch(append(b[:len(b):len(b)], 1, 2, 3))
	if err != nil || size != len(b) || h.BaseOffset != 900 || h.Count != 70 || h.LastDelta != 69 || h.Codec != 0 || h.Control {
		t.Fatalf("%+v, size %d, %v", h, size, err)
	}
	r := NewRecords(body)
	for i := range v {
		delta, value, err := r.Next()
		if err != nil || delta != int64(i) || !bytes.Equal(value, v[i]) {
			t.Fatalf("record %d: delta %d, %v", i, delta, err)
		}
	}
	if r.Rest() != 0 {
		t.Errorf("%d bytes left", r.Rest())
	}
	if _, _, err := r.Next(); err == nil {
		t.Error("a record after the last")
	}
	for cut := range len(b) {
		if _, _, size, err := ParseBatch(b[:cut]); size != 0 || err != nil {
			t.Fatalf("cut at %d: size %d, %v", cut, size, err)
		}
	}
	f := func(at int, want string) {
		t.Helper()
		broken := bytes.Clone(b)
		broken[at] ^= 0x40
		if _, _, _, err := ParseBatch(broken); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("byte %d flipped: %v, want %q", at, err, want)
		}
	}
	f(atMagic, "magic 66")
	f(atCRC, "checksum")
	f(atAttributes, "checksum")
	f(len(b)-1, "checksum")
}

// FuzzRecords holds that no bytes make the walk panic or run on.
func FuzzRecords(f *testing.F) {
	b, _ := AppendBatch(nil, values(3, 5), 5, nil)
	f.Add(b[HeaderBytes:])
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := NewRecords(raw)
		for range len(raw) + 1 {
			if _, _, err := r.Next(); err != nil {
				return
			}
		}
		t.Fatal("more records than bytes")
	})
}

func TestNextSequenceWraps(t *testing.T) {
	f := func(from int32, n int, want int32) {
		t.Helper()
		if got := NextSequence(from, n); got != want {
			t.Errorf("%d after %d: %d, want %d", n, from, got, want)
		}
	}
	f(0, 10, 10)
	f(math.MaxInt32, 1, 0)
	f(math.MaxInt32-3, 10, 6)
}

// TestProduceIsReadByKmsg holds that the request is what kmsg reads.
func TestProduceIsReadByKmsg(t *testing.T) {
	batch, _ := AppendBatch(nil, values(3, 10), 5, nil)
	p := NewProduce("topic", []int32{4, 7}, batch, -1, 1234)
	SetCorrelation(p.Frame, 99)
	Stamp(p.Batch(1), 8, 2, 6)
	body := checkHeader(t, p.Frame, 0, 7, 99)
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(7)
	if err := req.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if req.Acks != -1 || req.TimeoutMillis != 1234 || req.TransactionID != nil || len(req.Topics) != 1 || req.Topics[0].Topic != "topic" {
		t.Fatalf("%+v", req)
	}
	parts := req.Topics[0].Partitions
	if len(parts) != 2 || parts[0].Partition != 4 || parts[1].Partition != 7 || !bytes.Equal(parts[0].Records, batch) {
		t.Fatalf("%+v", parts)
	}
	if want := golden(values(3, 10), 5, 8, 2, 6); !bytes.Equal(parts[1].Records, want) {
		t.Error("the second batch is not stamped")
	}
}

func TestFetchIsReadByKmsg(t *testing.T) {
	frame := AppendFetch([]byte("x"), 5, "topic", []Position{{1, 10}, {3, 1 << 40}}, FetchLimits{WaitMs: 7, MinBytes: 8, MaxBytes: 9, MaxPartitionBytes: 11})[1:]
	body := checkHeader(t, frame, 1, 11, 5)
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(11)
	if err := req.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if req.ReplicaID != -1 || req.MaxWaitMillis != 7 || req.MinBytes != 8 || req.MaxBytes != 9 || req.SessionEpoch != -1 || len(req.Topics) != 1 {
		t.Fatalf("%+v", req)
	}
	p := req.Topics[0].Partitions
	if len(p) != 2 || p[1].Partition != 3 || p[1].FetchOffset != 1<<40 || p[1].PartitionMaxBytes != 11 || p[1].CurrentLeaderEpoch != -1 || p[1].LogStartOffset != -1 {
		t.Fatalf("%+v", p)
	}
}

func checkHeader(t *testing.T, frame []byte, key, version int16, correlation int32) []byte {
	t.Helper()
	r := kbin.Reader{Src: frame}
	if size, k, v, c := r.Int32(), r.Int16(), r.Int16(), r.Int32(); int(size) != len(frame)-4 || k != key || v != version || c != correlation || r.String() != clientID {
		t.Fatalf("header: %d of %d bytes, key %d, version %d, correlation %d", size, len(frame), k, v, c)
	}
	return r.Src
}

func TestAnswers(t *testing.T) {
	produce := kmsg.NewPtrProduceResponse()
	produce.SetVersion(7)
	part := kmsg.ProduceResponseTopicPartition{Partition: 3, ErrorCode: 6, BaseOffset: 77}
	produce.Topics = []kmsg.ProduceResponseTopic{{Topic: "a", Partitions: []kmsg.ProduceResponseTopicPartition{part, part}}}
	frame := produce.AppendTo([]byte{0, 0, 0, 9})
	acks, err := ParseProduce(nil, frame)
	if err != nil || len(acks) != 2 || acks[1] != (Ack{3, 6, 77}) {
		t.Fatalf("%v, %v", acks, err)
	}
	for cut := range len(frame) {
		if _, err := ParseProduce(nil, frame[:cut]); err == nil {
			t.Fatalf("cut at %d is taken", cut)
		}
	}

	fetch := kmsg.NewPtrFetchResponse()
	fetch.SetVersion(11)
	fetch.ErrorCode = 2
	got := kmsg.FetchResponseTopicPartition{Partition: 4, ErrorCode: 1, HighWatermark: 8, RecordBatches: []byte("records"), AbortedTransactions: []kmsg.FetchResponseTopicPartitionAbortedTransaction{{}, {}}}
	fetch.Topics = []kmsg.FetchResponseTopic{{Topic: "a", Partitions: []kmsg.FetchResponseTopicPartition{got}}}
	frame = fetch.AppendTo([]byte{0, 0, 0, 9})
	parts, code, err := ParseFetch(nil, frame)
	if err != nil || code != 2 || len(parts) != 1 || parts[0].Partition != 4 || parts[0].Code != 1 || parts[0].HighWatermark != 8 || string(parts[0].Records) != "records" {
		t.Fatalf("%v, code %d, %v", parts, code, err)
	}
	for cut := range len(frame) {
		if _, _, err := ParseFetch(nil, frame[:cut]); err == nil {
			t.Fatalf("cut at %d is taken", cut)
		}
	}
}

// FuzzAnswers holds that no answer makes the parsers panic or take more than it has.
func FuzzAnswers(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0}, 64))
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Add([]byte{0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		acks, _ := ParseProduce(nil, raw)
		parts, _, _ := ParseFetch(nil, raw)
		if len(acks)*30 > len(raw)+30 || len(parts)*30 > len(raw)+30 {
			t.Fatalf("%d acks and %d parts of %d bytes", len(acks), len(parts), len(raw))
		}
		for len(raw) > 0 {
			_, _, size, err := ParseBatch(raw)
			if err != nil || size == 0 {
				return
			}
			raw = raw[size:]
		}
	})
}
