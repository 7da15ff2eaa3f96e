package broker_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// TestL07MutatedRequests sends valid requests of every API and version with bits, lengths and ends spoilt, and
// demands that the broker lives, logs no panic, serves others, and is afterwards as it was before.
// MILLRACE_TEST_SEED repeats a run, MILLRACE_TEST_FUZZ_TIME (3s) lengthens it.
func TestL07MutatedRequests(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("MILLRACE_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	span := 3 * time.Second
	if s := os.Getenv("MILLRACE_TEST_FUZZ_TIME"); s != "" {
		span, _ = time.ParseDuration(s)
	}
	t.Logf("repeat with MILLRACE_TEST_SEED=%d", seed)
	b := brokertest.Start(t, nil)
	bystander := brokertest.Dial(t, b.Addr)
	frames := requestCorpus(bystander.Versions(), b.NewTopic(t, 2, nil))
	topic := b.CreateTopic(t, "of_a_name_that_no_mutation_hits", 2, nil)
	bystander.Alive()
	goroutines, sockets := goroutinesOf(t, b), socketsOf(t, b)
	w := watchMemory(t, b)
	deadline := time.Now().Add(span)
	var sent atomic.Int64
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() { sent.Add(mutate(t, b.Addr, rand.New(rand.NewPCG(seed, uint64(n))), frames, deadline)) })
	}
	for time.Now().Before(deadline) && b.Alive() {
		began := time.Now()
		bystander.MustProduce(topic, 1, batchOf("good"))
		bystander.Alive()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a good client waited %v", took)
		}
	}
	all.Wait()
	// Some 10 MiB where the collector gets its turn; 50,000 requests a second leave 100 MiB where it is late.
	w.grown(fmt.Sprint(sent.Load(), " mutated requests"), 192<<20)
	if log := b.LogTail(1 << 20); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
		t.Error("the log tells of a panic")
	}
	var running, open int
	defer func() {
		t.Logf("%d goroutines, %d at the start; %d sockets, %d at the start", running, goroutines, open, sockets)
	}()
	// A request that waits for others, of a group for one, keeps its connection until the time is up that it came with.
	brokertest.EventuallyWithin(t, 2*time.Minute, "goroutines and sockets back to what they were", func() bool {
		running, open = goroutinesOf(t, b), socketsOf(t, b)
		return running <= goroutines+4 && open <= sockets+2
	})
}

// requestCorpus returns a valid frame of every API and version, without its length prefix.
func requestCorpus(versions map[int16][2]int16, topic brokertest.Topic) [][]byte {
	var frames [][]byte
	id := "fuzz"
	for _, key := range brokertest.Keys() {
		for version := versions[key][0]; version <= versions[key][1]; version++ {
			frames = append(frames, brokertest.FrameOf(brokertest.Minimal(key, version, topic), version, 1, &id)[4:])
		}
	}
	return frames
}

// mutate sends spoilt frames until the deadline and returns how many.
func mutate(t *testing.T, addr string, random *rand.Rand, frames [][]byte, deadline time.Time) (sent int64) {
	for time.Now().Before(deadline) {
		nc, err := net.DialTimeout("tcp", addr, brokertest.Patience)
		if err != nil {
			t.Error(err)
			return sent
		}
		go io.Copy(io.Discard, nc) // ends with the connection
		for range 1 + random.IntN(20) {
			nc.SetWriteDeadline(time.Now().Add(brokertest.Patience))
			if _, err = nc.Write(spoil(random, frames[random.IntN(len(frames))])); err != nil {
				break
			}
			sent++
		}
		if random.IntN(2) == 0 {
			nc.(*net.TCPConn).SetLinger(0) // a reset
		}
		nc.Close()
	}
	return sent
}

