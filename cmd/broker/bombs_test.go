package broker_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// A bomb is a small request that stands for a large one. Each costs its sender, and the broker at most
// bombSlack of memory beyond what was sent and what the settings allow requests to take.
const bombSlack = 16 << 20

// memoryWatch follows the anonymous memory of a broker and keeps the most it saw.
type memoryWatch struct {
	t    *testing.T
	b    *brokertest.Broker
	base int64
	peak int64
	end  chan struct{}
	done sync.WaitGroup
}

// watchMemory begins a watch; a test calls grown to end it.
func watchMemory(t *testing.T, b *brokertest.Broker) *memoryWatch {
	t.Helper()
	w := &memoryWatch{t: t, b: b, base: residentBytes(t, b), end: make(chan struct{})}
	w.done.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for b.Alive() {
			w.peak = max(w.peak, residentBytes(t, b))
			select {
			case <-w.end:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

// grown ends the watch and fails the test when memory grew by more than allowed.
func (w *memoryWatch) grown(what string, allowed int64) {
	w.t.Helper()
	close(w.end)
	w.done.Wait()
	grown := w.peak - w.base
	w.t.Logf("%s: memory grew by %.1f MiB (from %.1f), %.1f allowed", what, float64(grown)/(1<<20), float64(w.base)/(1<<20), float64(allowed)/(1<<20))
	if grown > allowed {
		w.t.Errorf("%s: memory grew by %d bytes, more than %d", what, grown, allowed)
	}
}

// answerOrClose says how a request ended: answered, closed, or neither (which fails the test).
func answerOrClose(t *testing.T, c *brokertest.Conn, what string) (reply []byte) {
	t.Helper()
	body, err := c.ReadFrame(brokertest.Patience)
	if err != nil && !errors.Is(err, brokertest.ErrClosed) {
		t.Errorf("%s: %v", what, err)
	}
	return body
}

func TestBombAnnouncedLengths(t *testing.T) {
	b := brokertest.Start(t, nil)
	bystander := brokertest.Dial(t, b.Addr)
	bystander.Alive()
	w := watchMemory(t, b)
	for i := range 100 {
		c := brokertest.Dial(t, b.Addr)
		c.SendFrame(append(binary.BigEndian.AppendUint32(nil, 100<<20), make([]byte, i%5)...))
	}
	bystander.Alive()
	w.grown("100 announced frames of 100 MiB", bombSlack)
}

// TestBombCounts overwrites every place of every request that may be a count or a length with a huge one.
func TestBombCounts(t *testing.T) {
	b := brokertest.Start(t, nil)
	bystander := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 1, nil)
	versions := bystander.Versions()
	w := watchMemory(t, b)
	frames := 0
	send := func(key, version int16, at int, frame []byte) {
		frames++
		c := brokertest.Dial(t, b.Addr)
		c.SendFrame(brokertest.Sized(frame))
		c.NetConn.(*net.TCPConn).CloseWrite() // long polls are answered at once
		answerOrClose(t, c, fmt.Sprintf("key %d v%d, byte %d", key, version, at))
		c.NetConn.Close()
	}
	for _, key := range brokertest.Keys() {
		last := versions[key][1]
		for version := versions[key][0]; version <= last; version++ {
			if version < last && version%3 != 0 {
				continue
			}
			req := brokertest.Minimal(key, version, topic)
			frame := brokertest.FrameOf(req, version, 1, nil)
			for at := 14; at < len(frame); at++ {
				if !req.IsFlexible() && at+4 <= len(frame) {
					bad := append([]byte(nil), frame...)
					binary.BigEndian.PutUint32(bad[at:], math.MaxInt32-7)
					send(key, version, at, bad)
				}
				if req.IsFlexible() {
					bad := append([]byte(nil), frame[:at]...)
					bad = append(bad, 0xf0, 0xff, 0xff, 0xff, 0x07)
					send(key, version, at, append(bad, frame[at+1:]...))
				}
			}
		}
	}
	bystander.Alive()
	w.grown(fmt.Sprint(frames, " frames with a huge count"), bombSlack)
}

// countBombs returns batches that announce more than they hold, in every codec.
func countBombs() map[string][]byte {
	bombs := map[string][]byte{}
	f := func(what string, spoil func(*brokertest.Batch)) {
		for codec := brokertest.None; codec <= brokertest.Zstd; codec++ {
			batch := batchOf("v").Compressed(codec)
			spoil(batch)
			bombs[fmt.Sprintf("%s, codec %d", what, codec)] = batch.Encode()
		}
	}
	f("record count", func(b *brokertest.Batch) { b.Count, b.LastOffsetDelta = math.MaxInt32, math.MaxInt32-1 })
	f("record length", func(b *brokertest.Batch) { b.Plain = varints(math.MaxInt32, 0, 0) })
	f("record length of 64 bits", func(b *brokertest.Batch) { b.Plain = varints(math.MaxInt64, 0, 0) })
	f("key length", func(b *brokertest.Batch) { b.Plain = recordOf(varints(0, 0, math.MaxInt32)) })
	f("value length", func(b *brokertest.Batch) { b.Plain = recordOf(varints(0, 0, -1, math.MaxInt32)) })
	f("header count", func(b *brokertest.Batch) { b.Plain = recordOf(varints(0, 0, -1, -1, math.MaxInt32)) })
	f("header key length", func(b *brokertest.Batch) { b.Plain = recordOf(varints(0, 0, -1, -1, 1, math.MaxInt32)) })
	f("header value length", func(b *brokertest.Batch) {
		b.Plain = recordOf(append(varints(0, 0, -1, -1, 1, 1), append([]byte("k"), varints(math.MaxInt32)...)...))
	})
	return bombs
}

func TestBombRecordCounts(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 1, nil)
	c.Alive()
	w := watchMemory(t, b)
	for what, raw := range countBombs() {
		rp := c.Produce(topic, 0, raw)
		wantOneOf(t, what, rp.ErrorCode, errInvalidRecord, errCorruptMessage, errMessageTooLarge)
	}
	want(t, "log end", c.LogEnd(topic, 0), 0)
	w.grown("counts inside batches", bombSlack)
}

// decodedMax is what batches may take that are being decompressed, all together.
const decodedMax = 64 << 20

// decompressionBombs returns batches of some 1:1,000 that decompress to more than that.
func decompressionBombs() map[string][]byte {
	zeros := make([]byte, decodedMax+1<<20)
	half := make([]byte, len(zeros)/2)
	bombs := map[string][]byte{}
	for codec := brokertest.Gzip; codec <= brokertest.Zstd; codec++ {
		if codec == brokertest.Snappy { // packs 1:21 only
			continue
		}
		batch := batchOf("").Compressed(codec)
		batch.Payload = brokertest.Compress(codec, zeros)
		bombs[fmt.Sprint("codec ", codec)] = batch.Encode()
		parts := batchOf("").Compressed(codec)
		parts.Payload = append(brokertest.Compress(codec, half), brokertest.Compress(codec, half)...)
		bombs[fmt.Sprint("codec ", codec, " in two frames")] = parts.Encode()
	}
	unsized := batchOf("").Compressed(brokertest.Zstd)
	unsized.Payload = brokertest.CompressZstdStream(zeros)
	bombs["zstd without its size"] = unsized.Encode()
	announced := batchOf("").Compressed(brokertest.Snappy)
	announced.Payload = binary.AppendUvarint(nil, 1<<31-1)
	bombs["snappy that announces 2 GiB"] = announced.Encode()
	nested := batchOf("").Compressed(brokertest.Zstd)
	nested.Payload = brokertest.Compress(brokertest.Zstd, brokertest.Compress(brokertest.Zstd, zeros))
	bombs["zstd in zstd"] = nested.Encode()
	return bombs
}

// TestBombDecompression sends batches that decompress to more than may be, several at once.
func TestBombDecompression(t *testing.T) {
	b := brokertest.Start(t, nil)
	bystander := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 3, nil)
	bystander.Alive()
	bombs := decompressionBombs()
	w := watchMemory(t, b)
	var all sync.WaitGroup
	for what, raw := range bombs {
		t.Logf("%s: %d bytes", what, len(raw))
		all.Go(func() {
			c := brokertest.Dial(t, b.Addr)
			for _, rp := range c.ProduceParts(9, -1, topic, brokertest.Part{Partition: 0, Records: raw},
				brokertest.Part{Partition: 1, Records: raw}, brokertest.Part{Partition: 2, Records: raw}) {
				wantOneOf(t, what, rp.ErrorCode, errMessageTooLarge, errInvalidRecord)
			}
			c.Alive()
		})
	}
	all.Wait()
	w.grown("decompression bombs", decodedMax+bombSlack)
	want(t, "log end", bystander.LogEnd(topic, 0), 0)
}

