package kafka

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzWalkHeader: any bytes are a header or make the reader bad; what is left lies in the frame.
func FuzzWalkHeader(f *testing.F) {
	f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("t")).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)[4:], true)
	f.Add([]byte{0, 3, 0, 9, 1, 2, 3, 4, 0, 1, 't', 0xff, 0xff, 0xff, 0xff, 0x0f}, true)
	f.Add([]byte{0, 3, 0, 1, 1, 2, 3, 4, 0xff, 0xff}, false)
	f.Fuzz(func(t *testing.T, frame []byte, flexible bool) {
		r := wireReader{b: frame}
		var h header
		h.parseStart(&r)
		h.parseRest(&r, flexible)
		if !r.bad && clientIDStart+len(h.clientID)+len(r.b) > len(frame) {
			t.Fatalf("client id of %d bytes and a body of %d in a frame of %d", len(h.clientID), len(r.b), len(frame))
		}
	})
}

// FuzzWalkProduce: what the walk takes for a whole Produce request kmsg decodes, to as many partitions.
func FuzzWalkProduce(f *testing.F) {
	for version := int16(3); version <= 13; version++ {
		p := kmsg.NewPtrProduceRequest()
		p.Version = version
		p.Topics = []kmsg.ProduceRequestTopic{{Topic: "a", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: []byte("r")}, {Partition: 1}}}}
		f.Add(p.AppendTo(nil), version)
	}
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		if version < 3 || version > 13 {
			return
		}
		partitions, whole := checkProduce(wireReader{b: body, flexible: version >= 9}, version, math.MaxInt)
		if !whole {
			return
		}
		p := kmsg.NewPtrProduceRequest()
		p.Version = version
		if err := p.ReadFrom(body); err != nil {
			t.Fatalf("version %d: kmsg says %v", version, err)
		}
		n := len(p.Topics)
		for i := range p.Topics {
			n += len(p.Topics[i].Partitions)
		}
		if n != partitions {
			t.Fatalf("version %d: counted %d, kmsg has %d", version, partitions, n)
		}
	})
}

// FuzzWalkFetch: what the walk takes for a whole Fetch request, from its topics on, kmsg decodes.
func FuzzWalkFetch(f *testing.F) {
	for version := int16(4); version <= 18; version++ {
		q := kmsg.NewPtrFetchRequest()
		q.Version = version
		q.Topics = []kmsg.FetchRequestTopic{{Topic: "a", Partitions: []kmsg.FetchRequestTopicPartition{{FetchOffset: 7}}}}
		q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "b", Partitions: []int32{1}}}
		f.Add(q.AppendTo(nil), version)
	}
	// Tags that are known, with what they cannot hold: an id of a cluster that is cut, and a state of a replica of 3 bytes.
	body := append(make([]byte, 25), 1, 1, 1) // no topics, none forgotten, no rack
	f.Add(append(body, 1, 0, 2, 9, 'c'), int16(12))
	f.Add(append(body[4:len(body):len(body)], 1, 1, 3, 0, 0, 1), int16(15))
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		if version < 4 || version > 18 {
			return
		}
		head := 13 // max wait, min bytes, max bytes, isolation
		if version < 15 {
			head += 4 // replica id
		}
		if version >= 7 {
			head += 8 // session
		}
		if len(body) < head {
			return
		}
		r := wireReader{b: body[head:], flexible: version >= 12}
		if _, whole := checkFetch(&r, version, math.MaxInt); !whole {
			return
		}
		q := kmsg.NewPtrFetchRequest()
		q.Version = version
		if err := q.ReadFrom(body); err != nil {
			t.Fatalf("version %d: kmsg says %v", version, err)
		}
	})
}
