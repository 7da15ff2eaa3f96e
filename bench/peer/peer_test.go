package peer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// program writes a shell script that can be run as name.
func program(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestKafkaIsFound tells what is missing and the ways out, and finds or brings the jars where nothing is.
func TestKafkaIsFound(t *testing.T) {
	programs, cache, home := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("PATH", programs+":/bin:/usr/bin")
	t.Setenv("JAVA_HOME", "")
	t.Setenv("XDG_CACHE_HOME", cache)
	f := func(home, want string) *Spec {
		t.Helper()
		s, err := Kafka(t.Context(), home, []string{"a.b=c"}, func(string) {})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
		return s
	}
	program(t, programs, "java", `echo 'openjdk version "11.0.2" 2019-01-15' >&2`)
	f("", "needs Java 17 or newer")
	program(t, programs, "java", "exit 3")
	f("", "exit status 3")
	program(t, programs, "java", `echo 'openjdk version "21.0.1" 2023-10-17' >&2`)
	f(home, "neither it nor its libs or lib has kafka_2.13-VERSION.jar")
	program(t, programs, "mvn", "echo 'no route'; exit 1")
	f("", "no route\nWithout Maven Central: name an installed Kafka with --against-home")
	program(t, programs, "mvn", "exit 0")
	f("", "maven brought no kafka_2.13-"+KafkaVersion+".jar")
	if left, _ := filepath.Glob(filepath.Join(cache, "millrace", "*")); len(left) != 0 {
		t.Errorf("left of what failed: %v", left)
	}
	program(t, programs, "mvn", `for a; do case $a in -DoutputDirectory=*) d=${a#-DoutputDirectory=};; esac; done; mkdir -p "$d"; : > "$d/kafka_2.13-`+KafkaVersion+`.jar"`)
	if s := f("", ""); s.Version != KafkaVersion || !s.Owned() || !strings.Contains(s.Configuration, "\na.b=c\n") || !strings.Contains(s.Configuration, "-Xmx1g") {
		t.Errorf("%+v", s)
	}
	program(t, programs, "mvn", "exit 1")
	f("", "") // it is there by now
	if err := os.MkdirAll(filepath.Join(home, "libs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kafka_2.13-3.9.1-test.jar", "kafka_2.13-3.9.1.jar"} {
		if err := os.WriteFile(filepath.Join(home, "libs", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if s := f(home, ""); s.Version != "3.9.1" {
		t.Errorf("version %q", s.Version)
	}
	t.Setenv("JAVA_HOME", filepath.Join(home, "nowhere"))
	f("", "there is no "+filepath.Join(home, "nowhere", "bin", "java"))
}

// TestKafkaIsFormattedFirst runs the broker's command line with a java that writes down what it is called with.
func TestKafkaIsFormattedFirst(t *testing.T) {
	programs, home, dir := t.TempDir(), t.TempDir(), t.TempDir()
	calls := filepath.Join(dir, "calls")
	t.Setenv("PATH", programs+":/bin:/usr/bin")
	t.Setenv("JAVA_HOME", "")
	program(t, programs, "java", `echo "$@" >> `+calls+`; echo 'openjdk version "17.0.1"' >&2; echo 'the last words'`)
	if err := os.WriteFile(filepath.Join(home, "kafka_2.13-4.4.0.jar"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Kafka(t.Context(), home, nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), "it ended before it answered") || !strings.Contains(err.Error(), "the last words") {
		t.Errorf("%v", err)
	}
	raw, _ := os.ReadFile(calls)
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "StorageTool format --standalone -t ") || !strings.HasSuffix(lines[2], "kafka.Kafka "+filepath.Join(dir, "start-1", "server.properties")) {
		t.Errorf("java was called with\n%s", raw)
	}
}

func TestStartFails(t *testing.T) {
	s := Millrace("m", "/no/such/binary", "", nil)
	if _, err := s.Start(t.Context(), t.TempDir(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no more"))
	if _, err := Millrace("m", "/bin/false", "", nil).Start(ctx, t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Errorf("%v", err)
	}
	if _, err := Running("127.0.0.1:1", 0).Start(t.Context(), t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "no broker answers at 127.0.0.1:1") {
		t.Errorf("%v", err)
	}
	if err := ParseSettings([]string{"a=b", "c="}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"a", "=b", "a=b\nc=d"} {
		if ParseSettings([]string{bad}) == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestClusterID(t *testing.T) {
	for range 1000 {
		if id := clusterID(); len(id) != 22 || id[0] == '-' {
			t.Fatalf("%q", id)
		}
	}
}
