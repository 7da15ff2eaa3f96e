package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/bench/tune"
	"millrace/cmd/hostspeed"
)

// tuning starts tune, as short as it can be, in a process of its own.
func tuning(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"tune", "--for", "durability", "--rounds", "1", "--seconds", "0.1"}, args...)...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func TestTuneUsage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "there")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f := func(want string, args ...string) {
		t.Helper()
		code, out, errOut := run(t, "", append([]string{"tune"}, args...)...)
		if code != 2 || !strings.Contains(errOut, want) || out != "" {
			t.Errorf("%q: code %d, out %q, err %q; want %q", args, code, out, errOut, want)
		}
	}
	f("--data-dir DIR")
	f("--data-dir is empty", "--data-dir", "")
	f("takes no argument", "x")
	f(`--for "speed" is none of`, "--data-dir", dir, "--for", "speed")
	f("--rounds 0", "--data-dir", dir, "--rounds", "0")
	f("--seconds 1000", "--data-dir", dir, "--seconds", "1000")
	f("is there already", "--data-dir", dir, "--out", file)
	f("is no directory", "--data-dir", dir, "--out", dir+"/none/x")
	f("there is no directory", "--data-dir", file)
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
	serve(t, filepath.Join(dir, "data"))
	f("a broker works in", "--data-dir", filepath.Join(dir, "data"))
}

// TestTune tunes with one short round: the report is whole, the file is one that serve takes, nothing else is left.
func TestTune(t *testing.T) {
	dir := t.TempDir()
	data, file := filepath.Join(dir, "a", "b")+","+filepath.Join(dir, "c"), filepath.Join(dir, "tuned.properties")
	cmd := tuning(t, "--data-dir", data, "--out", file, "--json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the code says it
	var r struct {
		tune.Report
		Measured hostspeed.Report `json:"host_measured"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); cmd.ProcessState.ExitCode() != 0 || err != nil {
		t.Fatalf("code %d, %v\n%s", cmd.ProcessState.ExitCode(), err, stderr.String())
	}
	if r.Outcome != tune.FewRounds || len(r.Settings) != 0 || r.Host.FileSystem == "" || len(r.Measured.Figures) < 15 || len(r.Control.Rows) != 6 {
		t.Errorf("%+v", r)
	}
	swept := 0
	for _, tunable := range r.Tunables {
		swept += len(tunable.Values)
	}
	if len(r.Trials)+len(r.Starts) != swept || swept == 0 && len(r.Tunables) == 0 {
		t.Errorf("%d trials and %v of %+v", len(r.Trials), r.Starts, r.Tunables)
	}
	if !strings.Contains(stderr.String(), "left)") {
		t.Errorf("no time left is told: %s", stderr.String())
	}
	if code, out, errOut := run(t, "", "serve", "--config", file, "--data-dir", data, "--print-config"); code != 0 || !strings.Contains(out, "millrace.net.loops") {
		t.Errorf("code %d, %s", code, errOut)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

// TestTuneEnds holds that nothing is left of brokers and files after Ctrl-C and after a broker died.
func TestTuneEnds(t *testing.T) {
	f := func(want string, do func(cmd *exec.Cmd, brokers []int)) {
		t.Helper()
		dir := t.TempDir()
		cmd := tuning(t, "--data-dir", dir, "--seconds", "0.5")
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			stderr.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "running P7") {
				do(cmd, processesOf(t, dir))
			}
		}
		_ = cmd.Wait() // the code says it
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stderr.String(), want) {
			t.Errorf("code %d, want %q, got %s", code, want, stderr.String())
		}
		if left := processesOf(t, dir); len(left) != 0 {
			t.Errorf("processes %v are left", left)
		}
		if left := names(t, dir); len(left) != 0 {
			t.Errorf("files %v are left", left)
		}
	}
	f("interrupted", func(cmd *exec.Cmd, _ []int) { cmd.Process.Signal(os.Interrupt) })
	f("the end of millrace's log", func(_ *exec.Cmd, brokers []int) {
		for _, pid := range brokers {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}
