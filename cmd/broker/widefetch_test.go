package broker_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// TestWideFetches: a Fetch of more partitions than an event loop looks at itself waits for records, in a session and
// without, and what is behind it on its connection keeps its place.
func TestWideFetches(t *testing.T) {
	b, c := start(t)
	const all = 17_000
	topic := b.NewTopic(t, all, nil)
	producer := brokertest.Dial(t, b.Addr)
	end := int64(0)
	for _, partitions := range []int{5000, all} {
		for _, epoch := range []int32{-1, 0} {
			what := fmt.Sprintf("%d partitions, epoch %d", partitions, epoch)
			req := fetchOf(12, topic, partitions, epoch)
			session := int32(0)
			if epoch == 0 {
				resp := c.Request(req, 12).(*kmsg.FetchResponse)
				want(t, what+": partitions", len(resp.Topics[0].Partitions), partitions)
				session = resp.SessionID
				req = fetchOf(12, topic, 1, 1)
				req.SessionID = session
			}
			req.MaxWaitMillis, req.MinBytes = 60_000, 1
			if epoch == 0 {
				p := &req.Topics[0].Partitions[0]
				p.Partition, p.FetchOffset = 4321, end
			} else {
				req.Topics[0].Partitions[4321].FetchOffset = end
			}
			correlation := c.Send(req, 12)
			behind := brokertest.FetchRequest(12, 0, topic, brokertest.FetchFrom{Partition: 4321, Offset: end})
			second := c.Send(behind, 12)
			producer.MustProduce(topic, 4321, batchOf("woken"))
			end++
			resp := c.Receive(req, correlation).(*kmsg.FetchResponse)
			want(t, what+": code", resp.ErrorCode, errNone)
			found := 0
			for _, p := range resp.Topics[0].Partitions {
				if len(p.RecordBatches) > 0 {
					want(t, what+": partition", p.Partition, 4321)
					found++
				}
			}
			want(t, what+": partitions with records", found, 1)
			want(t, what+": session", resp.SessionID, session)
			c.Receive(behind, second)
		}
	}
}
