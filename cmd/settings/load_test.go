package settings

import (
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	b, err := Load(Flags{DataDir: "/d", Listen: "127.0.0.1:1234", NodeID: "7", Set: []string{"num.partitions=3"}},
		[]string{"MILLRACE_LOG_RETENTION_MS=60000", "MILLRACE_IO_BACKEND=posix", "MILLRACE_MILLRACE_LOG_LEVEL=debug"})
	if err != nil {
		t.Fatal(err)
	}
	if b.DataDir != "/d" || b.NodeID != 7 || b.NumPartitions != 3 || b.IOBackend != "posix" || b.LogLevels.Of("").String() != "DEBUG" ||
		b.Topic.RetentionAge.Milliseconds() != 60000 || len(b.Listeners) != 1 || b.Listeners[0].Port != 1234 {
		t.Errorf("%+v", b)
	}
	for _, row := range b.Rows() {
		if row.Name == "log.retention.ms" && row.Source != "environment MILLRACE_LOG_RETENTION_MS" {
			t.Errorf("%+v", row)
		}
	}
}

func TestLoadFaults(t *testing.T) {
	f := func(flags Flags, environ []string, wants ...string) {
		t.Helper()
		_, err := Load(flags, environ)
		if err == nil {
			t.Errorf("%+v %v: no error", flags, environ)
			return
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, want)
			}
		}
	}
	f(Flags{Set: []string{"log.retentoin.ms=1"}}, nil, "log.retentoin.ms", "--set", "log.retention.ms")
	f(Flags{}, []string{"MILLRACE_NUM_PARTITION=1"}, "num.partition", "environment MILLRACE_NUM_PARTITION", "num.partitions")
	f(Flags{Set: []string{"num.partitions=many"}}, nil, "num.partitions", "--set")
	f(Flags{NodeID: "-3"}, nil, "node.id", "--node-id")
	f(Flags{Listen: "0.0.0.0:9092"}, nil, "advertise")
	f(Flags{Listen: "nonsense"}, nil, "nonsense", "--listen")
	f(Flags{ConfigFile: write(t, "\nnum.partitions=x\nfoo=1\n")}, nil, "line 2", "line 3", "foo")
}
