package meta

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"
)

// counter adds up numbers and remembers how many commands it has seen.
type counter struct {
	mu    sync.Mutex
	sum   uint64
	count uint64
}

func (c *counter) Apply(command []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(command) < 8 {
		return nil, fmt.Errorf("command of %d bytes", len(command))
	}
	c.sum += binary.BigEndian.Uint64(command)
	c.count++
	return binary.BigEndian.AppendUint64(nil, c.sum), nil
}

func (c *counter) Snapshot(dst []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, c.sum), c.count), nil
}

func (c *counter) Restore(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(b) != 16 {
		return fmt.Errorf("%d bytes", len(b))
	}
	c.sum, c.count = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	return nil
}

func (c *counter) state() (sum, count uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum, c.count
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func testOptions(fs vfs.FS, m Machine) Options {
	return Options{Dir: "meta", FS: fs, NodeID: 1, Sync: true, Machines: map[uint8]Machine{1: m}}
}

func mustOpen(t testing.TB, o Options) *Node {
	t.Helper()
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func mustPropose(t testing.TB, n *Node, v uint64) uint64 {
	t.Helper()
	b, err := n.Propose(t.Context(), 1, number(v))
	if err != nil {
		t.Fatal(err)
	}
	return binary.BigEndian.Uint64(b)
}

func TestReplaysAfterClose(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent()) // failed nodes of other tests stay
	fs := vfs.NewMem()
	var clusterID string
	for round := range uint64(3) {
		c := &counter{}
		o := testOptions(fs, c)
		o.SnapshotEntries = 5
		n := mustOpen(t, o)
		if !n.IsLeader() {
			t.Fatal("not leader after Open")
		}
		if id, ok := n.Leader(); id != 1 || !ok {
			t.Fatalf("leader %d %v", id, ok)
		}
		if _, count := c.state(); count != round*7 {
			t.Fatalf("round %d: %d commands after Open", round, count)
		}
		if round == 0 {
			clusterID = n.ClusterID()
		}
		if n.ClusterID() != clusterID || len(clusterID) != 22 {
			t.Fatalf("cluster id %q then %q", clusterID, n.ClusterID())
		}
		for i := range uint64(7) {
			if got, want := mustPropose(t, n, 1), round*7+i+1; got != want {
				t.Fatalf("result %d, want %d", got, want)
			}
		}
		if n.Metrics().Snapshots.Load() == 0 {
			t.Fatal("no snapshot was taken")
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Propose(t.Context(), 1, number(1)); !errors.Is(err, ErrClosed) {
			t.Fatalf("propose after close: %v", err)
		}
	}
}

func TestRefusesAnotherIdentity(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs, &counter{})
	n := mustOpen(t, o)
	clusterID := n.ClusterID()
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrInUse) {
		t.Errorf("second open: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	o.NodeID = 2
	_, err := Open(t.Context(), o)
	if !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "belongs to node 1 of cluster "+clusterID+", not to node 2; start with node.id=1") {
		t.Errorf("another node id: %v", err)
	}
	o.NodeID, o.ClusterID = 1, "AAAAAAAAAAAAAAAAAAAAAA"
	if _, err = Open(t.Context(), o); !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "belongs to cluster "+clusterID) {
		t.Errorf("another cluster id: %v", err)
	}
	o.ClusterID = clusterID
	if err := mustOpen(t, o).Close(); err != nil {
		t.Error(err)
	}
}

// A crash at any moment keeps every command that was answered, and applies each once.
func TestCrashKeepsWhatWasAnswered(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewCrashableMem()
	for round := range 12 {
		c := &counter{}
		o := testOptions(fs, c)
		o.SnapshotEntries = 20
		n := mustOpen(t, o)
		base, _ := c.state()
		const writers = 8
		var answered [writers]uint64
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := n.Propose(context.Background(), 1, number(1)); err != nil {
						return
					}
					answered[w]++
				}
			})
		}
		target := n.Metrics().Applied.Load() + int64(1+rng.IntN(200))
		waitFor(t, func() bool { return n.Metrics().Applied.Load() >= target })
		before, _ := c.state()
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		close(stop)
		wg.Wait()
		var total uint64
		for _, a := range answered {
			total += a
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if after, _ := c.state(); after != base+total {
			t.Fatalf("round %d: sum %d, answered %d more than %d", round, after, total, base)
		}
		check := &counter{}
		o = testOptions(crashed, check)
		n = mustOpen(t, o)
		sum, count := check.state()
		if sum < before || sum != count {
			t.Fatalf("round %d: sum %d of %d commands after the crash, %d were applied before it", round, sum, count, before)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		fs = crashed
	}
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("condition did not come true")
		}
	}
}

// A write or sync of the log that fails ends the node with an error for everyone, and is not tried again.
func TestFailedSyncStopsProposals(t *testing.T) {
	var broken, syncs atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() > 0 && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo) {
			syncs.Add(1)
			return errors.New("disk is gone")
		}
		return nil
	}))
	c := &counter{}
	n := mustOpen(t, testOptions(fs, c))
	mustPropose(t, n, 1)
	broken.Add(1)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := n.Propose(context.Background(), 1, number(1)); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "disk is gone") {
				t.Errorf("propose on a broken disk: %v", err)
			}
		})
	}
	wg.Wait()
	<-n.FailedSignal()
	tried := syncs.Load()
	if _, err := n.Propose(t.Context(), 1, number(1)); !errors.Is(err, ErrFailed) {
		t.Errorf("propose after the failure: %v", err)
	}
	if n.IsLeader() || n.Failed() == nil {
		t.Error("still leader after the failure")
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if syncs.Load() != tried {
		t.Errorf("synced again after the failure")
	}
	if sum, _ := c.state(); sum != 1 {
		t.Errorf("a command that is not on disk was applied: sum %d", sum)
	}
}

