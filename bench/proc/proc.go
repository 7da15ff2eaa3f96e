package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, which is 100 on every architecture that Go runs on.
const ticksPerSecond = 100

// ErrGone tells that the process has ended.
var ErrGone = errors.New("the process has ended")

// Process is a process that was seen to run. Its number going to another process is noticed.
type Process struct {
	PID   int
	root  string // "/proc"
	start string // its start time, in ticks since boot
}

// Usage is what a process has used since its start.
type Usage struct {
	CPU time.Duration // user and system time of all threads, those of io_uring included, in steps of 10 ms
	// ReadBytes and WrittenBytes went through to the storage; HasIO tells that the kernel shows them.
	ReadBytes, WrittenBytes int64
	HasIO                   bool
}

// Memory is the resident memory of a process in bytes: its own, and mapped pages of files apart, which are
// the page cache's.
type Memory struct{ Own, MappedFile int64 }

// Open finds the process. The error says what is wrong where there is none.
func Open(pid int) (*Process, error) { return open("/proc", pid) }

func open(root string, pid int) (*Process, error) {
	p := &Process{PID: pid, root: root}
	fields, err := p.stat()
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	p.start = fields[19]
	return p, nil
}

// Alive returns ErrGone when the process has ended.
func (p *Process) Alive() error {
	_, err := p.checked()
	return err
}

// Usage reads what the process has used. It fails with ErrGone when the process has ended.
func (p *Process) Usage() (Usage, error) {
	fields, err := p.checked()
	if err != nil {
		return Usage{}, err
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return Usage{}, fmt.Errorf("process %d: stat: %w", p.PID, err)
	}
	u := Usage{CPU: time.Duration(user+system) * time.Second / ticksPerSecond}
	if io, err := p.values("io"); err == nil {
		u.ReadBytes, u.WrittenBytes, u.HasIO = io["read_bytes"], io["write_bytes"], true
	}
	return u, nil
}

// Memory reads the resident memory of now.
func (p *Process) Memory() (Memory, error) {
	v, err := p.values("status")
	if err != nil {
		return Memory{}, p.explain(err)
	}
	return Memory{Own: (v["RssAnon"] + v["RssShmem"]) << 10, MappedFile: v["RssFile"] << 10}, nil
}

// CPUs returns the processors that the process may run on, as the kernel writes them: "0-1".
func (p *Process) CPUs() string {
	raw, err := os.ReadFile(p.file("status"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return ""
}

// checked returns the fields of stat if they are still those of the same, living process.
func (p *Process) checked() ([]string, error) {
	fields, err := p.stat()
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", p.PID, err)
	}
	if fields[19] != p.start {
		return nil, fmt.Errorf("process %d: %w", p.PID, ErrGone)
	}
	return fields, nil
}

// stat returns the fields of /proc/PID/stat after the name, which may hold anything: the state is first.
func (p *Process) stat() ([]string, error) {
	raw, err := os.ReadFile(p.file("stat"))
	if err != nil {
		return nil, p.explain(err)
	}
	end := strings.LastIndexByte(string(raw), ')')
	fields := strings.Fields(string(raw[end+1:]))
	if end < 0 || len(fields) < 20 {
		return nil, fmt.Errorf("stat has %d fields", len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return nil, ErrGone
	}
	return fields, nil
}

func (p *Process) explain(err error) error {
	if errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "no such process") {
		return ErrGone
	}
	return err
}

// values reads "Name: 123" lines.
func (p *Process) values(name string) (map[string]int64, error) {
	raw, err := os.ReadFile(p.file(name))
	if err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for line := range strings.Lines(string(raw)) {
		key, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); len(fields) > 0 {
			if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
				all[key] = n
			}
		}
	}
	return all, nil
}

func (p *Process) file(name string) string {
	return filepath.Join(p.root, strconv.Itoa(p.PID), name)
}