// spoil returns a copy of frame with its length prefix and some of its bytes wrong.
func spoil(random *rand.Rand, frame []byte) []byte {
	bad := append(make([]byte, 4), frame...)
	for range random.IntN(4) {
		at := 4 + random.IntN(len(bad)-4)
		switch random.IntN(7) {
		case 0:
			bad[at] ^= 1 << random.IntN(8)
		case 1:
			bad[at] = byte(random.Uint32())
		case 2:
			bad[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[random.IntN(5)]
		case 3:
			if at+4 <= len(bad) {
				binary.BigEndian.PutUint32(bad[at:], []uint32{0, 1, 0xffffffff, 0x7fffffff, 0x80000000, 1 << 20}[random.IntN(6)])
			}
		case 4:
			bad = bad[:at+1] // cut
		case 5:
			bad = append(bad[:at], append([]byte{byte(random.Uint32()), byte(random.Uint32())}, bad[at:]...)...)
		case 6:
			if at+8 <= len(bad) {
				binary.BigEndian.PutUint64(bad[at:], random.Uint64())
			}
		}
	}
	brokertest.Sized(bad)
	if random.IntN(20) == 0 {
		binary.BigEndian.PutUint32(bad, random.Uint32()>>random.IntN(32))
	}
	return bad
}

// goroutinesOf reads how many goroutines the broker has.
func goroutinesOf(t *testing.T, b *brokertest.Broker) int {
	t.Helper()
	if b.AdminAddr == "" {
		return 0
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + b.AdminAddr + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscanf(string(raw), "goroutine profile: total %d", &n); err != nil {
		t.Fatalf("%v: %.100s", err, raw)
	}
	return n
}

// socketsOf counts the broker's sockets.
func socketsOf(t *testing.T, b *brokertest.Broker) (n int) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", b.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// TestLargeLongPollsKeepNobodyFromBeingRead: a long poll may wait for a day. What it sent is not held so long
// among the bytes in flight, of which there are few.
func TestLargeLongPollsKeepNobodyFromBeingRead(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"queued.max.request.bytes": "16777216", "millrace.produce.decoded.bytes.max": "8388608", "socket.request.max.bytes": "8388608"})
	topic := b.NewTopic(t, 1, nil)
	req := brokertest.FetchRequest(12, 3_600_000, topic)
	for range 4000 { // the same partition, whose end nobody moves
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, brokertest.FetchTopic(topic, brokertest.FetchFrom{}).Partitions...)
	}
	req.Rack = strings.Repeat("r", 4<<20)
	for range 8 {
		brokertest.Dial(t, b.Addr).Send(req, 12)
	}
	other := b.NewTopic(t, 1, nil)
	var all sync.WaitGroup
	for range 4 {
		c := brokertest.Dial(t, b.Addr)
		all.Go(func() {
			for range 4 {
				c.MustProduce(other, 0, batchOf(strings.Repeat("v", 1<<19)))
			}
		})
	}
	all.Wait()
}

// TestSessionOfManyPartitionsForgetsThemQuickly: dropping many partitions at once took time by their square.
func TestSessionOfManyPartitionsForgetsThemQuickly(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := brokertest.Dial(t, b.Addr)
	const partitions = 100_000
	none := brokertest.Topic{Name: "none"}
	full := fetchOf(12, none, partitions, 0)
	session := c.Request(full, 12).(*kmsg.FetchResponse).SessionID
	if session == 0 {
		t.Fatal("no session")
	}
	next := fetchOf(12, none, 1, 1)
	next.SessionID = session
	forgotten := kmsg.NewFetchRequestForgottenTopic()
	forgotten.Topic = none.Name
	for i := range int32(partitions - 1) {
		forgotten.Partitions = append(forgotten.Partitions, partitions-1-i)
	}
	next.ForgottenTopics = append(next.ForgottenTopics, forgotten)
	began := time.Now()
	resp := c.Request(next, 12).(*kmsg.FetchResponse)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	want(t, "code", resp.ErrorCode, errNone)
	want(t, "partitions left", len(resp.Topics[0].Partitions), 1)
}

