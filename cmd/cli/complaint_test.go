package cli

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refuser is a broker with one topic that answers every produce request with one code.
type refuser struct {
	t        *testing.T
	listener net.Listener
	code     int16
}

func refuse(t *testing.T, code int16) *refuser {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	r := &refuser{t: t, listener: listener, code: code}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

func (r *refuser) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		request := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		key, version := int16(binary.BigEndian.Uint16(request)), int16(binary.BigEndian.Uint16(request[2:]))
		client := int(binary.BigEndian.Uint16(request[8:]))
		answer := r.answer(key, version, request[10+client:])
		if answer == nil {
			return
		}
		answer.SetVersion(version)
		out := append(make([]byte, 4), request[4:8]...)
		out = answer.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func (r *refuser) answer(key, version int16, body []byte) kmsg.Response {
	address := r.listener.Addr().(*net.TCPAddr)
	switch kmsg.Key(key) {
	case kmsg.ApiVersions:
		answer := kmsg.NewApiVersionsResponse()
		for key, highest := range map[kmsg.Key]int16{kmsg.Produce: 7, kmsg.Metadata: 7, kmsg.ApiVersions: 3} {
			answer.ApiKeys = append(answer.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key), MaxVersion: highest})
		}
		return &answer
	case kmsg.Metadata:
		answer := kmsg.NewMetadataResponse()
		answer.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "127.0.0.1", Port: int32(address.Port)}}
		name := "a"
		answer.Topics = []kmsg.MetadataResponseTopic{{Topic: &name, Partitions: []kmsg.MetadataResponseTopicPartition{
			{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}}}}
		return &answer
	case kmsg.Produce:
		request := kmsg.NewProduceRequest()
		request.SetVersion(version)
		if err := request.ReadFrom(body); err != nil {
			r.t.Errorf("produce request: %v", err)
			return nil
		}
		answer := kmsg.NewProduceResponse()
		answer.Topics = []kmsg.ProduceResponseTopic{{Topic: "a", Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: r.code, BaseOffset: -1}}}}
		return &answer
	}
	return nil
}

// TestProduceRefused holds that the error which the client retried is the one that is named in the end.
func TestProduceRefused(t *testing.T) {
	f := func(code int16, want string) {
		t.Helper()
		r := refuse(t, code)
		got, _, errOut := run(t, "x\n", "produce", "a", "--acks", "1", "--timeout", "1s", "--broker", r.listener.Addr().String())
		if got != 1 || !strings.Contains(errOut, want) || strings.Contains(errOut, "timed out") {
			t.Errorf("code %d: %q, want %q", got, errOut, want)
		}
	}
	f(kerr.KafkaStorageError.Code, "topic a: KAFKA_STORAGE_ERROR; the broker's disk is full")
	f(kerr.MessageTooLarge.Code, "a record or batch is larger")
}

// TestProduceRequestTooLarge holds that a connection which the broker closes is named, with the remedy.
func TestProduceRequestTooLarge(t *testing.T) {
	c := serve(t, t.TempDir(), "--set", "socket.request.max.bytes=10000")
	code, _, errOut := run(t, strings.Repeat("x", 50_000)+"\n", "produce", "a", "--timeout", "1s", "--broker", c.address)
	if code != 1 || !strings.Contains(errOut, "the connection ended on a produce request") || !strings.Contains(errOut, "--batch-bytes") {
		t.Errorf("code %d: %q", code, errOut)
	}
	code, _, errOut = run(t, `{"value":"x","partition":77}`, "produce", "a", "-f", "json", "--broker", c.address)
	if code != 1 || !strings.Contains(errOut, "topic a has no partition 77: it has 1 partition, numbered from 0") {
		t.Errorf("code %d: %q", code, errOut)
	}
	c.end(syscall.SIGTERM)
}