// TestBombWideRequests sends requests that are valid and name very much. They are answered or closed, and what
// they take stays within the bytes in flight.
func TestBombWideRequests(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"auto.create.topics.enable": "false"})
	bystander := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 1, nil)
	bystander.Alive()
	const inflight = 256 << 20
	f := func(what string, frame []byte) {
		t.Run(what, func(t *testing.T) {
			w := watchMemory(t, b)
			c := brokertest.Dial(t, b.Addr)
			began := time.Now()
			if err := c.TrySendFrame(frame); err != nil {
				t.Fatal(err)
			}
			reply := answerOrClose(t, c, what)
			t.Logf("%d bytes sent, %d answered in %v", len(frame), len(reply), time.Since(began))
			c.NetConn.Close()
			w.grown(what, int64(len(frame))+inflight/2+bombSlack)
			bystander.Alive()
		})
	}
	one := brokertest.Topic{Name: "a"}
	f("Metadata of 16 MiB of names", brokertest.FrameOf(metadataOf(5_000_000), 1, 1, nil))
	f("Metadata of 500,000 names", brokertest.FrameOf(metadataOf(500_000), 1, 1, nil))
	f("CreateTopics of 100,000 names", brokertest.FrameOf(createOf(100_000), 7, 1, nil))
	f("Produce to 200,000 partitions", brokertest.FrameOf(brokertest.ProduceRequest(9, -1, one, make([]brokertest.Part, 200_000)...), 9, 1, nil))
	f("Produce of 200,000 empty batches", brokertest.FrameOf(brokertest.ProduceRequest(9, -1, topic, make([]brokertest.Part, 200_000)...), 9, 1, nil))
	f("Produce to 1,000,000 partitions", brokertest.FrameOf(brokertest.ProduceRequest(9, -1, topic, make([]brokertest.Part, 1_000_000)...), 9, 1, nil))
	for _, version := range []int16{4, 12} {
		f(fmt.Sprintf("Fetch v%d of 1,000,000 partitions", version), brokertest.FrameOf(fetchOf(version, one, 1_000_000, -1), version, 1, nil))
	}
	f("Fetch of 1,000,000 partitions in a session", brokertest.FrameOf(fetchOf(12, one, 1_000_000, 0), 12, 1, nil))
	long := brokertest.Topic{Name: strings.Repeat("n", 32_000)}
	f("Fetch of a session with a long name", brokertest.FrameOf(fetchOf(12, long, 10_000, 0), 12, 1, nil))
	f("DescribeConfigs of 500,000 topics", brokertest.FrameOf(describeOf(500_000), 4, 1, nil))
	f("AlterConfigs of 1,000,000 configs", brokertest.FrameOf(alterOf(topic.Name, 1_000_000), 1, 1, nil))
}

