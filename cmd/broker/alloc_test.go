package broker

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// allocationsMax is what one request may cost on average: nothing, but for what the goroutines of the index
// store and the clock do beside the test.
const allocationsMax = 0.05

// TestHotPathDoesNotAllocate sends the same Produce, then the same Fetch, again and again through a real
// socket, and counts the allocations of the whole process, of which the client makes none.
func TestHotPathDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b, _ := start(t, parse(t, t.TempDir(), "num.partitions", "1"))
	defer stop(t, b)
	cl := client(t, b)
	defer cl.Close()
	topic := "alloc"
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}}
	if _, err := create.RequestWith(t.Context(), cl); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", b.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	values := make([]string, 100)
	for i := range values {
		values[i] = "a value of one hundred bytes, or so: the rest of it is filled with dots ............................"
	}
	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks, produce.TimeoutMillis = 9, -1, 1000
	batch := brokertest.NewBatch(brokertest.Values(0, values...)...).Encode()
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	measure(t, "produce", c, kmsg.NewRequestFormatter().AppendRequest(nil, produce, 7))

	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes, fetch.SessionEpoch = 12, 100, 1, 1<<20, -1
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{
		{PartitionMaxBytes: 1 << 16, FetchOffset: 250, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}}}
	measure(t, "fetch", c, kmsg.NewRequestFormatter().AppendRequest(nil, fetch, 8))
}

// measure sends frame many times, waiting for each answer.
func measure(t *testing.T, what string, c net.Conn, frame []byte) {
	t.Helper()
	answer := make([]byte, 1<<20)
	exchange := func() {
		if _, err := c.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, answer[:4]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, answer[:binary.BigEndian.Uint32(answer)]); err != nil {
			t.Fatal(err)
		}
	}
	const requests = 3000
	for range requests {
		exchange()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range requests {
		exchange()
	}
	runtime.ReadMemStats(&after)
	if each := float64(after.Mallocs-before.Mallocs) / requests; each > allocationsMax {
		t.Errorf("%s: %.3f allocations a request", what, each)
	} else {
		t.Logf("%s: %.3f allocations a request", what, each)
	}
}
