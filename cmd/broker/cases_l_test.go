package broker_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"millrace/cmd/broker/brokertest"
)

// A consumer in a process of its own is stopped, and another peer loses every packet: the one leaves its group, the
// connections of both are closed, and nothing waits for them.
func TestL03StoppedAndLostClients(t *testing.T) {
	if addr := os.Getenv("MILLRACE_TEST_CONSUME_FROM"); addr != "" {
		consumeForever(t, addr)
		return
	}
	b := startConsumers(t, "connections.max.idle.ms", "1000")
	topic := b.CreateTopic(t, "l03", 1, nil)
	brokertest.Dial(t, b.Addr).Alive()
	sockets, goroutines := socketsOf(t, b), goroutinesOf(t, b)
	child := exec.Command(os.Args[0], "-test.run=^TestL03StoppedAndLostClients$")
	child.Env = append(os.Environ(), "MILLRACE_TEST_CONSUME_FROM="+b.Addr)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		child.Process.Kill()
		child.Wait()
	}()
	members := func() int { return len(brokertest.Dial(t, b.Addr).DescribeGroup(5, "l03").Members) }
	brokertest.Eventually(t, "the consumer is in its group", func() bool { return members() == 1 })
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lost := brokertest.Dial(t, b.Addr)
	lost.Send(brokertest.FetchRequest(12, 500, topic, brokertest.FetchFrom{}), 12)
	dropPackets(t, lost.NetConn)
	brokertest.Eventually(t, "the stopped consumer is out", func() bool { return members() == 0 })
	brokertest.Eventually(t, "sockets and goroutines back", func() bool {
		return socketsOf(t, b) <= sockets+2 && goroutinesOf(t, b) <= goroutines+4
	})
}

// consumeForever is the consumer of TestL03: it ends with its parent.
func consumeForever(t *testing.T, addr string) {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup("l03"), kgo.ConsumeTopics("l03"),
		kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	for {
		c.PollFetches(context.Background())
	}
}

// dropPackets makes the kernel drop what comes for a socket before TCP sees it, as a network that is gone does.
func dropPackets(t *testing.T, nc net.Conn) {
	t.Helper()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	filter := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &filter})
	})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
}

// One pipeline of 100,000 Metadata requests, whose answers are not read before the broker has stopped reading: they
// come in order, and what waits is bounded.
func TestL04PipelineOfASlowReader(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	req := kmsg.NewPtrMetadataRequest()
	named := kmsg.NewMetadataRequestTopic()
	named.Topic = &topic.Name
	req.Topics = append(req.Topics, named)
	c.Alive()
	w := watchMemory(t, b)
	const n = 100_000
	var pipeline []byte
	for i := range int32(n) {
		pipeline = append(pipeline, brokertest.FrameOf(req, 9, i, nil)...)
	}
	sent := make(chan error, 1)
	go func() { // ends with the answers, or with the connection
		_, err := c.NetConn.Write(pipeline)
		sent <- err
	}()
	if b.AdminAddr != "" {
		brokertest.Eventually(t, "the broker stops reading", func() bool {
			return metricOf(t, b, "millrace_net_outbound_bytes") > 0 || len(sent) > 0
		})
	}
	for i := range int32(n) {
		c.Receive(req, i)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	w.grown("100,000 requests in a pipeline", 64<<20)
}

// 10,000 connections that were used once and lie idle (as many as the limit of descriptors allows): each takes at most
// 8 KiB, and others are answered as before.
func TestL08IdleConnections(t *testing.T) {
	if brokertest.Outside() != "" {
		t.Skip("measures a broker of its own")
	}
	b := brokertest.Start(t, nil)
	connections := min(10_000, int(metricOf(t, b, "millrace_net_connections_limit"))-100)
	bystander := brokertest.Dial(t, b.Addr)
	bystander.Alive()
	metadata := func() (median time.Duration) {
		var took []time.Duration
		for range 201 {
			began := time.Now()
			bystander.Request(kmsg.NewPtrMetadataRequest(), 9)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	alone, fresh := metadata(), residentBytes(t, b)
	for range connections {
		brokertest.Dial(t, b.Addr).Alive()
	}
	each := (residentBytes(t, b) - fresh) / int64(connections)
	t.Logf("%d idle connections of %d bytes each; Metadata takes %v, %v without them", connections, each, metadata(), alone)
	if each > 8<<10 {
		t.Errorf("%d bytes of anonymous memory for each idle connection, more than 8 KiB", each)
	}
}

// A client that produces with acks=1 and closes its side gets the answer, then the end.
func TestL09HalfClosedProducerGetsItsAnswer(t *testing.T) {
	b, c := start(t)
	topic := b.NewTopic(t, 1, nil)
	req := brokertest.ProduceRequest(9, 1, topic, brokertest.Part{Records: batchOf("last words").Encode()})
	correlation := c.Send(req, 9)
	if err := c.NetConn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp := c.Receive(req, correlation).(*kmsg.ProduceResponse)
	want(t, "code", resp.Topics[0].Partitions[0].ErrorCode, errNone)
	c.MustClose()
	want(t, "records", len(brokertest.Dial(t, b.Addr).Records(topic, 0, 0)), 1)
}
