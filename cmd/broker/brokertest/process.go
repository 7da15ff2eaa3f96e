package brokertest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Broker is a running broker under test.
type Broker struct {
	Addr      string // host:port of its plaintext listener
	AdminAddr string // host:port of its admin listener; "" for a broker from outside
	DataDir   string // "" for a broker from outside
	Pid       int    // of the running process; 0 for a broker from outside

	settings map[string]string
	process  *process
}

// process is one life of a broker: the command, and a channel that closes when it has ended.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
}

const startTries = 5

// Outside returns the address of a broker from outside that the tests are to use, or "".
func Outside() string { return os.Getenv("MILLRACE_TEST_BROKER") }

// Start runs a fresh broker with the given settings in a directory of its own and waits until it is ready; it
// ends with the test. With "listeners" among the settings Addr means nothing. A broker from outside is used as it is, where the test asks for no other settings than its own.
func Start(t testing.TB, settings map[string]string) *Broker {
	t.Helper()
	if addr := Outside(); addr != "" {
		skipUnlessSet(t, settings)
		return &Broker{Addr: addr}
	}
	b, err := Launch(t.TempDir(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.End()
		if t.Failed() {
			t.Logf("end of the broker's log:\n%s", b.LogTail(4000))
		}
	})
	return b
}

func skipUnlessSet(t testing.TB, settings map[string]string) {
	t.Helper()
	have := strings.Split(os.Getenv("MILLRACE_TEST_BROKER_SETTINGS"), ",")
	for key, value := range settings {
		if !slices.Contains(have, key+"="+value) {
			t.Skipf("the broker from outside runs without %s=%s", key, value)
		}
	}
}

// Launch is Start without a test: the caller calls End. dir is made if it is missing and is kept.
func Launch(dir string, settings map[string]string) (*Broker, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	b := &Broker{DataDir: filepath.Join(dir, "data"), settings: settings}
	for try := 1; ; try++ {
		addrs, err := FreeAddrs(2)
		if err != nil {
			return nil, err
		}
		b.Addr, b.AdminAddr = addrs[0], addrs[1]
		// A port that was free a moment ago may be taken by now: another try takes others.
		if err = b.launch(binary); err == nil || try == startTries || !strings.Contains(err.Error(), "address already in use") {
			return b, err
		}
	}
}

// Binary builds the broker's command once per run of the test binary and returns its path.
func Binary() (string, error) { return built.get() }

// built remembers the one build. It is written once, under the Once.
var built build

type build struct {
	once sync.Once
	path string
	err  error
}

func (b *build) get() (string, error) {
	b.once.Do(func() { b.path, b.err = buildBinary() })
	return b.path, b.err
}

// buildBinary links into a name of its own and renames, so that test binaries running side by side never start a
// half-written file.
func buildBinary() (string, error) {
	if path := os.Getenv("MILLRACE_TEST_BINARY"); path != "" {
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	tmp := filepath.Join(root, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	fresh := filepath.Join(tmp, fmt.Sprintf("millrace.%d", os.Getpid()))
	cmd := exec.Command("go", "build", "-o", fresh, "./cmd/millrace")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the broker: %w\n%s", err, out)
	}
	path := filepath.Join(tmp, "millrace")
	return path, os.Rename(fresh, path)
}

// Root returns the top of the source tree, found from this file's own place.
func Root() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", fmt.Errorf("no source path in the test binary")
	}
	return filepath.Abs(filepath.Join(filepath.Dir(file), "..", "..", ".."))
}

// FreeAddrs returns n loopback addresses whose ports were free a moment ago.
func FreeAddrs(n int) ([]string, error) {
	addrs := make([]string, n)
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs[i] = l.Addr().String()
	}
	return addrs, nil
}

// launch starts the process on b's addresses and directory and returns when /readyz says so.
func (b *Broker) launch(binary string) error {
	args := []string{"serve", "--set", "millrace.admin.listen=" + b.AdminAddr}
	if b.settings["log.dirs"] == "" {
		args = append(args, "--data-dir", b.DataDir)
	}
	if b.settings["listeners"] == "" {
		args = append(args, "--listen", b.Addr)
	}
	if backend := os.Getenv("MILLRACE_TEST_BACKEND"); backend != "" && b.settings["millrace.io.backend"] == "" {
		args = append(args, "--set", "millrace.io.backend="+backend)
	}
	for key, value := range b.settings {
		args = append(args, "--set", key+"="+value)
	}
	if err := os.MkdirAll(b.DataDir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(b.DataDir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	p := &process{cmd: exec.Command(binary, args...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// What begins with MILLRACE_ is a setting to the broker, and an option of the tests to us.
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MILLRACE_") })
	// The broker must not outlive a test binary that is killed or times out.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		log.Close()
		return fmt.Errorf("start %s: %w", binary, err)
	}
	go func() { // ends with the process
		p.cmd.Wait()
		log.Close()
		close(p.ended)
	}()
	b.process, b.Pid = p, p.cmd.Process.Pid
	return b.awaitReady()
}

func (b *Broker) awaitReady() error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.After(Patience)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		resp, err := client.Get("http://" + b.AdminAddr + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-b.process.ended:
			return fmt.Errorf("the broker ended before it was ready:\n%s", b.LogTail(4000))
		case <-deadline:
			b.End()
			return fmt.Errorf("the broker was not ready within %v:\n%s", Patience, b.LogTail(4000))
		case <-poll.C:
		}
	}
}

// Alive says whether the process runs (a broker from outside always does).
func (b *Broker) Alive() bool {
	if b.process == nil {
		return Outside() != ""
	}
	select {
	case <-b.process.ended:
		return false
	default:
		return true
	}
}

// Restart starts the broker again on the same directory and addresses, after Stop or Kill.
func (b *Broker) Restart(t testing.TB) {
	t.Helper()
	skipOutside(t, "a restart")
	binary, err := Binary()
	if err == nil {
		err = b.launch(binary)
	}
	if err != nil {
		t.Fatalf("restart: %v", err)
	}
}

// Stop ends the broker with SIGTERM and waits for a clean exit.
func (b *Broker) Stop(t testing.TB) {
	t.Helper()
	skipOutside(t, "a clean stop")
	b.process.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.process.ended:
	case <-time.After(Patience):
		t.Fatalf("the broker did not stop within %v of SIGTERM", Patience)
	}
	if code := b.process.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit status %d after SIGTERM:\n%s", code, b.LogTail(4000))
	}
}

// Kill ends the broker with SIGKILL.
func (b *Broker) Kill(t testing.TB) {
	t.Helper()
	skipOutside(t, "a kill")
	b.End()
}

// End kills the process, if one runs, and waits for its end.
func (b *Broker) End() {
	if b.process == nil {
		return
	}
	b.process.cmd.Process.Kill()
	<-b.process.ended
}

// SkipOnKafka skips a test of something that this broker does better than Apache Kafka, when it runs against a
// broker from outside.
func (b *Broker) SkipOnKafka(t testing.TB, why string) {
	t.Helper()
	if Outside() != "" {
		t.Skip("better than Apache Kafka: " + why)
	}
}

func skipOutside(t testing.TB, what string) {
	t.Helper()
	if Outside() != "" {
		t.Skipf("needs %s, and the broker is from outside", what)
	}
}

// LogTail returns the last bytes of what the broker wrote to its log.
func (b *Broker) LogTail(bytesMax int) string {
	raw, err := os.ReadFile(b.DataDir + ".log")
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(raw[max(0, len(raw)-bytesMax):]))
}
