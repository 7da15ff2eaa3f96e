package settings

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "broker.properties")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestMergePrecedence(t *testing.T) {
	file := write(t, "num.partitions=1\nlog.retention.ms=1\nnode.id=1\nmessage.max.bytes=7\n")
	got, err := Merge(Flags{ConfigFile: file, Set: []string{"num.partitions=3", "listeners=PLAINTEXT://h:1"}, NodeID: "9"},
		[]string{"MILLRACE_NUM_PARTITIONS=2", "MILLRACE_LOG_RETENTION_MS=2", "HOME=/", "MILLRACE_PORT=tcp://10.0.0.1:9092",
			"MILLRACE_PORT_9092_TCP=x", "MILLRACE_SERVICE_HOST=10.0.0.1", "MILLRACE_TEST_BINARY=x"})
	if err != nil {
		t.Fatal(err)
	}
	f := func(name, value, origin string) {
		t.Helper()
		if s := got[name]; s.Value != value || s.Origin != origin {
			t.Errorf("%s is %+v, want %q of %q", name, s, value, origin)
		}
	}
	f("num.partitions", "3", "--set")
	f("log.retention.ms", "2", "environment MILLRACE_LOG_RETENTION_MS")
	f("message.max.bytes", "7", file+" line 4")
	f("node.id", "9", "--node-id")
	f("listeners", "PLAINTEXT://h:1", "--set")
	if len(got) != 5 {
		t.Errorf("got %v", slices.Sorted(maps.Keys(got)))
	}
}

func TestMergeShortForms(t *testing.T) {
	got, err := Merge(Flags{DataDir: "/d", Listen: "0.0.0.0:9092,INSIDE://:9093", Advertise: "host:9092"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := func(name, want string) {
		t.Helper()
		if got[name].Value != want {
			t.Errorf("%s is %q, want %q", name, got[name].Value, want)
		}
	}
	f("log.dirs", "/d")
	f("listeners", "PLAINTEXT://0.0.0.0:9092,INSIDE://:9093")
	f("advertised.listeners", "PLAINTEXT://host:9092")
}

func TestMergeFaults(t *testing.T) {
	f := func(flags Flags, environ []string, wants ...string) {
		t.Helper()
		_, err := Merge(flags, environ)
		if err == nil {
			t.Errorf("%+v: no error", flags)
			return
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, want)
			}
		}
	}
	f(Flags{Set: []string{"a", "=b"}}, nil, `--set "a" is not KEY=VALUE`, `--set "=b"`)
	f(Flags{Set: []string{"a=1", "a=2"}}, nil, "a is given twice, by --set and by --set")
	f(Flags{Listen: "h:1", Set: []string{"listeners=x"}}, nil, "listeners is given twice, by --listen and by --set")
	f(Flags{ConfigFile: "/does/not/exist"}, nil, "settings file", "/does/not/exist")
	f(Flags{ConfigFile: write(t, "a=1\n\na=2\n=3\nb=\\u12\n")}, nil, "line 3: a is set before", "line 1", "line 4: there is no key", "line 5")
	f(Flags{ConfigFile: write(t, "a=\xff\n")}, nil, "not UTF-8")
}

func TestProperties(t *testing.T) {
	f := func(text, key, value string) {
		t.Helper()
		got, err := parseFile("f", text)
		if err != nil || len(got) != 1 || got[key].Value != value {
			t.Errorf("%q gives %v, %v, want %s=%q", text, got, err, key, value)
		}
	}
	f("a=b", "a", "b")
	f("  a : b  ", "a", "b")
	f("a b c", "a", "b c")
	f("# x\n! y\n\n\ta\t=\tb\r\n", "a", "b")
	f("a=b,\\\n   c,\\\r\n  d", "a", "b,c,d")
	f("a=b\\\\\n", "a", `b\`)
	f(`a\:b\=c=d`, "a:b=c", "d")
	f(`a=\u00e9\tb`, "a", "é\tb")
	f("a", "a", "")
	f("\ufeffa=1", "a", "1")
	f("a=b=c#d", "a", "b=c#d")
	f("a=1\\", "a", "1")
}

func FuzzProperties(f *testing.F) {
	for _, seed := range []string{"a=b", "a\\", "\\u00e9 x", "a=b\\\n c", "#\n!\r\n=", "\ufeff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseFile("f", text)
		for key := range got {
			if key == "" && err == nil {
				t.Errorf("%q gives an empty key", text)
			}
		}
	})
}
