package netio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"millrace/perf"
)

func TestFramesInEveryCut(t *testing.T) {
	s := start(t, Options{})
	one := appendFrame(nil, bytes.Repeat([]byte("x"), 100))
	t.Run("one byte a segment", func(t *testing.T) {
		c := dial(t, s)
		for i := range one {
			send(t, c, one[i:i+1])
		}
		if got := receive(t, c); !bytes.Equal(got, one[headBytes:]) {
			t.Fatalf("got %q", got)
		}
	})
	t.Run("500 requests in one write", func(t *testing.T) {
		c := dial(t, s)
		var all []byte
		for i := range 500 {
			all = appendFrame(all, fmt.Appendf(nil, "request %d", i))
		}
		send(t, c, all)
		for i := range 500 {
			if got, want := string(receive(t, c)), fmt.Sprintf("request %d", i); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	})
	for _, cut := range []int{1, 3, 4, 5, 103} {
		t.Run(fmt.Sprintf("cut after %d", cut), func(t *testing.T) {
			c := dial(t, s)
			before := s.metrics.BytesIn.Load()
			send(t, c, one[:cut])
			eventually(t, "first part read", func() bool { return s.metrics.BytesIn.Load() == before+int64(cut) })
			send(t, c, one[cut:])
			if got := receive(t, c); !bytes.Equal(got, one[headBytes:]) {
				t.Fatalf("got %q", got)
			}
		})
	}
	balanced(t, s)
}

func TestLargeFramesBetweenSmallOnes(t *testing.T) {
	s := start(t, Options{OutboundBytesMax: 64 << 20})
	c := dial(t, s)
	var want [][]byte
	for i, size := range []int{10, 70_000, 1 << 20, 1, chunkBytes, chunkBytes - headBytes, 5 << 20, 20 << 20, 3} {
		p := make([]byte, size)
		for j := range p {
			p[j] = byte(j*7 + i)
		}
		want = append(want, p)
	}
	go func() {
		var all []byte
		for _, p := range want {
			all = appendFrame(all, p)
		}
		_, _ = c.Write(all)
	}()
	for i, p := range want {
		if got := receive(t, c); !bytes.Equal(got, p) {
			t.Fatalf("frame %d of %d bytes came back wrong", i, len(p))
		}
	}
	balanced(t, s)
}

// A08: lengths that cannot be served cost the sender the connection, and the server nothing.
func TestBadLengthClosesAtOnce(t *testing.T) {
	s := start(t, Options{})
	f := func(size uint32, cause Cause) {
		t.Helper()
		before := s.metrics.Closed(cause)
		c := dial(t, s)
		send(t, c, binary.BigEndian.AppendUint32(nil, size))
		closedByPeer(t, c)
		if s.metrics.Closed(cause) != before+1 {
			t.Errorf("length %#x was not counted as %v", size, cause)
		}
	}
	f(0, CauseFrameInvalid)
	f(0xffffffff, CauseFrameInvalid)
	f(0x80000000, CauseFrameInvalid)
	f(0x47455420, CauseFrameTooLarge) // "GET "
	f(0x16030100, CauseFrameTooLarge) // a TLS hello
	f(100<<20+1, CauseFrameTooLarge)
	balanced(t, s)
}

func TestFrameThatNeverFitsIsRefused(t *testing.T) {
	s := start(t, Options{InflightBytesMax: 8 << 20, Loops: 1})
	c := dial(t, s)
	send(t, c, binary.BigEndian.AppendUint32(nil, 8<<20))
	closedByPeer(t, c)
	if s.metrics.Closed(CauseFrameNeverFit) != 1 {
		t.Fatal("not counted")
	}
}

// The answers that were due before a bad length still go out.
func TestBadLengthAfterGoodRequest(t *testing.T) {
	s := start(t, Options{})
	c := dial(t, s)
	send(t, c, append(appendFrame(nil, []byte("good")), 0xff, 0xff, 0xff, 0xff))
	if got := string(receive(t, c)); got != "good" {
		t.Fatalf("got %q", got)
	}
	closedByPeer(t, c)
}

// A socket that sends only a length, or a little of a large frame, costs about what it sent.
func TestAnnouncedSizeAllocatesNothing(t *testing.T) {
	s := start(t, Options{})
	for range 20 {
		c := dial(t, s)
		send(t, c, binary.BigEndian.AppendUint32(nil, 100<<20))
	}
	eventually(t, "lengths read", func() bool { return s.metrics.BytesIn.Load() == 20*headBytes })
	if n := s.options.Pool.Leased(); n != 0 {
		t.Fatalf("%d bytes on lease for lengths alone", n)
	}
	c := dial(t, s)
	send(t, c, append(binary.BigEndian.AppendUint32(nil, 100<<20), make([]byte, 1000)...))
	eventually(t, "bytes read", func() bool { return s.metrics.BytesIn.Load() == 21*headBytes+1000 })
	if n := s.options.Pool.Leased(); n > 4096 {
		t.Fatalf("%d bytes on lease for 1000", n)
	}
}

func TestAssemblerRoomFollowsBytes(t *testing.T) {
	pool := perf.NewPool(0)
	var a assembler
	check := func(int32) Cause { return 0 }
	const size = 100 << 20
	_, _, _, _ = a.next(pool, binary.BigEndian.AppendUint32(nil, size), check)
	if a.gathering() {
		t.Fatal("room for a length alone")
	}
	_, _, _, _ = a.next(pool, []byte{1}, check)
	for a.gathering() {
		if len(a.tail()) == 0 {
			a.widen(pool, a.step())
		}
		if beyond := a.room - a.received(); beyond > bodyBytesStep {
			t.Fatalf("%d bytes of room beyond the %d received", beyond, a.received())
		}
		frame, owned := a.filled(min(len(a.tail()), 60_000))
		if owned != nil {
			if len(frame) != size {
				t.Fatalf("frame of %d bytes", len(frame))
			}
			owned.Release()
		}
	}
	if pool.Leased() != 0 {
		t.Fatalf("%d bytes on lease", pool.Leased())
	}
}

func FuzzAssembler(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x03abc\x00\x00\x00\x01d"), uint8(3))
	f.Add([]byte("\xff\xff\xff\xff"), uint8(1))
	f.Add(appendFrame(nil, make([]byte, 3000)), uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint8) {
		pool := perf.NewPool(1 << 20)
		check := func(size int32) Cause {
			if size <= 0 || size > 4096 {
				return CauseFrameTooLarge
			}
			return 0
		}
		var a assembler
		var got []byte
		fault := Cause(0)
		for at := 0; at < len(stream) && fault == 0; {
			chunk := stream[at:min(len(stream), at+int(cut)+1)]
			at += len(chunk)
			for len(chunk) > 0 && fault == 0 {
				var frame []byte
				var owned *perf.Buffer
				frame, owned, chunk, fault = a.next(pool, chunk, check)
				if frame != nil {
					got = appendFrame(got, frame)
				}
				owned.Release()
			}
		}
		if !bytes.HasPrefix(stream, got) {
			t.Fatalf("frames %x are not the start of %x", got, stream)
		}
		a.reset()
		if pool.Leased() != 0 {
			t.Fatalf("%d bytes on lease", pool.Leased())
		}
	})
}
