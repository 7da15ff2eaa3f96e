package cli

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// liar passes on what goes to a broker, and changes the large answers that come back.
type liar struct {
	listener net.Listener
	mu       sync.Mutex
	broker   string
	change   func(frame []byte)
}

// large is the size above which an answer must be a fetch.
const large = 50_000

func newLiar(t *testing.T) *liar {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{listener: listener}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			address := l.broker
			l.mu.Unlock()
			broker, err := net.Dial("tcp", address)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(broker, client)
				broker.Close()
			}()
			go func() {
				l.answers(client, broker)
				client.Close()
			}()
		}
	}()
	return l
}

func (l *liar) answers(client io.Writer, broker io.Reader) {
	for {
		frame := make([]byte, 4)
		if _, err := io.ReadFull(broker, frame); err != nil {
			return
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
		if _, err := io.ReadFull(broker, frame[4:]); err != nil {
			return
		}
		if len(frame) > large {
			l.mu.Lock()
			l.change(frame)
			l.mu.Unlock()
		}
		if _, err := client.Write(frame); err != nil {
			return
		}
	}
}

// TestBenchWrongRecords holds that records which are not what was produced, or are missing, make a run fail,
// whether they are fetched or read back.
func TestBenchWrongRecords(t *testing.T) {
	l := newLiar(t)
	c := serve(t, filepath.Join(t.TempDir(), "data"), "--advertise", l.listener.Addr().String())
	// firstBatch is behind correlation, throttle time, code, session, topic and the partition's fields.
	firstBatch := func(frame []byte) []byte {
		const topic = 4 + 4 + 4 + 2 + 4 + 4
		name := int(binary.BigEndian.Uint16(frame[topic:]))
		return frame[topic+2+name+4+4+2+8+8+8+4+4+4:]
	}
	f := func(want string, change func(frame []byte)) {
		t.Helper()
		l.mu.Lock()
		l.broker, l.change = c.address, change
		l.mu.Unlock()
		for _, workload := range []string{"P1", "F1", "F3"} {
			code, out, errOut := run(t, "", "bench", "run", workload, "--broker", l.listener.Addr().String(), "--bytes", "1MB", "--warmup", "0s")
			wrong := want != "" && (code != 1 || out != "" || !strings.Contains(errOut, want))
			if wrong || want == "" && code != 0 {
				t.Errorf("%s: code %d, want %q, got %s%s", workload, code, want, out, errOut)
			}
		}
	}
	f("", func([]byte) {})
	f("checksum", func(frame []byte) { frame[len(frame)-1] ^= 1 })
	// The offset is outside of the checksum.
	f("records are missing", func(frame []byte) {
		b := firstBatch(frame)
		binary.BigEndian.PutUint64(b, binary.BigEndian.Uint64(b)+100)
	})
	f("is not what was produced", func(frame []byte) {
		b := firstBatch(frame)
		binary.BigEndian.PutUint64(b, binary.BigEndian.Uint64(b)-7)
	})
	if left := topicsOf(t, c.address); len(left) != 0 {
		t.Errorf("topics %v are left", left)
	}
	c.end(syscall.SIGTERM)
}
