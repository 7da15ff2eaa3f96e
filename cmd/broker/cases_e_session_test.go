package broker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// fetchSession is the client's side of an incremental fetch session.
type fetchSession struct {
	t       *testing.T
	c       *brokertest.Conn
	version int16
	id      int32
	epoch   int32
}

// fetch sends one request of the session with the given wait, and returns the answer.
func (s *fetchSession) fetch(waitMillis int32, topics ...kmsg.FetchRequestTopic) *kmsg.FetchResponse {
	s.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = waitMillis, 1, 50<<20
	req.SessionID, req.SessionEpoch, req.Topics = s.id, s.epoch, topics
	return s.c.Request(req, s.version).(*kmsg.FetchResponse)
}

// openSession starts a session over the given partitions from offset 0.
func openSession(t *testing.T, c *brokertest.Conn, version int16, topic brokertest.Topic, partitions int32) *fetchSession {
	t.Helper()
	s := &fetchSession{t: t, c: c, version: version}
	var from []brokertest.FetchFrom
	for p := range partitions {
		from = append(from, brokertest.FetchFrom{Partition: p})
	}
	resp := s.fetch(0, brokertest.FetchTopic(topic, from...))
	want(t, "opening the session", resp.ErrorCode, errNone)
	if resp.SessionID == 0 {
		t.Fatal("no session id")
	}
	want(t, "partitions of the full reply", answered(resp), int(partitions))
	s.id, s.epoch = resp.SessionID, 1
	return s
}

// answered counts the partitions of a reply.
func answered(resp *kmsg.FetchResponse) int {
	n := 0
	for _, rt := range resp.Topics {
		n += len(rt.Partitions)
	}
	return n
}

func TestE07FetchSessions(t *testing.T) {
	b, c := start(t)
	for _, version := range []int16{7, 12, 13} {
		topic := b.NewTopic(t, 3, nil)
		s := openSession(t, c, version, topic, 3)
		resp := s.fetch(0)
		want(t, "no change", resp.ErrorCode, errNone)
		want(t, "no change: session", resp.SessionID, s.id)
		want(t, "no change: partitions", answered(resp), 0)

		c.MustProduce(topic, 1, batchOf("v"))
		s.epoch = 2
		resp = s.fetch(1000)
		want(t, "one has data", answered(resp), 1)
		want(t, "which", resp.Topics[0].Partitions[0].Partition, 1)

		s.epoch = 3 // the partition moves on, another is forgotten
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.SessionID, req.SessionEpoch = 1<<20, s.id, s.epoch
		req.Topics = append(req.Topics, brokertest.FetchTopic(topic, brokertest.FetchFrom{Partition: 1, Offset: 1}))
		req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: topic.Name, TopicID: topic.ID, Partitions: []int32{2}})
		want(t, "forgetting", s.c.Request(req, version).(*kmsg.FetchResponse).ErrorCode, errNone)
		c.MustProduce(topic, 2, batchOf("v"))
		s.epoch = 4
		want(t, "forgotten partition", answered(s.fetch(0)), 0)

		s.epoch = 9
		resp = s.fetch(0)
		want(t, "wrong epoch", resp.ErrorCode, errInvalidFetchEpoch)
		want(t, "wrong epoch: session id", resp.SessionID, 0)
		s.epoch = 5
		want(t, "right epoch after it", s.fetch(0).ErrorCode, errNone)

		s.epoch = -1 // closes the session with a full fetch
		want(t, "closing", s.fetch(0).ErrorCode, errNone)
		s.epoch = 6
		want(t, "closed session", s.fetch(0).ErrorCode, errFetchSessionNotFound)
		unknown := &fetchSession{t: t, c: c, version: version, id: s.id ^ 5, epoch: 1}
		want(t, "unknown session", unknown.fetch(0).ErrorCode, errFetchSessionNotFound)
	}
}

func TestE07SessionOfAnotherKindOfTopicName(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	s := openSession(t, c, 12, topic, 1)
	s.version = 13
	want(t, "v13 in a session of v12", s.fetch(0).ErrorCode, errFetchSessionTopicID)
	s = openSession(t, c, 13, topic, 1)
	s.version = 12
	want(t, "v12 in a session of v13", s.fetch(0).ErrorCode, errFetchSessionTopicID)
}

func TestE08IdleSessionLongPolls(t *testing.T) {
	b, c := start(t)
	s := openSession(t, c, 13, b.NewTopic(t, 5, nil), 5)
	began := time.Now()
	resp := s.fetch(1000)
	if waited := time.Since(began); waited < 950*time.Millisecond {
		t.Errorf("idle session of 1000 ms was answered after %v", waited)
	}
	want(t, "partitions", answered(resp), 0)
}

func TestE09EveryPartitionOfASessionIsServed(t *testing.T) {
	b, c := start(t)
	const partitions = 10
	topic := b.NewTopic(t, partitions, nil)
	for p := range int32(partitions) {
		for range 3 {
			c.MustProduce(topic, p, batchOf("v"))
		}
	}
	offsets := make([]int64, partitions)
	served := make([]int, partitions)
	s := &fetchSession{t: t, c: c, version: 12}
	for round := range 30 {
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.SessionID, req.SessionEpoch = 1, s.id, int32(round)
		var from []brokertest.FetchFrom
		for p := range int32(partitions) {
			from = append(from, brokertest.FetchFrom{Partition: p, Offset: offsets[p]})
		}
		if round == 0 {
			req.Topics = append(req.Topics, brokertest.FetchTopic(topic, from...))
		} else { // only what moved
			for p := range int32(partitions) {
				if offsets[p] > 0 {
					req.Topics = append(req.Topics, brokertest.FetchTopic(topic, from[p]))
				}
			}
		}
		resp := c.Request(req, 12).(*kmsg.FetchResponse)
		want(t, "error", resp.ErrorCode, errNone)
		s.id = resp.SessionID
		for _, rt := range resp.Topics {
			for _, rp := range rt.Partitions {
				for _, batch := range decoded(t, "records", rp.RecordBatches) {
					offsets[rp.Partition] = batch.BaseOffset + int64(batch.Count)
					served[rp.Partition]++
				}
			}
		}
	}
	for p, n := range served {
		if n == 0 {
			t.Errorf("partition %d was never served in 30 fetches: %v", p, served)
		}
	}
}

func TestE11SessionTableIsBounded(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	c.MustProduce(topic, 0, batchOf("v"))
	first := openSession(t, c, 12, topic, 1)
	with, without := 0, 0
	var ids []int32
	for range 3000 {
		s := fetchSession{t: t, c: c, version: 12}
		resp := s.fetch(0, brokertest.FetchTopic(topic, brokertest.FetchFrom{}))
		want(t, "error", resp.ErrorCode, errNone)
		want(t, "partitions", answered(resp), 1)
		if resp.SessionID == 0 {
			without++
		} else {
			with++
			ids = append(ids, resp.SessionID)
		}
	}
	if with > 2000 && without == 0 {
		t.Logf("%d sessions were given: old ones must have been evicted", with)
	}
	code := first.fetch(0).ErrorCode
	for _, id := range ids { // leave the slots to other cases
		s := fetchSession{t: t, c: c, version: 12, id: id, epoch: -1}
		s.fetch(0)
	}
	wantOneOf(t, fmt.Sprintf("the first session after %d others", with), code, errNone, errFetchSessionNotFound)
}
