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

// logged waits until the broker has logged a line with all of these.
func (c *child) logged(parts ...string) {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
	lines:
		for line := range strings.Lines(c.text()) {
			for _, part := range parts {
				if !strings.Contains(line, part) {
					continue lines
				}
			}
			return
		}
		select {
		case <-c.done:
			c.t.Fatalf("the broker ended:\n%s", c.text())
		case <-time.After(5 * time.Millisecond):
		}
	}
	c.t.Fatalf("%q is not logged:\n%s", parts, c.text())
}

// TestReload has a running broker read its settings again: dynamic ones take effect, faulty ones change nothing, and
// the configs of the cluster count before them.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "broker.properties")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("num.partitions=2\n")
	c := serve(t, filepath.Join(dir, "data"), "--config", file)
	defer c.end(syscall.SIGTERM)
	read := func(text string) {
		write(text)
		if err := c.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	f := func(want string, args ...string) {
		t.Helper()
		if code, out, errOut := run(t, "", append(args, "--broker", c.address)...); code != 0 || !strings.Contains(out, want) {
			t.Fatalf("%q: code %d, %q, %q; want %q", args, code, out, errOut, want)
		}
	}
	// closed has a connection closed for what it sends, which netio logs with level debug.
	closed := func() {
		t.Helper()
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
			t.Fatal(err)
		}
		c.logged(`"level":"DEBUG"`, "closing connection", `"component":"netio"`, conn.LocalAddr().String())
	}
	awaitRetention := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; {
			code, out, errOut := run(t, "", "config", "describe", "topic", "a", "retention.ms", "--broker", c.address)
			if code == 0 && strings.Contains(out, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("code %d, %q, %q; want %s", code, out, errOut, want)
			}
		}
	}
	f("", "topic", "create", "a")
	f("604800000", "config", "describe", "topic", "a", "retention.ms")
	read("num.partitions=3\nlog.retention.ms=86400000\nmillrace.log.level=info,netio=debug\n")
	c.logged("next start", `"settings":"num.partitions"`)
	awaitRetention("86400000")
	f("info,netio=debug", "config", "describe", "broker", "1", "millrace.log.level")
	closed()
	read("log.retention.ms=1000\nmillrace.log.level=info,disk=loud\n")
	c.logged("settings stay as they were", "no component", "disk")
	f("86400000", "config", "describe", "topic", "a", "retention.ms")
	read("")
	awaitRetention("604800000")
	f("changed 1 config", "config", "set", "broker", "1", "millrace.log.level=error,netio=debug")
	closed()
}
