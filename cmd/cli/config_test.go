package cli

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

func TestConfigCommands(t *testing.T) {
	b := serve(t, t.TempDir())
	defer b.end(syscall.SIGTERM)
	f := func(wantCode int, wants string, args ...string) string {
		t.Helper()
		code, out, errOut := run(t, "", append(args, "--broker", b.address)...)
		if code != wantCode || !strings.Contains(out+errOut, wants) {
			t.Fatalf("%q: code %d, out %q, err %q; want %d and %q", args, code, out, errOut, wantCode, wants)
		}
		return out
	}
	f(0, "", "topic", "create", "orders", "--partitions", "1")
	for _, owner := range [][]string{{"topic", "orders", "retention.ms", "3600000"}, {"broker", "1", "log.retention.ms", "7200000"},
		{"brokers", "", "log.retention.ms", "9000000"}, {"group", "billing", "consumer.session.timeout.ms", "50000"}} {
		at := owner[:2]
		if owner[1] == "" {
			at = owner[:1]
		}
		name, value := owner[2], owner[3]
		with := func(verb string, more ...string) []string {
			return append(append([]string{"config", verb}, at...), more...)
		}
		f(0, "would change 1 config", with("set", name+"="+value, "--dry-run")...)
		if out := f(0, "CONFIG", with("describe")...); strings.Contains(out, value) {
			t.Errorf("%v: a dry run changed it: %s", at, out)
		}
		f(0, "changed 1 config", with("set", name+"="+value)...)
		f(0, value, with("describe")...)
		f(1, name, with("set", name+"=soon")...)
		var entries []configEntry
		if err := json.Unmarshal([]byte(f(0, "", with("describe", name, "--json", "--docs")...)), &entries); err != nil || len(entries) != 1 ||
			*entries[0].Value != value || entries[0].Documentation == nil {
			t.Errorf("%v: %+v, %v", at, entries, err)
		}
		f(0, "changed 1 config", with("delete", name)...)
		if out := f(0, "CONFIG", with("describe")...); strings.Contains(out, value) {
			t.Errorf("%v: it is still set: %s", at, out)
		}
	}
	f(0, "num.partitions", "config", "describe", "broker", "1", "--all")
	f(1, "has no config nonsense", "config", "describe", "topic", "orders", "nonsense")
	f(1, "no such topic", "config", "describe", "topic", "missing")
	f(2, "name what the configs belong to", "config", "describe", "cluster")
	f(2, "name the topic", "config", "describe", "topic")
	f(2, "not the number", "config", "describe", "broker", "one")
	f(2, "is not CONFIG=VALUE", "config", "set", "topic", "orders", "retention.ms")
	f(2, "takes none", "config", "delete", "topic", "orders", "retention.ms=1")
	f(2, "named twice", "config", "set", "topic", "orders", "retention.ms=1", "retention.ms=2")
}
