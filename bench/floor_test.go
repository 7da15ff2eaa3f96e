package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"millrace/perf"
)

// BenchmarkFloor tells what this host's kernel takes for the input and output of a broker when nothing is done between:
// a server that is one thread on the first processor and a client on the second, blocking calls, one connection. It is
// the limit of what a broker could reach here in the minute of the run: the like of P1, P7, L1 and F1. Where it is checked,
// the thread does what a broker with a format of its own cannot leave out, with nothing decided on the way: it checks
// what came, copies it once, and makes the checksum of what goes.
func BenchmarkFloor(b *testing.B) {
	b.Run("produce/bare", func(b *testing.B) { floorProduce(b, 100<<10, false, false) })
	b.Run("produce/checked", func(b *testing.B) { floorProduce(b, 100<<10, true, false) })
	b.Run("produce/synced", func(b *testing.B) { floorProduce(b, 10<<10, false, true) })
	b.Run("fetch/read", func(b *testing.B) { floorFetch(b, false, false) })
	b.Run("fetch/checked", func(b *testing.B) { floorFetch(b, false, true) })
	b.Run("fetch/sendfile", func(b *testing.B) { floorFetch(b, true, false) })
	b.Run("latency", floorLatency)
}

// floorProduce takes requests of P1 or P7, as many a time as their window has, and writes them to a file.
func floorProduce(b *testing.B, frame int64, checked, synced bool) {
	b.SetBytes(frame)
	total := int64(b.N) * frame
	f := warmFile(b, total)
	used := measureServer(b, func(conn int) {
		buf, stored := make([]byte, 4*frame), make([]byte, frame)
		for done := int64(0); done < total; {
			n := receive(b, conn, buf[:min(4*frame, total-done)])
			for request := range slices.Chunk(buf[:n], int(frame)) {
				if checked {
					_ = perf.CRC32C(request)
					copy(stored, request)
					_ = perf.CRC32C(stored)
				}
			}
			must(b, n, func() (int, error) { return unix.Pwrite(f, buf[:n], done) })
			if synced {
				must(b, 0, func() (int, error) { return 0, unix.Fdatasync(f) })
			}
			done += int64(n)
			must(b, 64, func() (int, error) { return unix.Write(conn, buf[:64]) })
		}
	}, func(conn int) {
		buf := make([]byte, 4*frame)
		for left := total; left > 0; {
			n := int(min(4*frame, left))
			for sent := 0; sent < n; {
				sent += must(b, 0, func() (int, error) { return unix.Write(conn, buf[sent:n]) })
			}
			receive(b, conn, buf[:64])
			left -= int64(n)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	reportUsed(b, used, total)
}

// floorFetch sends a resident file, 1 MiB a time, each asked for. The read is the copy of one that is checked.
func floorFetch(b *testing.B, sendfile, checked bool) {
	const answer, size = 1 << 20, 64 << 20
	b.SetBytes(answer)
	f := warmFile(b, size)
	must(b, size, func() (int, error) { return unix.Pwrite(f, make([]byte, size), 0) })
	used := measureServer(b, func(conn int) {
		buf := make([]byte, answer)
		for i := range b.N {
			receive(b, conn, buf[:64])
			at := int64(i) * answer % size
			if !sendfile {
				must(b, answer, func() (int, error) { return unix.Pread(f, buf, at) })
			}
			for batch := range slices.Chunk(buf, 100<<10) {
				if checked {
					_ = perf.CRC32C(batch) + perf.CRC32C(batch)
				}
			}
			for sent := 0; sent < answer; {
				sent += must(b, 0, func() (int, error) {
					if sendfile {
						return unix.Sendfile(conn, f, &at, answer-sent)
					}
					return unix.Write(conn, buf[sent:])
				})
			}
		}
	}, func(conn int) {
		buf := make([]byte, answer)
		for range b.N {
			must(b, 64, func() (int, error) { return unix.Write(conn, buf[:64]) })
			receive(b, conn, buf)
		}
	})
	reportUsed(b, used, int64(b.N)*answer)
}

// floorLatency answers L1's requests, by its clock.
func floorLatency(b *testing.B) {
	const frame, rate = 10 << 10, 2000
	f := warmFile(b, int64(b.N)*frame)
	took := make([]time.Duration, 0, b.N)
	used := measureServer(b, func(conn int) {
		buf := make([]byte, frame)
		for i := range b.N {
			receive(b, conn, buf)
			must(b, frame, func() (int, error) { return unix.Pwrite(f, buf, int64(i)*frame) })
			must(b, 64, func() (int, error) { return unix.Write(conn, buf[:64]) })
		}
	}, func(conn int) {
		buf := make([]byte, frame)
		due := time.Now()
		for range b.N {
			due = due.Add(time.Second / rate)
			for left := time.Until(due); left > 0; left = time.Until(due) {
				spec := unix.NsecToTimespec(int64(left))
				_ = unix.Nanosleep(&spec, nil) // looked at again
			}
			must(b, frame, func() (int, error) { return unix.Write(conn, buf) })
			receive(b, conn, buf[:64])
			took = append(took, time.Since(due))
		}
	})
	slices.Sort(took)
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/request")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
}

func reportUsed(b *testing.B, used time.Duration, bytes int64) {
	b.ReportMetric(used.Seconds()/(float64(bytes)/1e9), "cpu-s/GB")
}

// warmFile is a new preallocated file. The memory that it will take was used a moment ago: the host takes back what
// is free for longer, and gives it again slowly.
func warmFile(b *testing.B, size int64) int {
	b.Helper()
	warm := filepath.Join(b.TempDir(), "warm")
	if err := os.WriteFile(warm, make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
	os.Remove(warm)
	f, err := unix.Open(filepath.Join(b.TempDir(), "file"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		err = unix.Fallocate(f, 0, 0, size)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(f) })
	return f
}

// measureServer runs both ends of a connection, each on a thread and processor of its own, and returns the processor
// time of the server's.
func measureServer(b *testing.B, server, client func(conn int)) time.Duration {
	b.Helper()
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = unix.Listen(listener, 1)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(listener)
	address, _ := unix.Getsockname(listener)
	conn, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(conn, address)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(conn)
	peer, _, err := unix.Accept(listener)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(peer)
	for _, fd := range []int{conn, peer} {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	run := func(cpu int, end func(conn int), conn int) <-chan time.Duration {
		ended := make(chan time.Duration, 1)
		go func() {
			defer close(ended)
			runtime.LockOSThread() // and never unlocked: the thread ends, and its affinity with it
			var set unix.CPUSet
			set.Set(cpu)
			_ = unix.SchedSetaffinity(0, &set) // with one processor only, both share it
			end(conn)
			var used unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_THREAD, &used)
			ended <- time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}()
		return ended
	}
	b.ResetTimer()
	serves, asks := run(0, server, peer), run(1, client, conn)
	<-asks
	return <-serves
}

// receive fills the buffer.
func receive(b *testing.B, conn int, buf []byte) int {
	for got := 0; got < len(buf); {
		n := must(b, 0, func() (int, error) { return unix.Read(conn, buf[got:]) })
		if n == 0 {
			b.Error("the connection ended")
			runtime.Goexit()
		}
		got += n
	}
	return len(buf)
}

// must repeats a call that was interrupted, and fails where it fails or, with want, does less.
func must(b *testing.B, want int, call func() (int, error)) int {
	for {
		n, err := call()
		if err == unix.EINTR {
			continue
		}
		if err != nil || want > 0 && n != want {
			b.Errorf("%d of %d: %v", n, want, err)
			runtime.Goexit()
		}
		return n
	}
}
