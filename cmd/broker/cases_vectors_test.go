package broker_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// vectors lists files of recorded traffic that may lie beside the source tree; the test skips without them.
func vectors(t *testing.T, pattern string) []string {
	t.Helper()
	root, err := brokertest.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "..", "shared", "cases", "vectors", pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no recorded traffic beside the source tree")
	}
	return files
}

// TestVectorsFetchReplies reads the message sets of recorded fetch replies: v2 batches round-trip, older messages
// are refused with 87 inside a Produce that may carry v2 only.
func TestVectorsFetchReplies(t *testing.T) {
	b, c := start(t)
	for _, file := range vectors(t, "kafka-go/*.hex") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = 10
		if err := resp.ReadFrom(raw[8:]); err != nil { // length and correlation id first
			t.Fatalf("%s: %v", name, err)
		}
		topic := b.NewTopic(t, 1, map[string]string{"retention.ms": "-1"})
		seen := 0
		for rest := resp.Topics[0].Partitions[0].RecordBatches; len(rest) >= 17; seen++ {
			size := 12 + int(binary.BigEndian.Uint32(rest[8:]))
			if size > len(rest) {
				break
			}
			entry := bytes.Clone(rest[:size])
			rest = rest[size:]
			clear(entry[:8]) // the base offset is the broker's; its bytes are outside the CRC
			what := fmt.Sprintf("%s entry %d", name, seen)
			if magic := entry[16]; magic < 2 {
				refused(t, c, topic, what, entry, errInvalidRecord)
				continue
			}
			batches := decoded(t, what, entry)
			from := c.LogEnd(topic, 0)
			rp := c.Produce(topic, 0, entry)
			want(t, what, rp.ErrorCode, errNone)
			sameRecords(t, what, c.Records(topic, 0, from), batches[0].Records, from)
		}
		if seen == 0 {
			t.Errorf("%s: no entry", name)
		}
	}
}

// TestVectorsRequests sends recorded requests as they are: each is answered in its version, or the connection
// closed where the version is not offered; recorded batches round-trip.
func TestVectorsRequests(t *testing.T) {
	b, c := start(t)
	versions := c.Versions()
	for _, file := range vectors(t, "deepflow/*.pcap") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		frames := requestFrames(raw)
		if len(frames) == 0 {
			t.Errorf("%s: no request", filepath.Base(file))
		}
		for i, frame := range frames {
			key, version := int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
			what := fmt.Sprintf("%s frame %d (key %d v%d)", filepath.Base(file), i, key, version)
			req := kmsg.RequestForKey(key)
			if req == nil {
				continue
			}
			req.SetVersion(version)
			if produce, ok := req.(*kmsg.ProduceRequest); ok && version >= 3 {
				recordedBatches(t, b, c, what, produce, frame)
			}
			one := brokertest.Dial(t, b.Addr)
			one.SendFrame(frame)
			span, offered := versions[key]
			if !offered || version < span[0] || version > span[1] || key == 0 && version < 3 {
				if key != 18 {
					one.MustClose()
				}
				continue
			}
			if brokertest.Outside() != "" && key >= 8 && key <= 14 {
				continue // groups may wait there
			}
			if _, err := one.TryReceive(req, int32(binary.BigEndian.Uint32(frame[8:])), brokertest.Patience); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// recordedBatches produces the batches of a recorded Produce to a topic of this test.
func recordedBatches(t *testing.T, b *brokertest.Broker, c *brokertest.Conn, what string, produce *kmsg.ProduceRequest, frame []byte) {
	t.Helper()
	body := 14 + int(int16(binary.BigEndian.Uint16(frame[12:])))
	if produce.IsFlexible() {
		body++ // no header tags in the recordings
	}
	if err := produce.ReadFrom(frame[body:]); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	topic := b.NewTopic(t, 1, map[string]string{"retention.ms": "-1"})
	for _, rt := range produce.Topics {
		for _, rp := range rt.Partitions {
			batches := decoded(t, what, rp.Records)
			from := c.LogEnd(topic, 0)
			want(t, what, c.Produce(topic, 0, rp.Records).ErrorCode, errNone)
			sameRecords(t, what, c.Records(topic, 0, from), batches[0].Records, from)
		}
	}
}

// requestFrames returns the whole frames sent to the brokers' ports in a little-endian pcap of Ethernet, IPv4 and TCP,
// joined over segments.
func requestFrames(pcap []byte) [][]byte {
	streams := map[uint16][]byte{}
	var order []uint16
	for rest := pcap[24:]; len(rest) >= 16; {
		size := int(binary.LittleEndian.Uint32(rest[8:]))
		packet := rest[16 : 16+size]
		rest = rest[16+size:]
		ip := packet[14:]
		tcp := ip[4*(ip[0]&15):]
		if to := binary.BigEndian.Uint16(tcp[2:]); to != 9092 && to != 36333 {
			continue
		}
		payload := tcp[4*(tcp[12]>>4) : int(binary.BigEndian.Uint16(ip[2:]))-4*int(ip[0]&15)]
		port := binary.BigEndian.Uint16(tcp)
		if _, ok := streams[port]; !ok {
			order = append(order, port)
		}
		streams[port] = append(streams[port], payload...)
	}
	var frames [][]byte
	for _, port := range order {
		for stream := streams[port]; len(stream) >= 14; {
			size := 4 + int(binary.BigEndian.Uint32(stream))
			if size > len(stream) {
				break
			}
			frames = append(frames, stream[:size])
			stream = stream[size:]
		}
	}
	return frames
}
