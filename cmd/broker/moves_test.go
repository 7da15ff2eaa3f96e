package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/broker/brokertest"
)

// moveTo asks for a move by the admin client of franz-go and returns its error.
func moveTo(t *testing.T, adm *kadm.Client, dir, topic string, partitions ...int32) error {
	t.Helper()
	var req kadm.AlterReplicaLogDirsReq
	set := kadm.TopicsSet{}
	set.Add(topic, partitions...)
	req.Add(dir, set)
	resp, err := adm.AlterAllReplicaLogDirs(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.Sorted() {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// TestMoveBetweenDirectories moves partitions there and back while they are written to and read, and kills the broker
// in between: every acknowledged record is there once, in order.
func TestMoveBetweenDirectories(t *testing.T) {
	b, second := twoDirs(t, "")
	c := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 2, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.DefaultProduceTopic(topic.Name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	sent := 0
	produce := func(n int) {
		t.Helper()
		for range n {
			for p := range int32(2) {
				r := &kgo.Record{Partition: p, Value: []byte(fmt.Sprintf("%08d%s", sent, strings.Repeat("v", 1000)))}
				if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
				if r.Offset != int64(sent) {
					t.Fatalf("record %d of partition %d has offset %d", sent, p, r.Offset)
				}
			}
			sent++
		}
	}
	produce(300)
	if err := moveTo(t, adm, "/nowhere", topic.Name, 0); err == nil || !strings.Contains(err.Error(), "LOG_DIR_NOT_FOUND") {
		t.Errorf("a directory that is not there: %v", err)
	}
	for round, dir := range []string{second, b.DataDir, second} {
		if err := moveTo(t, adm, dir, topic.Name, 0, 1); err != nil {
			t.Fatal(err)
		}
		brokertest.Eventually(t, "both are there", func() bool {
			produce(5)
			of, _ := logDirs(c, topic)
			return of[0] == dir && of[1] == dir
		})
		produce(5)
		for p := range int32(2) {
			want(t, "log end", c.LogEnd(topic, p), int64(sent))
		}
		if round == 1 {
			b.Kill(t)
			b.Restart(t)
			c = brokertest.Dial(t, b.Addr)
			of, _ := logDirs(c, topic)
			want(t, "directory after a kill", of[0], dir)
		}
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumeTopics(topic.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	next := map[int32]int{}
	for next[0]+next[1] < 2*sent {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !strings.HasPrefix(string(r.Value), fmt.Sprintf("%08d", next[r.Partition])) {
				t.Fatalf("partition %d offset %d: %.8s, want %d", r.Partition, r.Offset, r.Value, next[r.Partition])
			}
			next[r.Partition]++
		})
	}
	t.Logf("%d records in each partition", sent)
}