func metadataOf(n int) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	name := kmsg.StringPtr("a")
	r.Topics = make([]kmsg.MetadataRequestTopic, n)
	for i := range r.Topics {
		r.Topics[i].Topic = name
	}
	return r
}

func createOf(n int) *kmsg.CreateTopicsRequest {
	r := brokertest.CreateTopicsRequest(true)
	for i := range n {
		r.Topics = append(r.Topics, brokertest.NewTopicSpec(fmt.Sprint("bomb-", i), 1, nil))
	}
	return r
}

func fetchOf(version int16, topic brokertest.Topic, n int, epoch int32) *kmsg.FetchRequest {
	from := make([]brokertest.FetchFrom, n)
	for i := range from {
		from[i].Partition = int32(i)
	}
	r := brokertest.FetchRequest(version, 0, topic, from...)
	r.SessionEpoch = epoch
	return r
}

func describeOf(n int) *kmsg.DescribeConfigsRequest {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.IncludeDocumentation, r.IncludeSynonyms = true, true
	for i := range n {
		rr := kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, fmt.Sprint("t", i)
		r.Resources = append(r.Resources, rr)
	}
	return r
}

func alterOf(topic string, n int) *kmsg.IncrementalAlterConfigsRequest {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	rr.Configs = make([]kmsg.IncrementalAlterConfigsRequestResourceConfig, n)
	for i := range rr.Configs {
		rr.Configs[i].Name = "retention.ms"
	}
	r.Resources = append(r.Resources, rr)
	return r
}

// TestBombManyPartitions asks for all of very many partitions from many connections at once.
func TestBombManyPartitions(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := brokertest.Dial(t, b.Addr)
	const partitions = 30_000
	b.CreateTopic(t, "many", partitions, nil)
	resp := c.Request(brokertest.CreateTopicsRequest(false, brokertest.NewTopicSpec("more", 100_001, nil)), 7).(*kmsg.CreateTopicsResponse)
	want(t, "100,001 partitions at once", resp.Topics[0].ErrorCode, errPolicyViolation)
	w := watchMemory(t, b)
	var all sync.WaitGroup
	for range 64 {
		c := brokertest.Dial(t, b.Addr)
		all.Go(func() {
			c.SendFrame(brokertest.FrameOf(kmsg.NewPtrMetadataRequest(), 9, 1, nil))
			if reply := answerOrClose(t, c, "metadata of all"); len(reply) < partitions*20 {
				t.Errorf("%d bytes tell of %d partitions", len(reply), partitions)
			}
		})
	}
	all.Wait()
	w.grown("64 times the metadata of 30,000 partitions", 9*bombSlack)
	c.Alive()
}
