package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"millrace/bench/wire"
	"millrace/perf"
)

const (
	startTries = 3
	startMax   = 10 * time.Minute // recovering much data takes some brokers long
	stopGrace  = 20 * time.Second // between SIGTERM and SIGKILL
	pollEvery  = 2 * time.Millisecond
	askTimeout = 5 * time.Second
	logEndMax  = 3000 // bytes of a log that a failure tells
)

// Process is a running broker. Its methods are called from one goroutine.
type Process struct {
	Address string // HOST:PORT
	PID     int    // 0: unknown
	Began   time.Time
	// Ready is how long it took from the start of the process to the first answer; 0 for one from outside.
	Ready time.Duration

	spec    *Spec
	dir     string
	argv    []string
	cpus    []int
	ended   chan struct{} // nil for a broker from outside
	command *exec.Cmd
}

// Start runs the broker on an empty directory that the caller made and removes, on the given processors (nil:
// all), and returns when it answers.
func (s *Spec) Start(ctx context.Context, dir string, cpus []int) (*Process, error) {
	if s.fixed != nil {
		p := &Process{spec: s, Address: s.fixed.address, PID: s.fixed.pid}
		return p, s.reach(ctx)
	}
	for try := 1; ; try++ {
		ports, err := freePorts(2)
		if err != nil {
			return nil, err
		}
		home := filepath.Join(dir, "start-"+strconv.Itoa(try))
		if err := os.Mkdir(home, 0o755); err != nil {
			return nil, err
		}
		p := &Process{spec: s, dir: home, cpus: cpus, Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))}
		if p.argv, err = s.prepare(ctx, home, ports); err == nil {
			if err = p.Launch(ctx); err == nil {
				err = p.AwaitReady(ctx)
			}
		}
		if err == nil {
			return p, nil
		}
		p.Kill()
		// A port that was free a moment ago may be taken by now.
		if try == startTries || !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			return nil, fmt.Errorf("start %s: %w", s.Name, err)
		}
	}
}

func (s *Spec) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := ask(ctx, s.fixed.address); err != nil {
		return fmt.Errorf("no broker answers at %s: %w", s.fixed.address, err)
	}
	return nil
}

// Launch starts the process on its directory, as Start does, also again after Kill. It does not wait for it
// to be ready.
func (p *Process) Launch(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	p.command = exec.Command(p.argv[0], p.argv[1:]...)
	p.command.Stdout, p.command.Stderr, p.command.Env = log, log, environment()
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	ended, started := make(chan struct{}), make(chan error)
	p.Began = time.Now()
	go p.own(p.command, log, started, ended)
	if err := <-started; err != nil {
		return err
	}
	p.ended, p.PID = ended, p.command.Process.Pid
	return nil
}

// own starts a process and waits for its end on a thread of its own: a child inherits the processors of the
// thread that starts it, and is told to die when that thread ends.
func (p *Process) own(command *exec.Cmd, log io.Closer, started chan<- error, ended chan<- struct{}) {
	// Never unlocked, so that the changed thread ends with this goroutine.
	runtime.LockOSThread()
	defer log.Close()
	var err error
	if p.cpus != nil {
		err = perf.SetThreadAffinity(p.cpus)
	}
	if err == nil {
		err = command.Start()
	}
	started <- err
	if err == nil {
		// How it ended is told by who asked for it.
		_ = command.Wait()
		close(ended)
	}
}

// AwaitReady waits until the broker answers and sets Ready.
func (p *Process) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startMax, fmt.Errorf("it does not answer within %v", startMax))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := ask(ctx, p.Address); err == nil {
			p.Ready = time.Since(p.Began)
			return nil
		}
		select {
		case <-p.ended:
			return p.Blame(errors.New("it ended before it answered"))
		case <-ctx.Done():
			return p.Blame(context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// ask holds that a broker answers a request for its versions.
func ask(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := wire.Dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Write(wire.AppendApiVersions(nil)); err != nil {
		return err
	}
	_, err = conn.Read()
	return err
}

// Alive tells that the process has not ended. A broker from outside is taken to live.
func (p *Process) Alive() bool {
	if p.ended == nil {
		return !p.spec.Owned()
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Stop ends a broker that was started: SIGTERM, and SIGKILL where that is not enough.
func (p *Process) Stop() {
	if p == nil || p.ended == nil {
		return
	}
	_ = p.command.Process.Signal(syscall.SIGTERM) // fails where it has ended, which is what is wanted
	select {
	case <-p.ended:
	case <-time.After(stopGrace):
		p.Kill()
	}
}

// Kill ends a broker that was started with SIGKILL and waits for its end.
func (p *Process) Kill() {
	if p == nil || p.ended == nil {
		return
	}
	_ = p.command.Process.Kill() // as above
	<-p.ended
}

// Blame adds the end of the broker's log to a failure.
func (p *Process) Blame(err error) error {
	end := p.LogEnd()
	if end == "" {
		return err
	}
	return fmt.Errorf("%w\nthe end of %s's log:\n%s", err, p.spec.Name, end)
}

// LogEnd returns the last lines of the broker's log, "" where there is none.
func (p *Process) LogEnd() string {
	if p.dir == "" {
		return ""
	}
	raw, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	raw = bytes.TrimSpace(raw[max(0, len(raw)-logEndMax):])
	return string(bytes.ToValidUTF8(raw, []byte("?")))
}

func (p *Process) logFile() string { return filepath.Join(p.dir, "broker.log") }
