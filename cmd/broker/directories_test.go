package broker_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// twoDirs runs a broker on two directories, the second on a file system of its own of so many MiB where that is not 0.
func twoDirs(t *testing.T, secondSize string) (b *brokertest.Broker, second string) {
	t.Helper()
	if brokertest.Outside() != "" {
		t.Skip("needs directories of its own")
	}
	dir := t.TempDir()
	second = filepath.Join(dir, "second")
	if err := os.Mkdir(second, 0o755); err != nil {
		t.Fatal(err)
	}
	if secondSize != "" {
		if err := syscall.Mount("tmpfs", second, "tmpfs", 0, "size="+secondSize); err != nil {
			t.Skip("needs the right to mount: ", err)
		}
		t.Cleanup(func() { syscall.Unmount(second, syscall.MNT_DETACH) })
	}
	b, err := brokertest.Launch(dir, map[string]string{"log.dirs": filepath.Join(dir, "data") + "," + second, "log.segment.bytes": "1048576"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.End()
		if t.Failed() {
			t.Log(b.LogTail(6000))
		}
	})
	return b, second
}

// logDirs returns the directory of each partition of a topic, and the code of each directory.
func logDirs(c *brokertest.Conn, topic brokertest.Topic) (of map[int32]string, codes map[string]int16) {
	resp := c.Request(kmsg.NewPtrDescribeLogDirsRequest(), 4).(*kmsg.DescribeLogDirsResponse)
	of, codes = map[int32]string{}, map[string]int16{}
	for _, d := range resp.Dirs {
		codes[d.Dir] = d.ErrorCode
		for _, t := range d.Topics {
			for _, p := range t.Partitions {
				if t.Topic == topic.Name {
					of[p.Partition] = d.Dir
				}
			}
		}
	}
	return of, codes
}

// adminPage returns what the broker's admin endpoint says.
func adminPage(t *testing.T, b *brokertest.Broker, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + b.AdminAddr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestDirectoriesShareATopic: partitions are spread over both directories and stay where they are.
func TestDirectoriesShareATopic(t *testing.T) {
	b, second := twoDirs(t, "")
	c := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 4, nil)
	for p := range int32(4) {
		c.MustProduce(topic, p, batchOf("a", "b"))
	}
	before, _ := logDirs(c, topic)
	counts := map[string]int{}
	for _, dir := range before {
		counts[dir]++
	}
	want(t, "partitions in the first", counts[b.DataDir], 2)
	want(t, "partitions in the second", counts[second], 2)
	b.Kill(t)
	b.Restart(t)
	c = brokertest.Dial(t, b.Addr)
	after, _ := logDirs(c, topic)
	for p := range int32(4) {
		want(t, "directory after a kill", after[p], before[p])
		want(t, "log end after a kill", c.LogEnd(topic, p), 2)
	}
}

// TestDirectoryCannotBeOpened starts with one of two directories replaced by a file: its partitions answer
// KAFKA_STORAGE_ERROR, also after a topic was made beside them, and are back when it is.
func TestDirectoryCannotBeOpened(t *testing.T) {
	b, second := twoDirs(t, "")
	c := brokertest.Dial(t, b.Addr)
	topic, empty := b.NewTopic(t, 2, nil), b.NewTopic(t, 2, nil)
	for p := range int32(2) {
		c.MustProduce(topic, p, batchOf("a"))
	}
	of, _ := logDirs(c, topic)
	emptyOf, _ := logDirs(c, empty)
	b.Stop(t) // where partitions without records are becomes durable a little after they are made
	b.Restart(t)
	b.Kill(t)
	aside := second + ".aside"
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.Rename(second, aside))
	check(os.WriteFile(second, nil, 0o644))
	for range 2 {
		b.Restart(t)
		c = brokertest.Dial(t, b.Addr)
		_, codes := logDirs(c, topic)
		want(t, "code of the first directory", codes[b.DataDir], errNone)
		want(t, "code of the second directory", codes[second], errKafkaStorage)
		code := map[string]int16{b.DataDir: errNone, second: errKafkaStorage}
		for p := range int32(2) {
			want(t, "produce", c.Produce(topic, p, batchOf("b").Encode()).ErrorCode, code[of[p]])
			want(t, "fetch", c.Fetch(topic, p, 0).ErrorCode, code[of[p]])
			want(t, "list offsets", c.ListOffset(topic, p, -1).ErrorCode, code[of[p]])
			want(t, "fetch of a partition without records", c.Fetch(empty, p, 0).ErrorCode, code[emptyOf[p]])
		}
		fresh := b.NewTopic(t, 2, nil)
		c.MustProduce(fresh, 1, batchOf("a"))
		status, page := adminPage(t, b, "/readyz")
		want(t, "status of /readyz", status, http.StatusOK)
		_, metrics := adminPage(t, b, "/metrics")
		if !strings.Contains(page, second) || !strings.Contains(metrics, `millrace_engine_failed{directory="`+second+`"} 1`) {
			t.Errorf("not named by /readyz: %s or by /metrics", page)
		}
		b.Stop(t)
	}
	// A disk that is not mounted is not a new one either.
	check(os.Remove(second))
	b.Restart(t)
	c = brokertest.Dial(t, b.Addr)
	_, codes := logDirs(c, topic)
	want(t, "code of an empty directory", codes[second], errKafkaStorage)
	b.Stop(t)
	check(os.RemoveAll(second))
	check(os.Rename(aside, second))
	b.Restart(t)
	c = brokertest.Dial(t, b.Addr)
	for p := range int32(2) {
		c.MustProduce(topic, p, batchOf("c"))
		c.MustProduce(empty, p, batchOf("c"))
	}
	back, _ := logDirs(c, topic)
	want(t, "directory when it is back", back[1], of[1])
}

// TestPartitionsGoWhereRoomIs has one directory with much room and one with little.
func TestPartitionsGoWhereRoomIs(t *testing.T) {
	b, second := twoDirs(t, "48m")
	c := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 20, nil)
	of, _ := logDirs(c, topic)
	want(t, "partitions", len(of), 20)
	for p, dir := range of {
		if dir == second {
			t.Errorf("partition %d is where less room is", p)
		}
	}
}

// TestDirectoriesRefused: what cannot be meant ends the start with the remedy.
func TestDirectoriesRefused(t *testing.T) {
	b, second := twoDirs(t, "")
	b.Stop(t)
	binary, err := brokertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	third := filepath.Join(filepath.Dir(second), "third")
	if err := os.Symlink(second, third); err != nil {
		t.Fatal(err)
	}
	f := func(wants string, dirs ...string) {
		t.Helper()
		text := serveFails(t, binary, strings.Join(dirs, ","))
		if !strings.Contains(text, wants) {
			t.Errorf("%v: %s\nwant %q", dirs, text, wants)
		}
	}
	f("each once", b.DataDir, second, third)
	f("name that first", second, b.DataDir)
	f("put it back", b.DataDir)
	f("holds what is not this broker's", filepath.Join(t.TempDir(), "new"), second)
	f("holds what is not this broker's", filepath.Join(t.TempDir(), "new"), b.DataDir)
}

// serveFails starts a broker that must refuse these directories and returns what it says.
func serveFails(t *testing.T, binary, dirs string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "serve", "--data-dir", dirs, "--listen", "127.0.0.1:0", "--set", "millrace.admin.listen=")
	text, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("%s: no refusal: %v\n%s", dirs, err, text)
	}
	return string(text)
}
