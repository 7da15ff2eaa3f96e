package cli

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// A run of consume --group goes on where the last one stopped, under both protocols, and what it did not print comes
// to the next.
func TestConsumeInGroup(t *testing.T) {
	b := serve(t, t.TempDir(), "--set", "group.initial.rebalance.delay.ms=0")
	defer b.end(syscall.SIGTERM)
	f := func(in, wants string, args ...string) string {
		t.Helper()
		code, out, errOut := run(t, in, append(args, "--broker", b.address)...)
		if code != 0 || !strings.Contains(out, wants) {
			t.Fatalf("%q: code %d, out %q, err %q", args, code, out, errOut)
		}
		return out
	}
	f("", "", "topic", "create", "orders", "--partitions", "1")
	f("one\ntwo\nthree\n", "", "produce", "orders")
	for _, protocol := range []string{"classic", "consumer"} {
		group := "g-" + protocol
		consume := func(more ...string) string {
			t.Helper()
			return f("", "", append([]string{"consume", "orders", "--group", group, "--group-protocol", protocol}, more...)...)
		}
		if out := consume("--count", "2"); out != "one\ntwo\n" {
			t.Errorf("%s: the first two are %q", protocol, out)
		}
		if out := consume(); out != "three\n" {
			t.Errorf("%s: the rest is %q", protocol, out)
		}
		if out := consume(); out != "" {
			t.Errorf("%s: %q comes again", protocol, out)
		}
		var described []groupDescription
		if err := json.Unmarshal([]byte(f("", "", "group", "describe", group, "--json")), &described); err != nil || len(described) != 1 {
			t.Fatal(err)
		}
		d := described[0]
		if d.Type != protocol || d.State != "Empty" || len(d.Partitions) != 1 || *d.Partitions[0].Current != 3 || *d.Partitions[0].Lag != 0 {
			t.Errorf("%s: %+v", protocol, d)
		}
		if out := f("", "", "consume", "orders", "--group", group+"-new", "--group-protocol", protocol, "--from", "end"); out != "" {
			t.Errorf("%s: from the end comes %q", protocol, out)
		}
	}
}

func TestConsumeInGroupRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--group-instance", "i"}, {"--group-protocol", "consumer"}, {"--group", "g", "--group-protocol", "raft"}, {"--group", "g", "--partition", "0"},
		{"--group", "g", "--from", "7"}, {"--group", "g", "--from", "-7"},
	} {
		if code, _, errOut := run(t, "", append([]string{"consume", "orders"}, args...)...); code != 2 || errOut == "" {
			t.Errorf("%v: code %d, %s", args, code, errOut)
		}
	}
}
