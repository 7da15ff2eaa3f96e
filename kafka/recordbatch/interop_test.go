package recordbatch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
)

// readWithClient reads fetched batches as franz-go does.
func readWithClient(t *testing.T, wire []byte, from int64) (records []testRecord, offsets []int64) {
	t.Helper()
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.RecordBatches = wire
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: from, Topic: "t"}, &rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		t.Fatal(fp.Err)
	}
	for _, r := range fp.Records {
		rec := testRecord{timestamp: r.Timestamp.UnixMilli(), key: r.Key, value: r.Value}
		for _, h := range r.Headers {
			rec.headers = append(rec.headers, testHeader{[]byte(h.Key), h.Value})
		}
		records, offsets = append(records, rec), append(offsets, r.Offset)
	}
	return records, offsets
}

func TestClientReadsWhatIsEncoded(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	for codec := model.CodecNone; codec <= model.CodecZstd; codec++ {
		records := randomRecords(rng, 300, 3000)
		for i := range records { // the client goes through nanoseconds
			records[i].timestamp %= 1 << 42
		}
		b := newTestBatch(records)
		span := storeBatch(t, b.encode(), 1000)
		c, err := NewCompressor(codec, 1)
		if err != nil {
			t.Fatal(err)
		}
		var res Result
		wire, err := c.AppendBatches(nil, &Input{Span: span, Identity: testIdentity, From: 1017, UpTo: 1300, MaxBytes: 1 << 30}, &res)
		if err != nil {
			t.Fatal(err)
		}
		got, offsets := readWithClient(t, wire, 1017)
		sameRecords(t, records[17:], got)
		for i, offset := range offsets {
			if offset != 1017+int64(i) {
				t.Fatal("offset", offset)
			}
		}
	}
}

// TestGoldenBatches: batches as other programs wrote them, and what they hold.
func TestGoldenBatches(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.hex")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden batches", err)
	}
	for _, path := range paths {
		digits, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wire, err := hex.DecodeString(string(bytes.Join(bytes.Fields(digits), nil)))
		if err != nil {
			t.Fatal(path, err)
		}
		want, _ := readWithClient(t, wire, 0)
		if len(want) == 0 {
			t.Error(path, "holds nothing")
		}
		sameRecords(t, want, roundTrip(t, wire, 40))
	}
}

// TestCapturedFetches decodes the v2 batches of captured fetch answers and refuses the older message sets.
func TestCapturedFetches(t *testing.T) {
	paths, _ := filepath.Glob("../../../shared/cases/vectors/kafka-go/*.hex")
	if len(paths) == 0 {
		t.Skip("the captures are not here")
	}
	var v2, legacy int
	for _, path := range paths {
		digits, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := hex.DecodeString(string(bytes.Join(bytes.Fields(digits), nil)))
		if err != nil {
			t.Fatal(path, err)
		}
		response := kmsg.NewPtrFetchResponse()
		response.SetVersion(10)
		if err := response.ReadFrom(frame[8:]); err != nil {
			t.Fatal(path, err)
		}
		for rest := response.Topics[0].Partitions[0].RecordBatches; len(rest) > 0; {
			size := int(binary.BigEndian.Uint32(rest[8:])) + logOverhead
			wire := append([]byte(nil), rest[:size]...)
			want, _ := readWithClient(t, wire, 0)
			rest = rest[size:]
			clear(wire[:8])
			var b Batch
			err := b.ParseProduced(wire, 1<<20)
			if wire[16] < 2 {
				if !errors.Is(err, ErrInvalidRecord) {
					t.Error(path, err)
				}
				legacy++
				continue
			}
			sameRecords(t, want, roundTrip(t, wire, 0))
			v2++
		}
	}
	t.Log(v2, "batches,", legacy, "older messages")
}
