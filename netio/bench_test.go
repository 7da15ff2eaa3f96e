package netio

import (
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// processorSeconds returns the user and system time of the process.
func processorSeconds(b testing.TB) float64 {
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkEcho100 is 100-byte requests over 8 connections, one at a time on each. cpu-us/op is the process,
// the clients included.
func BenchmarkEcho100(b *testing.B) { benchmarkEcho(b, 1) }

// BenchmarkEcho100Pipelined keeps 16 requests in flight on each connection.
func BenchmarkEcho100Pipelined(b *testing.B) { benchmarkEcho(b, 16) }

func benchmarkEcho(b *testing.B, window int) {
	const connections = 8
	s := start(b, Options{Loops: 1})
	request := appendFrame(nil, make([]byte, 100))
	for range window - 1 {
		request = append(request, request[:104]...)
	}
	var clients []net.Conn
	for range connections {
		c, err := net.Dial("tcp", s.Addresses()[0])
		must(b, err)
		defer c.Close()
		clients = append(clients, c)
	}
	b.ReportAllocs()
	b.ResetTimer()
	begin := processorSeconds(b)
	var wait sync.WaitGroup
	for _, c := range clients {
		wait.Go(func() {
			answer := make([]byte, len(request))
			for range b.N / connections / window {
				if _, err := c.Write(request); err != nil {
					b.Error(err)
					return
				}
				if _, err := io.ReadFull(c, answer); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	b.ReportMetric((processorSeconds(b)-begin)/float64(b.N)*1e6, "cpu-us/op")
}

// BenchmarkReceive1MB is the receiving of 1 MB frames, each answered with 4 bytes. cpu-s/GB counts the
// loop's thread alone.
func BenchmarkReceive1MB(b *testing.B) {
	const size = 1_000_000
	s := start(b, Options{Loops: 1, Handler: &handler{
		onFrame: func(x *Exchange) { x.Reply(reply(x, nil)) },
	}})
	c, err := net.Dial("tcp", s.Addresses()[0])
	must(b, err)
	defer c.Close()
	request := appendFrame(nil, make([]byte, size))
	loopSeconds := threadClock(b, s.Loops()[0])
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	begin := loopSeconds()
	var wait sync.WaitGroup
	wait.Go(func() {
		_, _ = io.CopyN(io.Discard, c, int64(b.N)*headBytes)
	})
	for range b.N {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
	}
	wait.Wait()
	b.ReportMetric((loopSeconds()-begin)/(float64(b.N)*size/1e9), "cpu-s/GB")
}

// BenchmarkSend1MB is the sending of 1 MB replies.
func BenchmarkSend1MB(b *testing.B) {
	const size = 1_000_000
	payload := make([]byte, size)
	s := start(b, Options{Loops: 1, Handler: &handler{
		onFrame: func(x *Exchange) { x.Reply(reply(x, payload)) },
	}})
	c, err := net.Dial("tcp", s.Addresses()[0])
	must(b, err)
	defer c.Close()
	request := appendFrame(nil, make([]byte, 20))
	loopSeconds := threadClock(b, s.Loops()[0])
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	begin := loopSeconds()
	go func() {
		for range b.N {
			if _, err := c.Write(request); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1<<20)
	for left := b.N * (size + headBytes); left > 0; {
		n, err := c.Read(buffer[:min(left, len(buffer))])
		must(b, err)
		left -= n
	}
	b.ReportMetric((loopSeconds()-begin)/(float64(b.N)*size/1e9), "cpu-s/GB")
}