// Whatever write fails while a directory is made or opened, Open returns the error.
func TestOpenReturnsEveryFault(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		faults := 0
		for n := int64(1); ; n++ {
			fs := vfs.NewMem()
			if !fresh {
				if err := mustOpen(t, testOptions(fs, &counter{})).Close(); err != nil {
					t.Fatal(err)
				}
			}
			var writes atomic.Int64
			broken := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) == n {
					return errors.New("disk is gone")
				}
				return nil
			}))
			node, err := Open(t.Context(), testOptions(broken, &counter{}))
			if err == nil {
				err = node.Close()
			} else {
				faults++
			}
			if err == nil && writes.Load() < n {
				break
			}
			if err != nil && !strings.Contains(err.Error(), "disk is gone") {
				t.Fatalf("fresh %v, write %d: %v", fresh, n, err)
			}
		}
		if faults < 10 {
			t.Errorf("fresh %v: only %d faults", fresh, faults)
		}
	}
}

// Whatever write fails while commands are taken, nobody waits for ever, and what was answered is there
// after a power cut and a new start.
func TestEveryFaultKeepsWhatWasAnswered(t *testing.T) {
	for n := int64(1); ; n += 2 {
		fs := vfs.NewCrashableMem()
		var armed atomic.Bool
		var writes atomic.Int64
		broken := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) >= n {
				return errors.New("disk is gone")
			}
			return nil
		}))
		o := testOptions(broken, &counter{})
		o.SnapshotEntries = 5
		node := mustOpen(t, o)
		armed.Store(true)
		var answered uint64
		var err error
		for range 40 {
			var b []byte
			if b, err = node.Propose(t.Context(), 1, number(1)); err != nil {
				break
			}
			answered = binary.BigEndian.Uint64(b)
		}
		if err != nil && !errors.Is(err, ErrFailed) {
			t.Fatalf("write %d: %v", n, err)
		}
		_ = node.Close() // may meet the fault
		c := &counter{}
		again := mustOpen(t, testOptions(fs.CrashClone(vfs.CrashCloneCfg{}), c))
		if sum, count := c.state(); sum < answered || sum != count {
			t.Fatalf("write %d: sum %d of %d commands, %d were answered", n, sum, count, answered)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			break
		}
	}
}

func TestUnknownCommandStopsTheNode(t *testing.T) {
	n := mustOpen(t, testOptions(vfs.NewMem(), &counter{}))
	if _, err := n.Propose(t.Context(), 1, []byte("x")); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "command of 1 bytes") {
		t.Errorf("unknown command: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

func TestProposeHonoursItsContext(t *testing.T) {
	n := mustOpen(t, testOptions(vfs.NewMem(), &counter{}))
	defer n.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	// The queue may take it or not; either way the caller is released.
	if _, err := n.Propose(ctx, 1, number(1)); err != nil && !errors.Is(err, cause) {
		t.Error(err)
	}
	if _, err := n.Propose(t.Context(), 9, nil); err == nil {
		t.Error("an unknown machine took a command")
	}
	if _, err := n.Propose(t.Context(), 1, make([]byte, CommandBytesMax+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("large command: %v", err)
	}
}

// SIGKILL in the middle: what the child printed as answered is there.
func TestSurvivesKill(t *testing.T) {
	if dir := os.Getenv("MILLRACE_META_KILL_DIR"); dir != "" {
		o := testOptions(vfs.Default, &counter{})
		o.Dir, o.Sync, o.SnapshotEntries = dir, false, 50
		n := mustOpen(t, o)
		for {
			fmt.Printf("sum %d\n", mustPropose(t, n, 1))
		}
	}
	dir := t.TempDir()
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSurvivesKill$")
		cmd.Env = append(os.Environ(), "MILLRACE_META_KILL_DIR="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var answered uint64
		for range 300 {
			if _, err := fmt.Fscanf(out, "sum %d\n", &answered); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		c := &counter{}
		o := testOptions(vfs.Default, c)
		o.Dir = dir
		n := mustOpen(t, o)
		if sum, count := c.state(); sum < answered || sum != count {
			t.Fatalf("sum %d of %d commands, %d were answered", sum, count, answered)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		o := testOptions(vfs.Default, &counter{})
		o.Dir = b.TempDir() + "/meta"
		n := mustOpen(b, o)
		b.StopTimer()
		if err := n.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkPropose(b *testing.B) {
	for _, group := range []int{1, 64} {
		b.Run(fmt.Sprint("group=", group), func(b *testing.B) {
			o := testOptions(vfs.Default, &counter{})
			o.Dir = b.TempDir()
			n := mustOpen(b, o)
			defer n.Close()
			b.SetParallelism((group + 1) / 2)
			if group == 1 {
				for b.Loop() {
					mustPropose(b, n, 1)
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := n.Propose(context.Background(), 1, number(1)); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
