package broker

import (
	"os"
	"os/exec"
	"testing"
)

// inOwnProcess runs the test in a process of its own, and returns whether this is that one: stores whose disk is cut
// off cannot be closed, and what they go on trying would slow down every test that comes later.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv("MILLRACE_TEST_OWN_PROCESS") != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=4h")
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_OWN_PROCESS=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}
