package broker_test

import (
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/cmd/broker/brokertest"
)

// hostileLoad is a kind of load and well-formed requests of the same number: each worker does one of them after the
// other, all together rate a second or as many as they can.
type hostileLoad struct {
	name      string
	rate      int
	workers   int
	allowed   int64 // bytes by which memory may grow
	bad, good func(w *hostileWorker)
}

// hostileWorker is what one worker holds on to; its connections end with the run.
type hostileWorker struct {
	addr  string
	n     int // operations before this one
	conns []net.Conn
}

// run does an operation at the load's rate for a time, and returns how many a second they were.
func (l *hostileLoad) run(t *testing.T, b *brokertest.Broker, do func(*hostileWorker), span time.Duration) (rate float64) {
	var all sync.WaitGroup
	var done atomic.Int64
	began := time.Now()
	end := began.Add(span)
	for range l.workers {
		all.Go(func() {
			w := &hostileWorker{addr: b.Addr}
			defer w.reset()
			ticker := time.NewTicker(time.Second * time.Duration(l.workers) / time.Duration(l.rate))
			defer ticker.Stop()
			for ; time.Now().Before(end) && b.Alive(); w.n++ {
				do(w)
				done.Add(1)
				<-ticker.C
			}
		})
	}
	all.Wait()
	if !b.Alive() {
		t.Fatalf("%s: the broker died", l.name)
	}
	return float64(done.Load()) / time.Since(began).Seconds()
}

// dial returns a connection whose every wait has an end, nil where there is none.
func (w *hostileWorker) dial() net.Conn {
	nc, err := net.DialTimeout("tcp", w.addr, brokertest.Patience)
	if err != nil {
		return nil
	}
	nc.SetDeadline(time.Now().Add(brokertest.Patience))
	w.conns = append(w.conns, nc)
	return nc
}

// hold returns one of n connections in turn, each opened when it is first asked for.
func (w *hostileWorker) hold(n int) (nc net.Conn, first bool) {
	if len(w.conns) < n {
		return w.dial(), true
	}
	nc = w.conns[w.n%n]
	nc.SetDeadline(time.Now().Add(brokertest.Patience))
	return nc, false
}

// reset ends all connections without a farewell.
func (w *hostileWorker) reset() {
	for _, nc := range w.conns {
		nc.(*net.TCPConn).SetLinger(0)
		nc.Close()
	}
	w.conns = nil
}

// ask sends frames over a connection, takes an answer to each, and returns whether all came.
func ask(nc net.Conn, answers int, frames []byte) bool {
	if nc == nil {
		return false
	}
	c := brokertest.Conn{NetConn: nc}
	if c.TrySendFrame(frames) != nil {
		return false
	}
	for range answers {
		if _, err := c.ReadFrame(brokertest.Patience); err != nil {
			return false
		}
	}
	return true
}

// once returns an operation that asks over a connection of its own and resets it.
func once(frames ...[]byte) func(*hostileWorker) {
	return func(w *hostileWorker) {
		ask(w.dial(), 1, frames[w.n%len(frames)])
		w.reset()
	}
}

