package broker

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

const (
	wireCorruptMessage = 2
	wireStorageError   = 56
)

// fetchCode asks for the records of partition 0 from offset 0 and returns the error code.
func fetchCode(t *testing.T, b *Broker, topic string) int16 {
	t.Helper()
	c := client(t, b)
	defer c.Close()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, 100, 1, 1<<20, -1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, TopicID: topicID(t, b, topic), Partitions: []kmsg.FetchRequestTopicPartition{
		{PartitionMaxBytes: 1 << 16, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}}}
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

func topicID(t *testing.T, b *Broker, topic string) [16]byte {
	t.Helper()
	return b.machine.Image().TopicByName([]byte(topic)).ID
}

func segmentsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*-0", "*.msg"))
	if err != nil || len(files) == 0 {
		t.Fatal("no segments", err)
	}
	return files
}

// metric returns the line of a metric.
func metric(t *testing.T, b *Broker, name string) string {
	t.Helper()
	for line := range strings.Lines(get(t, b, "/metrics", http.StatusOK)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Errorf("no metric %s", name)
	return ""
}

func get(t *testing.T, b *Broker, path string, status int) string {
	t.Helper()
	resp, err := http.Get("http://" + b.AdminAddress() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Errorf("%s: status %d, %v: %s", path, resp.StatusCode, err, body)
	}
	return string(body)
}

// A flipped byte was answered with CORRUPT_MESSAGE, and neither log nor metrics said a word of it.
func TestReadOfDamageIsLoggedAndCounted(t *testing.T) {
	dir := t.TempDir()
	b, _ := start(t, parse(t, dir))
	produce(t, b, "spoiled", 0, 100)
	stop(t, b)
	path := segmentsOf(t, dir)[0]
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	b, log := start(t, parse(t, dir))
	defer stop(t, b)
	if got := metric(t, b, "millrace_kafka_corrupt_reads_total"); got != "0" {
		t.Errorf("%s corrupt reads at the start", got)
	}
	const reads = 5
	began := time.Now()
	for range reads {
		if code := fetchCode(t, b, "spoiled"); code != wireCorruptMessage {
			t.Fatalf("code %d, want %d", code, wireCorruptMessage)
		}
	}
	most := 1 + int(time.Since(began)/time.Second)
	lines := linesWith(log, "stored records cannot be read")
	if len(lines) < 1 || len(lines) > most {
		t.Fatalf("%d lines for %d reads, want 1 to %d:\n%s", len(lines), reads, most, log)
	}
	for _, part := range []string{"level=ERROR", "topic=spoiled", "partition=0", "segment=" + path, "position=", "suppressed=0"} {
		if !strings.Contains(lines[0], part) {
			t.Errorf("no %q in %s", part, lines[0])
		}
	}
	if got := metric(t, b, "millrace_kafka_corrupt_reads_total"); got != "5" {
		t.Errorf("%s corrupt reads counted, want %d", got, reads)
	}
}

func linesWith(log *logBuffer, text string) (found []string) {
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// A quarantined shard showed offsets 0/0/0 and its log line named no topic.
func TestQuarantinedShardDoesNotLookEmpty(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(segment string) error
	}{
		{"segment gone", os.Remove},
		{"segment and shard file gone", func(segment string) error {
			if err := os.Remove(segment); err != nil {
				return err
			}
			return os.Remove(filepath.Join(filepath.Dir(segment), "shard.json"))
		}},
		{"directory gone", func(segment string) error { return os.RemoveAll(filepath.Dir(segment)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b, _ := start(t, parse(t, dir))
			produce(t, b, "gone", 0, 100)
			stop(t, b)
			if err := c.harm(segmentsOf(t, dir)[0]); err != nil {
				t.Fatal(err)
			}
			b, log := start(t, parse(t, dir))
			defer stop(t, b)
			get(t, b, "/readyz", http.StatusOK)
			if got := metric(t, b, "millrace_engine_quarantined_shards"); got != "1" {
				t.Errorf("%s shards counted as quarantined", got)
			}
			if lines := linesWith(log, "quarantined"); len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "topic=gone") {
				t.Errorf("the topic is not named:\n%s", log)
			}
			for what, code := range quarantineCodes(t, b, "gone") {
				if code != wireStorageError {
					t.Errorf("%s: code %d, want %d", what, code, wireStorageError)
				}
			}
		})
	}
}

// quarantineCodes returns what each request for partition 0 of a topic is answered.
func quarantineCodes(t *testing.T, b *Broker, topic string) map[string]int16 {
	t.Helper()
	c := client(t, b)
	defer c.Close()
	codes := map[string]int16{"Fetch": fetchCode(t, b, topic)}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1, CurrentLeaderEpoch: -1}}}}
	listed, err := list.RequestWith(t.Context(), c)
	check(err)
	codes["ListOffsets"] = listed.Topics[0].Partitions[0].ErrorCode
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	described, err := producers.RequestWith(t.Context(), c)
	check(err)
	codes["DescribeProducers"] = described.Topics[0].Partitions[0].ErrorCode
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.ReplicaID = -1
	epochs.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
	ends, err := epochs.RequestWith(t.Context(), c)
	check(err)
	codes["OffsetForLeaderEpoch"] = ends.Topics[0].Partitions[0].ErrorCode
	records := kmsg.NewPtrDeleteRecordsRequest()
	records.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}
	deleted, err := records.RequestWith(t.Context(), c)
	check(err)
	codes["DeleteRecords"] = deleted.Topics[0].Partitions[0].ErrorCode
	send := kmsg.NewPtrProduceRequest()
	send.Version, send.Acks, send.TimeoutMillis = 9, -1, 1000
	batch := brokertest.NewBatch(brokertest.Values(0, "a value")...).Encode()
	send.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, TopicID: topicID(t, b, topic), Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	sent, err := send.RequestWith(t.Context(), c)
	check(err)
	codes["Produce"] = sent.Topics[0].Partitions[0].ErrorCode
	dirs, err := kmsg.NewPtrDescribeLogDirsRequest().RequestWith(t.Context(), c)
	check(err)
	if dirs.Dirs[0].ErrorCode != 0 || len(dirs.Dirs[0].Topics) != 1 {
		t.Errorf("log dirs: %+v", dirs.Dirs[0])
	}
	return codes
}
