package broker_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/bench/proc"
	"millrace/cmd/broker/brokertest"
)

// largeBroker has 10,000 partitions, a record in each, and 1,000 groups that committed an offset in each of 100 of them.
func largeBroker(t testing.TB) (*brokertest.Broker, []brokertest.Topic) {
	t.Helper()
	const topics, partitions, groups, offsets = 10, 1000, 1000, 100
	b := brokertest.Start(t, nil)
	c := brokertest.Dial(t, b.Addr)
	var made []brokertest.Topic
	for i := range topics {
		topic := b.CreateTopic(t, fmt.Sprintf("topic-%d", i), partitions, nil)
		fillPartitions(t, c, topic, partitions)
		made = append(made, topic)
	}
	commitGroups(t, c, made, groups, offsets)
	return b, made
}

// TestPageAtSize works the page of such a broker: each view is there, small enough for a browser, and finds things.
func TestPageAtSize(t *testing.T) {
	if os.Getenv("MILLRACE_TEST_LARGE") == "" {
		t.Skip("takes long: make large")
	}
	browser := startChromium(t)
	b, _ := largeBroker(t)
	show := func(hash, holds string) {
		t.Helper()
		began := time.Now()
		browser.show("about:blank", 1280, 1000, "light")
		browser.show("http://"+b.AdminAddr+"/#/"+hash, 1280, 1000, "light")
		browser.await(hash, fmt.Sprintf("document.getElementById('main')?.innerText.includes(%q) && !document.getElementById('state').textContent", holds))
		t.Logf("%s after %v", hash, time.Since(began))
		if rows := browser.eval("document.querySelectorAll('tr, details').length > 500"); rows != "false" {
			t.Errorf("%s has more than 500 rows", hash)
		}
	}
	show("", "10,000")
	show("topics", "topic-9")
	show("topic?name=topic-9", "199")
	browser.eval("[...document.querySelectorAll('button')].find(b => b.textContent === 'Further').click()")
	browser.await("further partitions", "document.getElementById('main').innerText.includes('\\n399\\t')")
	show("groups", "200 of 1,000")
	show("groups?filter=group-999", "1 of 1 that match")
	show("group?id=group-999", "Committed offsets")
	show("records?topic=topic-9&partition=999", "1 records from offset 0 on")
	if got := browser.reported(); len(got) > 0 {
		t.Errorf("the browser reports: %v", got)
	}
}

// BenchmarkAdmin asks all that the page asks of such a broker. It tells the processor time of each answer and fails
// beyond 100 ms, and beyond 1 MiB.
func BenchmarkAdmin(b *testing.B) {
	if brokertest.Outside() != "" {
		b.Skip("needs a broker of its own")
	}
	broker, made := largeBroker(b)
	self, err := proc.Open(broker.Pid)
	if err != nil {
		b.Fatal(err)
	}
	ask := func(path string) (cpu time.Duration, size int64) {
		before, err := self.Usage()
		if err != nil {
			b.Fatal(err)
		}
		resp, err := http.Get("http://" + broker.AdminAddr + path)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		size, err = io.Copy(io.Discard, resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("%s: status %d, %v", path, resp.StatusCode, err)
		}
		after, err := self.Usage()
		if err != nil {
			b.Fatal(err)
		}
		return after.CPU - before.CPU, size
	}
	for name, path := range map[string]string{
		"overview": "overview", "history": "history", "clients": "clients", "topics": "topics?sort=rate&limit=1000", "groups": "groups?sort=lag&limit=1000",
		"topic": "topic?limit=1000&name=" + made[0].Name, "group": "group?id=group-999", "records": "records?topic=" + made[0].Name,
	} {
		b.Run(name, func(b *testing.B) {
			var total time.Duration
			var size int64
			for range b.N {
				cpu, n := ask("/api/" + path)
				total, size = total+cpu, n
			}
			each := total.Seconds() * 1000 / float64(b.N)
			b.ReportMetric(each, "cpu-ms/answer")
			b.ReportMetric(float64(size)/1024, "KiB")
			if each > 100 || size > 1<<20 {
				b.Errorf("%s: %.0f ms and %d bytes", path, each, size)
			}
		})
	}
}

// fillPartitions writes a record to each partition.
func fillPartitions(b testing.TB, c *brokertest.Conn, topic brokertest.Topic, partitions int) {
	b.Helper()
	record := brokertest.NewBatch(brokertest.Values(1, "v")...).Encode()
	parts := make([]brokertest.Part, partitions)
	for p := range parts {
		parts[p] = brokertest.Part{Partition: int32(p), Records: record}
	}
	for _, answer := range c.Request(brokertest.ProduceRequest(8, -1, topic, parts...), 8).(*kmsg.ProduceResponse).Topics[0].Partitions {
		if answer.ErrorCode != errNone {
			b.Fatalf("partition %d: code %d", answer.Partition, answer.ErrorCode)
		}
	}
}

// commitGroups commits offsets of groups without members, spread over the topics.
func commitGroups(b testing.TB, c *brokertest.Conn, topics []brokertest.Topic, groups, offsets int) {
	b.Helper()
	for g := range groups {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = fmt.Sprintf("group-%d", g), -1
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = topics[g%len(topics)].Name
		for p := range offsets {
			partition := kmsg.NewOffsetCommitRequestTopicPartition()
			partition.Partition = int32(p)
			topic.Partitions = append(topic.Partitions, partition)
		}
		req.Topics = []kmsg.OffsetCommitRequestTopic{topic}
		for _, answer := range c.Request(req, 8).(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
			if answer.ErrorCode != errNone {
				b.Fatalf("group %d: code %d", g, answer.ErrorCode)
			}
		}
	}
}
