package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOwnProcess(t *testing.T) {
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		u, err := p.Usage()
		if err != nil {
			t.Fatal(err)
		}
		if u.CPU > before.CPU {
			break
		}
	}
	m, err := p.Memory()
	if err != nil || m.Own < 100<<10 || m.MappedFile < 100<<10 {
		t.Errorf("%+v, %v", m, err)
	}
	if p.CPUs() == "" {
		t.Error("no processors")
	}
}

func TestEndedProcessIsNoticed(t *testing.T) {
	cmd := exec.Command("cat")
	in, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	// Dead but not waited for is as gone as waited for.
	for deadline := time.Now().Add(10 * time.Second); p.Alive() == nil && time.Now().Before(deadline); {
	}
	if err := p.Alive(); !errors.Is(err, ErrGone) {
		t.Errorf("a zombie: %v", err)
	}
	cmd.Wait()
	if _, err := p.Usage(); !errors.Is(err, ErrGone) {
		t.Errorf("usage: %v", err)
	}
	if _, err := Open(cmd.Process.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("open: %v", err)
	}
}

// TestParsing reads a process with a nasty name from a directory that looks like /proc.
func TestParsing(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "7")
	os.Mkdir(dir, 0o755)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stat := "7 (a) R 1 (b)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 5 0 12345 99 1\n"
	write("stat", stat)
	write("status", "Name:\tx\nRssAnon:\t  10 kB\nRssFile:\t 20 kB\nRssShmem:\t 3 kB\nCpus_allowed_list:\t0-1\n")
	p, err := open(root, 7)
	if err != nil {
		t.Fatal(err)
	}
	u, err := p.Usage()
	if err != nil || u != (Usage{CPU: 2 * time.Second}) {
		t.Errorf("%+v, %v", u, err)
	}
	write("io", "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\n")
	if u, _ = p.Usage(); u != (Usage{CPU: 2 * time.Second, ReadBytes: 4096, WrittenBytes: 8192, HasIO: true}) {
		t.Errorf("%+v", u)
	}
	if m, err := p.Memory(); err != nil || m != (Memory{Own: 13 << 10, MappedFile: 20 << 10}) {
		t.Errorf("%+v, %v", m, err)
	}
	if p.CPUs() != "0-1" {
		t.Errorf("processors %q", p.CPUs())
	}
	write("stat", strings.Replace(stat, "12345", "99999", 1))
	if err := p.Alive(); !errors.Is(err, ErrGone) {
		t.Errorf("another process of the same number: %v", err)
	}
}