// hostileLoads returns every kind, with what it needs in the broker.
func hostileLoads(t *testing.T, b *brokertest.Broker) []*hostileLoad {
	t.Helper()
	topic, large := b.NewTopic(t, 1, nil), b.NewTopic(t, 1, nil)
	c := brokertest.Dial(t, b.Addr)
	defer c.NetConn.Close()
	for range 60 {
		c.MustProduce(large, 0, batchOf(strings.Repeat("v", 900_000)))
	}
	produce := func(raw []byte) []byte {
		return brokertest.FrameOf(brokertest.ProduceRequest(9, -1, topic, brokertest.Part{Records: raw}), 9, 1, nil)
	}
	bombs := [][]byte{{0x7f, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 1, 0}}
	for _, frame := range []string{brokertest.F8, brokertest.F9, brokertest.F10} {
		bombs = append(bombs, brokertest.Hex(t, frame))
	}
	for _, raw := range countBombs() {
		bombs = append(bombs, produce(raw))
	}
	var packed [][]byte
	for _, raw := range slices.Collect(maps.Values(decompressionBombs())) {
		packed = append(packed, produce(raw))
	}
	metadata := brokertest.FrameOf(metadataOf(1), 1, 1, nil)
	good := produce(batchOf("v").Encode())
	return []*hostileLoad{
		{name: "bombs that announce too much", rate: 1000, workers: 50, allowed: 2 * bombSlack, bad: once(bombs...), good: once(good)},
		{name: "bombs of compression", rate: 10, workers: 10, allowed: decodedMax + 2*bombSlack, bad: once(packed...), good: once(good)},
		{name: "1,000 half frames, a byte a second each", rate: 1000, workers: 10, allowed: 2 * bombSlack, bad: trickle(good), good: func(w *hostileWorker) {
			nc, _ := w.hold(100)
			ask(nc, 1, metadata)
		}},
		{name: "50 readers that never read 50 MB", rate: 50, workers: 50, allowed: 2 << 30, bad: neverRead(large, 10, 50<<20), good: once(
			brokertest.FrameOf(brokertest.FetchRequest(12, 1000, large, brokertest.FetchFrom{BytesMax: 1 << 20}), 12, 1, nil))},
		{name: "connections opened and reset", rate: 10_000, workers: 32, allowed: 4 * bombSlack, bad: connectAndReset, good: once(metadata)},
		{name: "pipelines of 10,000 requests", rate: 2, workers: 2, allowed: 4 * bombSlack, bad: pipeline(metadata, 10_000), good: func(w *hostileWorker) {
			nc := w.dial()
			for range 10_000 {
				if !ask(nc, 1, metadata) {
					break
				}
			}
			w.reset()
		}},
		{name: "Metadata of 500,000 names", rate: 2, workers: 2, allowed: 256 << 20, bad: once(brokertest.FrameOf(metadataOf(500_000), 1, 1, nil)), good: once(metadata)},
	}
}

// trickle opens 100 connections with half a frame each and then sends them the rest by single bytes in turn.
func trickle(frame []byte) func(*hostileWorker) {
	return func(w *hostileWorker) {
		nc, first := w.hold(100)
		if nc == nil {
			return
		}
		if half := len(frame) / 2; first {
			nc.Write(frame[:half])
		} else {
			at := half + (w.n/100-1)%(len(frame)-half)
			nc.Write(frame[at : at+1])
		}
	}
}

// neverRead opens one connection, asks it for more than any buffer holds, and leaves it so.
func neverRead(topic brokertest.Topic, fetches int, bytesMax int32) func(*hostileWorker) {
	frame := brokertest.FrameOf(brokertest.FetchRequest(12, 1000, topic, brokertest.FetchFrom{BytesMax: bytesMax}), 12, 1, nil)
	return func(w *hostileWorker) {
		if nc, first := w.hold(1); first && nc != nil {
			for range fetches {
				nc.Write(frame)
			}
		}
	}
}

// connectAndReset sends nothing, or a part of a frame.
func connectAndReset(w *hostileWorker) {
	if nc := w.dial(); nc != nil && w.n%3 == 0 {
		nc.Write([]byte{0, 0, 0, 20, 0, 3})
	}
	w.reset()
}

// pipeline sends n requests at once and takes their answers only when all are sent, or the broker takes no more.
func pipeline(frame []byte, n int) func(*hostileWorker) {
	frames := slices.Repeat(frame, n)
	return func(w *hostileWorker) {
		if nc := w.dial(); nc != nil {
			nc.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			sent, _ := nc.Write(frames)
			for range sent / len(frame) {
				if _, err := (&brokertest.Conn{NetConn: nc}).ReadFrame(brokertest.Patience); err != nil {
					break
				}
			}
		}
		w.reset()
	}
}
