package peer

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Spec is a broker that can be started as often as needed.
type Spec struct {
	Name    string // for tables: "millrace", "kafka"
	Version string
	// Configuration is what the broker was given, as text; what it does not tell is the broker's default.
	Configuration string
	// Command is what starts it, with DIR and PORT for what differs from start to start.
	Command string

	fixed *fixed // a broker that runs already
	// prepare makes a fresh directory ready and returns what to execute.
	prepare func(ctx context.Context, dir string, ports []int) (argv []string, err error)
}

// fixed is a broker from outside.
type fixed struct {
	address string
	pid     int
}

// Owned tells that the broker is started by this package, so that it can be placed, ended and started again.
func (s *Spec) Owned() bool { return s.fixed == nil }

// Running returns the spec of a broker that runs already. A process number of 0 means that its use of the
// host is not measured.
func Running(address string, pid int) *Spec {
	return &Spec{Name: address, Version: "unknown", Configuration: "of a broker that was running already", Command: "(not started here)", fixed: &fixed{address, pid}}
}

// Millrace returns the spec of a millrace broker: binary is run with serve and the settings, KEY=VALUE each. Without
// log.dirs among them its data is below the directory that it is started with.
func Millrace(name, binary, version string, settings []string) *Spec {
	arguments := func(dir, port string) []string {
		argv := []string{binary, "serve", "--listen", "127.0.0.1:" + port, "--set", "millrace.admin.listen=127.0.0.1:0", "--set", "millrace.log.format=text"}
		if !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, "log.dirs=") }) {
			argv = append(argv, "--data-dir", filepath.Join(dir, "data"))
		}
		for _, s := range settings {
			argv = append(argv, "--set", s)
		}
		return argv
	}
	return &Spec{
		Name: name, Version: version, Configuration: strings.Join(append([]string{"millrace.admin.listen=127.0.0.1:0", "millrace.log.format=text"}, settings...), "\n"),
		Command: strings.Join(arguments("DIR", "PORT"), " "),
		prepare: func(_ context.Context, dir string, ports []int) ([]string, error) {
			return arguments(dir, strconv.Itoa(ports[0])), nil
		},
	}
}

// environment is this process's, without what would be settings to a millrace broker.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MILLRACE_") && !strings.HasPrefix(v, "MILLRACE_TEST_")
	})
}

// freePorts returns ports of the loopback that were free a moment ago.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