// TestSessionsFollowABoundedNumberOfPartitions: beyond it clients are served without a session.
func TestSessionsFollowABoundedNumberOfPartitions(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := brokertest.Dial(t, b.Addr)
	c.Alive()
	w := watchMemory(t, b)
	refused := 0
	for i := range 10 {
		req := fetchOf(12, brokertest.Topic{Name: fmt.Sprint("none", i)}, 50_000, 0)
		resp := c.Request(req, 12).(*kmsg.FetchResponse)
		want(t, "partitions", len(resp.Topics[0].Partitions), 50_000)
		if resp.SessionID == 0 {
			refused++
		}
	}
	want(t, "clients without a session", refused, 5)
	long := fetchOf(12, brokertest.Topic{Name: strings.Repeat("n", 32_000)}, 30_000, 0)
	want(t, "session of a topic that cannot be", c.Request(long, 12).(*kmsg.FetchResponse).SessionID, 0)
	w.grown("sessions", 384<<20)
}

// TestL02ReadersThatNeverRead asks for gigabytes over many connections and takes nothing of them.
func TestL02ReadersThatNeverRead(t *testing.T) {
	b := brokertest.Start(t, nil)
	bystander := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 1, nil)
	value := strings.Repeat("v", 900_000)
	for range 100 {
		bystander.MustProduce(topic, 0, batchOf(value))
	}
	w := watchMemory(t, b)
	req := brokertest.FetchRequest(12, 1000, topic, brokertest.FetchFrom{BytesMax: 50 << 20})
	var pipeline []byte
	for i := range int32(100) {
		pipeline = append(pipeline, brokertest.FrameOf(req, 12, i, nil)...)
	}
	for range 50 {
		brokertest.Dial(t, b.Addr).SendFrame(pipeline)
	}
	for range 20 {
		began := time.Now()
		if got := len(bystander.Records(topic, 0, 90)); got == 0 {
			t.Error("a good client gets nothing")
		}
		bystander.MustProduce(topic, 0, batchOf("more"))
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a good client waited %v", took)
		}
	}
	// Replies in the making and replies that wait may each be as much as may be in flight, and so may garbage be.
	w.grown("50 pipelines of 100 fetches of 50 MiB", 2<<30)
}

// TestManyLargeProducesThroughFewBytesInFlight: everybody gets on, however little may be in flight.
func TestManyLargeProducesThroughFewBytesInFlight(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"queued.max.request.bytes": "8388608", "millrace.produce.decoded.bytes.max": "4194304", "socket.request.max.bytes": "4194304"})
	topic := b.NewTopic(t, 4, nil)
	value := strings.Repeat("v", 1_000_000)
	var all sync.WaitGroup
	for n := range 40 {
		c := brokertest.Dial(t, b.Addr)
		all.Go(func() {
			for range 5 {
				c.MustProduce(topic, int32(n%4), batchOf(value))
			}
		})
	}
	all.Wait()
	c := brokertest.Dial(t, b.Addr)
	var records int64
	for p := range int32(4) {
		records += c.LogEnd(topic, p)
	}
	want(t, "records", records, 200)
}

// TestL01IdleAndTricklingSocketsAreClosed holds many sockets that send nothing, half a frame, or a byte of one now and
// then: that does not keep them open.
func TestL01IdleAndTricklingSocketsAreClosed(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"connections.max.idle.ms": "1000"})
	files := openFiles(t, b)
	w := watchMemory(t, b)
	frame := append([]byte{0, 0, 0, 100, 0, 3}, make([]byte, 98)...)
	var all sync.WaitGroup
	for i := range 2000 {
		nc, err := netDial(b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.Write(frame[:i%8])
		all.Go(func() {
			for sent := i % 8; ; sent++ {
				nc.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
				switch _, err := nc.Read(make([]byte, 1)); {
				case err == nil:
					t.Errorf("socket %d: an answer", i)
					return
				case !errors.Is(err, os.ErrDeadlineExceeded):
					return
				case sent == len(frame):
					t.Errorf("socket %d: open after all of a frame, a byte at a time", i)
					return
				case i%2 == 0:
					nc.Write(frame[sent : sent+1])
				}
			}
		})
	}
	for range 10 {
		brokertest.Dial(t, b.Addr).Alive()
	}
	all.Wait()
	brokertest.Eventually(t, "descriptors back", func() bool { return openFiles(t, b) <= files+8 })
	w.grown("2000 idle and trickling sockets", bombSlack)
}

