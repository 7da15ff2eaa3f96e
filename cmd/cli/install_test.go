package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A service manager that waits for the broker hears when it is ready, and when it stops.
func TestServiceManagerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	heard := func() string {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		var b [256]byte
		n, err := socket.Read(b[:])
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	b := serve(t, t.TempDir())
	if got := heard(); got != "READY=1" {
		t.Errorf("heard %q, want READY=1", got)
	}
	if err := b.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := heard(); got != "STOPPING=1" {
		t.Errorf("heard %q, want STOPPING=1", got)
	}
}

func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if code, _, errOut := run(t, "", "docs", "man", dir); code != 0 {
		t.Fatal(errOut)
	}
	for page, want := range map[string]string{"millrace.1": "SEE ALSO", "millrace-serve.1": "print-config", "millrace-group-reset-offsets.1": "to-earliest"} {
		raw, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.Contains(strings.ReplaceAll(string(raw), `\-`, "-"), want) {
			t.Errorf("%s: no %q in it, %v", page, want, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "millrace-docs.1")); err == nil {
		t.Error("a hidden command has a page")
	}
}
