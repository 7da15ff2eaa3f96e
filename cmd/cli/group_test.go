package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// inGroup reads a topic in a group until it has had so many records, and commits them.
func inGroup(t *testing.T, address, topic, group string, records int, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(address), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ClientID("reader"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseAllowingRebalance)
	for got := 0; got < records; {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		got += fetches.NumRecords()
	}
	if err := client.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client
}

func TestGroupCommands(t *testing.T) {
	t.Run("classic", func(t *testing.T) { testGroupCommands(t, "classic") })
	t.Run("consumer", func(t *testing.T) {
		testGroupCommands(t, "consumer", kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	})
}

func testGroupCommands(t *testing.T, protocol string, opts ...kgo.Opt) {
	b := serve(t, t.TempDir(), "--set", "group.initial.rebalance.delay.ms=0")
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
	f(1, "there is no such group", "group", "describe", "none")
	f(1, "there is no such group", "group", "delete", "none")
	if code, _, errOut := run(t, "one\ntwo\nthree\n", "produce", "orders", "--broker", b.address); code != 0 {
		t.Fatal(errOut)
	}
	member := inGroup(t, b.address, "orders", "billing", 3, opts...)
	var listed []map[string]string
	if err := json.Unmarshal([]byte(f(0, "billing", "group", "list", "--json")), &listed); err != nil || len(listed) != 1 ||
		listed[0]["state"] != "Stable" || !strings.EqualFold(listed[0]["type"], protocol) || listed[0]["protocol"] != "consumer" {
		t.Errorf("%v, %v", listed, err)
	}
	f(2, "", "group", "list", "--state", "bogus")
	if out := f(0, "", "group", "list", "--state", "Empty", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("groups that are empty: %s", out)
	}
	var described []groupDescription
	if err := json.Unmarshal([]byte(f(0, "", "group", "describe", "billing", "--json")), &described); err != nil {
		t.Fatal(err)
	}
	g := described[0]
	if g.State != "Stable" || len(g.Members) != 1 || g.Members[0].ClientID != "reader" || len(g.Partitions) != 1 ||
		*g.Partitions[0].Current != 3 || *g.Partitions[0].Lag != 0 || g.Partitions[0].ClientID != "reader" {
		t.Errorf("%+v", g)
	}
	f(0, "orders:0", "group", "describe", "billing", "--members")
	f(0, "Stable", "group", "describe", "billing", "--state")
	f(1, "members", "group", "reset-offsets", "billing", "--topic", "orders", "--to-earliest", "--execute")
	f(1, "has members", "group", "delete", "billing")
	f(1, "subscribed", "group", "delete-offsets", "billing", "--topic", "orders")
	member.CloseAllowingRebalance()
	awaitEmpty(t, b.address, "billing")

	current := func() int64 {
		t.Helper()
		if err := json.Unmarshal([]byte(f(0, "", "group", "describe", "billing", "--json")), &described); err != nil {
			t.Fatal(err)
		}
		return *described[0].Partitions[0].Current
	}
	reset := func(want int64, args ...string) {
		t.Helper()
		all := append([]string{"group", "reset-offsets", "billing", "--topic", "orders"}, args...)
		was := current()
		f(0, "orders", all...)
		if now := current(); now != was {
			t.Errorf("%v: the dry run went from %d to %d", args, was, now)
		}
		f(0, "orders", append(all, "--execute")...)
		if now := current(); now != want {
			t.Errorf("%v: at %d, want %d", args, now, want)
		}
	}
	reset(0, "--to-earliest")
	reset(2, "--to-offset", "2")
	reset(1, "--shift-by", "-1")
	reset(0, "--shift-by", "-100")
	reset(3, "--to-latest")
	reset(3, "--to-offset", "99")
	reset(0, "--to-datetime", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	f(0, "orders", "group", "delete-offsets", "billing", "--topic", "orders")
	f(0, "", "group", "reset-offsets", "billing", "--topic", "orders", "--to-latest", "--execute")
	f(0, "billing", "group", "delete", "billing")
	f(1, "there is no such group", "group", "describe", "billing")
}

// awaitEmpty waits until a group has no members.
func awaitEmpty(t *testing.T, address, group string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		code, out, errOut := run(t, "", "group", "describe", group, "--state", "--broker", address)
		if code == 0 && strings.Contains(out, "Empty") {
			return
		}
		select {
		case <-deadline:
			t.Fatal(fmt.Sprint("the group is not empty: ", out, errOut))
		default:
		}
	}
}

func TestGroupUsage(t *testing.T) {
	f := func(wants string, args ...string) {
		t.Helper()
		code, _, errOut := run(t, "", append([]string{"group"}, args...)...)
		if code != 2 || !strings.Contains(errOut, wants) {
			t.Errorf("%q: code %d, err %q; want %q", args, code, errOut, wants)
		}
	}
	f("name what to do")
	f("name a group", "describe")
	f("give one", "describe", "g", "--members", "--state")
	f("--topic", "reset-offsets", "g", "--to-earliest")
	f("", "reset-offsets", "g", "--topic", "t")
	f("", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--to-latest")
	f("--topic", "delete-offsets", "g")
}
