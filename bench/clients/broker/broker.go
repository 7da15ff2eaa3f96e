// Package broker runs the broker under test as a process, for the runs of other people's clients.
package broker

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const readyWithin = time.Minute

// Process is a broker on fixed loopback ports and a directory that outlives it.
type Process struct {
	Addr string // host:port of its Kafka listener

	binary, dir, admin string
	settings           []string
	cmd                *exec.Cmd
	ended              chan struct{}
}

// New prepares a broker of the given binary in dir; settings are KEY=VALUE. An empty addr takes a free port.
func New(binary, dir, addr string, settings ...string) (*Process, error) {
	p := &Process{Addr: addr, binary: binary, dir: dir, settings: settings}
	if p.Addr == "" {
		listen, err := freePort()
		if err != nil {
			return nil, err
		}
		defer listen.Close()
		p.Addr = listen.Addr().String()
	}
	admin, err := freePort() // while the other is held, so that the two differ
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	p.admin = admin.Addr().String()
	return p, nil
}

// freePort listens on a loopback port below those that the kernel gives to outgoing connections: while the broker is
// down, no client that tries to reach it may be given its port.
func freePort() (net.Listener, error) {
	var err error
	for range 100 {
		var listen net.Listener
		if listen, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(20_000))); err == nil {
			return listen, nil
		}
	}
	return nil, err
}

// Start runs the broker and returns when it is ready.
func (p *Process) Start() error {
	args := []string{"serve", "--data-dir", filepath.Join(p.dir, "data"), "--listen", p.Addr, "--set", "millrace.admin.listen=" + p.admin}
	for _, setting := range p.settings {
		args = append(args, "--set", setting)
	}
	if err := os.MkdirAll(filepath.Join(p.dir, "data"), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(p.LogFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	p.cmd, p.ended = exec.Command(p.binary, args...), make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// What begins with MILLRACE_ is a setting to the broker, and an option of this run to us.
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MILLRACE_") })
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		log.Close()
		return fmt.Errorf("start %s: %w", p.binary, err)
	}
	go func(cmd *exec.Cmd, ended chan struct{}) { // ends with the process
		cmd.Wait()
		log.Close()
		close(ended)
	}(p.cmd, p.ended)
	return p.awaitReady()
}

func (p *Process) awaitReady() error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(readyWithin); time.Now().Before(deadline); {
		if resp, err := client.Get("http://" + p.admin + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.ended:
			log, _ := os.ReadFile(p.LogFile())
			return fmt.Errorf("the broker ended before it was ready:\n%s", log[max(0, len(log)-2000):])
		case <-time.After(5 * time.Millisecond):
		}
	}
	p.Kill()
	return fmt.Errorf("the broker was not ready within %v, see %s", readyWithin, p.LogFile())
}

// LogFile is where the broker's log goes.
func (p *Process) LogFile() string { return filepath.Join(p.dir, "broker.log") }

// Kill ends the broker with SIGKILL and waits for its end.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// Stop ends the broker with SIGTERM and waits; a status other than 0 is an error.
func (p *Process) Stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(readyWithin):
		p.Kill()
		return fmt.Errorf("the broker did not stop within %v of SIGTERM", readyWithin)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("exit status %d after SIGTERM", code)
	}
	return nil
}