// TestL05ConnectAndReset storms the listener.
func TestL05ConnectAndReset(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"max.connections": "200"})
	files := openFiles(t, b)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 500 {
				nc, err := net.DialTimeout("tcp", b.Addr, brokertest.Patience)
				if err != nil {
					t.Error(err)
					return
				}
				if i%3 == 0 {
					nc.Write([]byte{0, 0, 0, 20, 0, 3})
				}
				nc.(*net.TCPConn).SetLinger(0)
				nc.Close()
			}
		})
	}
	all.Wait()
	brokertest.Eventually(t, "descriptors back", func() bool { return openFiles(t, b) <= files+8 })
	brokertest.Dial(t, b.Addr).Alive()
}

func netDial(addr string) (net.Conn, error) { return net.DialTimeout("tcp", addr, brokertest.Patience) }

// TestPipelinedFetchesAreAllAnsweredToWhoReads: the fetches behind a long poll are answered before it, and their
// answers wait for its own; none of that may hold the others up for good.
func TestPipelinedFetchesAreAllAnsweredToWhoReads(t *testing.T) {
	b := brokertest.Start(t, nil)
	topic, empty := b.NewTopic(t, 1, nil), b.NewTopic(t, 1, nil)
	good := brokertest.Dial(t, b.Addr)
	for range 10 {
		good.MustProduce(topic, 0, batchOf(strings.Repeat("v", 900_000)))
	}
	large := brokertest.FetchRequest(12, 1000, topic, brokertest.FetchFrom{})
	poll := brokertest.FetchRequest(12, 700, empty, brokertest.FetchFrom{})
	var pipeline []byte
	for i := range int32(60) {
		req := large
		if i%20 == 0 {
			req = poll
		}
		pipeline = append(pipeline, brokertest.FrameOf(req, 12, i, nil)...)
	}
	for _, half := range []bool{false, true} {
		c := brokertest.Dial(t, b.Addr)
		c.SendFrame(pipeline)
		if half {
			c.NetConn.(*net.TCPConn).CloseWrite()
		}
		for i := range int32(60) {
			resp := c.Receive(large, i).(*kmsg.FetchResponse)
			if got := len(resp.Topics[0].Partitions[0].RecordBatches); got == 0 && i%20 != 0 {
				t.Errorf("half-closed %v: reply %d is empty", half, i)
			}
		}
	}
}

// TestManyPollsOfOneConnectionAreAnsweredAsItReads: one append wakes all long polls of a connection; their
// answers are not made before its peer takes them.
func TestManyPollsOfOneConnectionAreAnsweredAsItReads(t *testing.T) {
	b := brokertest.Start(t, nil)
	topic := b.NewTopic(t, 1, nil)
	good := brokertest.Dial(t, b.Addr)
	good.Alive()
	w := watchMemory(t, b)
	c := brokertest.Dial(t, b.Addr)
	req := brokertest.FetchRequest(12, 60_000, topic, brokertest.FetchFrom{})
	const polls = 1000
	for i := range int32(polls) {
		c.SendFrame(brokertest.FrameOf(req, 12, i, nil))
	}
	good.Alive()
	good.MustProduce(topic, 0, batchOf(strings.Repeat("v", 900_000)))
	for i := range int32(polls) {
		resp := c.Receive(req, i).(*kmsg.FetchResponse)
		want(t, "code", resp.Topics[0].Partitions[0].ErrorCode, errNone)
	}
	w.grown("1000 polls woken by 900 kB", 128<<20)
}
