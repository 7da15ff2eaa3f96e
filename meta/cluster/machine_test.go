package cluster

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/cockroachdb/datadriven"

	"millrace/engine/model"
)

// local applies proposals at once.
type local struct {
	mu sync.Mutex
	m  *Machine
}

func (l *local) Propose(_ context.Context, _ uint8, command []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m.Apply(command)
}

func newLocal() (*Machine, *Client) {
	m := NewMachine()
	return m, NewClient(&local{m: m}, 1, m)
}

func testID(n int) model.TopicID { return model.TopicID{0, 0, 0, byte(n), 15: byte(n)} }

var testTime = time.UnixMilli(1_700_000_000_000).UTC()

// The transcripts in testdata drive a machine by typed commands and show outcomes, deltas and the image.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		m, c := newLocal()
		var deltas strings.Builder
		m.OnChange(func(d Delta) { printDelta(&deltas, d) })
		deltas.Reset()
		ids := 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			runTranscript(t, d, m, c, &out, &ids)
			out.WriteString(deltas.String())
			deltas.Reset()
			return out.String()
		})
	})
}

func runTranscript(t *testing.T, d *datadriven.TestData, m *Machine, c *Client, out *strings.Builder, ids *int) {
	ctx := t.Context()
	var err error
	switch d.Cmd {
	case "register":
		var r RegisterBrokerResult
		command := RegisterBroker{Time: testTime, Endpoints: []Endpoint{{"PLAINTEXT", "localhost", 9092}}}
		d.ScanArgs(t, "node", &command.NodeID)
		d.ScanArgs(t, "cluster", &command.ClusterID)
		r, err = c.RegisterBroker(ctx, command)
		fmt.Fprintf(out, "%s epoch=%d\n", printOutcome(r.Outcome), r.Epoch)
	case "create", "check-create":
		command := CreateTopics{Time: testTime}
		for line := range strings.Lines(d.Input) {
			*ids++
			command.Topics = append(command.Topics, parseNewTopic(t, line, *ids))
		}
		results := m.Image().CheckCreateTopics(command)
		if d.Cmd == "create" {
			results, err = c.CreateTopics(ctx, command)
		}
		for i, r := range results {
			fmt.Fprintf(out, "%s: %s\n", command.Topics[i].Name, printOutcome(r.Outcome))
		}
	case "delete":
		var command DeleteTopics
		for _, arg := range d.CmdArgs {
			n, _ := strconv.Atoi(arg.Key)
			command.IDs = append(command.IDs, testID(n))
		}
		err = printOutcomes(out, func() ([]Outcome, error) { return c.DeleteTopics(ctx, command) })
	case "partitions", "check-partitions":
		var command CreatePartitions
		for line := range strings.Lines(d.Input) {
			n := parseNewTopic(t, line, 0)
			command.Topics = append(command.Topics, NewPartitions{Topic: n.Name, Count: n.Partitions, Assignments: n.Assignments})
		}
		err = printOutcomes(out, func() ([]Outcome, error) {
			if d.Cmd == "partitions" {
				return c.CreatePartitions(ctx, command)
			}
			return m.Image().CheckCreatePartitions(command), nil
		})
	case "configs":
		r := ResourceConfigs{Kind: TopicResource, Configs: map[string]string{}}
		d.ScanArgs(t, "version", &r.Version)
		if d.HasArg("topic") {
			d.ScanArgs(t, "topic", &r.Name)
		} else {
			r.Kind = BrokerResource
			d.ScanArgs(t, "broker", &r.Broker)
		}
		for line := range strings.Lines(d.Input) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			r.Configs[k] = v
		}
		err = printOutcomes(out, func() ([]Outcome, error) {
			return c.AlterConfigs(ctx, AlterConfigs{Resources: []ResourceConfigs{r}})
		})
	case "producer-ids":
		var command AllocateProducerIDs
		d.ScanArgs(t, "count", &command.Count)
		var r AllocateProducerIDsResult
		r, err = c.AllocateProducerIDs(ctx, command)
		fmt.Fprintf(out, "%s first=%d\n", printOutcome(r.Outcome), r.First)
	case "raise":
		var command RaiseLeaderEpochs
		d.ScanArgs(t, "node", &command.NodeID)
		var r RaiseLeaderEpochsResult
		r, err = c.RaiseLeaderEpochs(ctx, command)
		fmt.Fprintf(out, "%s partitions=%d\n", printOutcome(r.Outcome), r.Partitions)
	case "image":
		printImage(out, m.Image())
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
	if err != nil {
		fmt.Fprintln(out, err)
	}
}

// parseNewTopic reads: NAME [partitions=N] [factor=N] [assign=1,2;2,1] [config=K:V]
func parseNewTopic(t *testing.T, line string, id int) NewTopic {
	fields := strings.Fields(line)
	n := NewTopic{Name: fields[0], ID: testID(id), Partitions: 1, ReplicationFactor: 1}
	for _, f := range fields[1:] {
		k, v, _ := strings.Cut(f, "=")
		number, _ := strconv.Atoi(v)
		switch k {
		case "partitions":
			n.Partitions = int32(number)
		case "factor":
			n.ReplicationFactor = int16(number)
		case "config":
			name, value, _ := strings.Cut(v, ":")
			n.Configs = map[string]string{name: value}
		case "assign":
			n.Assignments = [][]int32{}
			for list := range strings.SplitSeq(v, ";") {
				var replicas []int32
				for r := range strings.SplitSeq(list, ",") {
					if id, err := strconv.Atoi(r); err == nil {
						replicas = append(replicas, int32(id))
					}
				}
				n.Assignments = append(n.Assignments, replicas)
			}
		default:
			t.Fatalf("unknown %q", f)
		}
	}
	return n
}

func printOutcome(o Outcome) string {
	if !o.Failed() {
		return "ok"
	}
	return fmt.Sprintf("code %d: %s", o.Code, o.Message)
}

func printOutcomes(out *strings.Builder, run func() ([]Outcome, error)) error {
	outcomes, err := run()
	for _, o := range outcomes {
		fmt.Fprintln(out, printOutcome(o))
	}
	return err
}

func printTopic(t *Topic) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s id=%d", t.Name, t.ID[15])
	for i, p := range t.Partitions {
		if i == 3 {
			fmt.Fprintf(&b, " ... %d partitions", len(t.Partitions))
			break
		}
		fmt.Fprintf(&b, " %d:leader=%d,epoch=%d/%d,replicas=%v,isr=%v", i, p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.Replicas, p.ISR)
	}
	if len(t.Configs) > 0 {
		fmt.Fprintf(&b, " configs=%v@%d", t.Configs, t.ConfigVersion)
	}
	return b.String()
}

func printDelta(out *strings.Builder, d Delta) {
	for _, c := range d.Topics {
		switch {
		case c.Old == nil:
			fmt.Fprintf(out, "+ %s\n", printTopic(c.New))
		case c.New == nil:
			fmt.Fprintf(out, "- %s\n", c.Old.Name)
		default:
			fmt.Fprintf(out, "~ %s\n", printTopic(c.New))
		}
	}
	if d.Brokers {
		fmt.Fprintf(out, "brokers changed\n")
	}
	if d.BrokerConfigs {
		fmt.Fprintf(out, "broker configs changed\n")
	}
}

func printImage(out *strings.Builder, i *Image) {
	fmt.Fprintf(out, "cluster=%q version=%d topics=%d partitions=%d\n", i.ClusterID, i.Version, i.TopicCount(), i.PartitionCount())
	for _, b := range i.Brokers() {
		fmt.Fprintf(out, "broker %d epoch=%d %v\n", b.NodeID, b.Epoch, b.Endpoints)
	}
	for _, scope := range i.BrokerConfigScopes() {
		fmt.Fprintf(out, "configs of broker %d: %v@%d\n", scope, i.BrokerConfigs(scope).Configs, i.BrokerConfigs(scope).Version)
	}
	i.Topics(func(t *Topic) bool {
		fmt.Fprintln(out, printTopic(t))
		return true
	})
}

func TestTopicNames(t *testing.T) {
	f := func(name string, legal bool) {
		t.Helper()
		if err := CheckTopicName(name); (err == nil) != legal {
			t.Errorf("%q: %v", name, err)
		}
	}
	f("a", true)
	f("A.b_c-9", true)
	f("...", true)
	f("__consumer_offsets", true)
	f(strings.Repeat("x", 249), true)
	f(strings.Repeat("x", 250), false)
	f("", false)
	f(".", false)
	f("..", false)
	f("a b", false)
	f("a/b", false)
	f("ä", false)
	f("a\x00", false)
}

func TestUnknownCommandsAreNamed(t *testing.T) {
	f := func(command []byte, want string) {
		t.Helper()
		_, err := NewMachine().Apply(command)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %v, want %q", command, err, want)
		}
	}
	f(nil, "bytes end too early")
	f([]byte{99, 1}, "kind 99 is unknown")
	f([]byte{kindCreateTopics, 2}, "version 2 of CreateTopics is unknown")
	f(append(DeleteTopics{}.AppendCommand(nil), 0), "1 bytes are left over")
	if err := NewMachine().Restore([]byte{9}); err == nil || !strings.Contains(err.Error(), "snapshot version 9 is unknown") {
		t.Errorf("snapshot: %v", err)
	}
}

func TestProducerIDsAreNeverReused(t *testing.T) {
	m, c := newLocal()
	seen := map[int64]bool{}
	var mu sync.Mutex
	for range 3 { // each allocator stands for a start after a kill
		p := NewProducerIDs(c)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 700 {
					id, err := p.Next(context.Background())
					mu.Lock()
					if err != nil || seen[id] {
						t.Errorf("id %d again, or %v", id, err)
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	}
	if got := m.Image().Version; got != 9 {
		t.Errorf("%d proposals for 3 times 2,800 ids, want 9", got)
	}
}

func TestOnChangeBeginsWithWhatThereIs(t *testing.T) {
	m, c := newLocal()
	mustRegister(t, c, 1)
	mustCreate(t, c, NewTopic{Name: "a", ID: testID(1), Partitions: 2, ReplicationFactor: 1})
	var got []string
	m.OnChange(func(d Delta) {
		for _, change := range d.Topics {
			got = append(got, fmt.Sprintf("%v>%v", change.Old != nil, change.New != nil))
		}
	})
	mustCreate(t, c, NewTopic{Name: "b", ID: testID(2), Partitions: 2, ReplicationFactor: 1})
	if fmt.Sprint(got) != "[false>true false>true]" {
		t.Error(got)
	}
}

func mustRegister(t testing.TB, c *Client, node int32) {
	t.Helper()
	r, err := c.RegisterBroker(context.Background(), RegisterBroker{ClusterID: "c", NodeID: node, Time: testTime})
	if err != nil || r.Failed() {
		t.Fatal(err, r)
	}
}

func mustCreate(t testing.TB, c *Client, topics ...NewTopic) {
	t.Helper()
	results, err := c.CreateTopics(context.Background(), CreateTopics{Time: testTime, Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Failed() {
			t.Fatal(r.Message)
		}
	}
}

// M18 and the limit of the whole cluster.
func TestPartitionLimits(t *testing.T) {
	_, c := newLocal()
	mustRegister(t, c, 1)
	create := func(topics ...NewTopic) []CreateTopicResult {
		r, err := c.CreateTopics(t.Context(), CreateTopics{Topics: topics})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := create(NewTopic{Name: "a", ID: testID(1), Partitions: 100_000, ReplicationFactor: 1}, NewTopic{Name: "b", ID: testID(2), Partitions: 1, ReplicationFactor: 1})
	if r[0].Code != ErrTooManyPartitions || r[1].Code != ErrTooManyPartitions {
		t.Errorf("100,001 partitions: %v %v", r[0].Outcome, r[1].Outcome)
	}
	for i := range 10 {
		mustCreate(t, c, NewTopic{Name: fmt.Sprint("t", i), ID: testID(i + 1), Partitions: 100_000, ReplicationFactor: 1})
	}
	if r := create(NewTopic{Name: "a", ID: testID(99), Partitions: 1, ReplicationFactor: 1}); r[0].Code != ErrTooManyPartitions {
		t.Errorf("1,000,001 partitions: %v", r[0].Outcome)
	}
	snapshot := appendImage(nil, c.Image())
	if len(snapshot) > 2000 {
		t.Errorf("%d bytes for ten topics of equal partitions", len(snapshot))
	}
	restored, err := parseImage(snapshot)
	if err != nil || restored.PartitionCount() != 1_000_000 {
		t.Error(err)
	}
}

// equalImages compares by bytes, and the indexes that the bytes do not show.
func equalImages(a, b *Image) bool {
	if !bytes.Equal(appendImage(nil, a), appendImage(nil, b)) || a.partitionCount != b.partitionCount ||
		a.byID.len != b.byID.len || a.byName.len != b.byName.len || a.byCollision.len != b.byCollision.len {
		return false
	}
	equal := true
	a.Topics(func(t *Topic) bool {
		if key, ok := collisionKey(t.Name); ok {
			equal = equal && len(a.collisions(key)) == len(b.collisions(key))
		}
		return equal
	})
	return equal
}

// Snapshots of before groups had configs are read.
func TestOlderSnapshot(t *testing.T) {
	m := NewMachine()
	if err := m.Restore([]byte{1, 0, 7, 0, 0, 0, 0}); err != nil || m.Image().Version != 7 {
		t.Errorf("version %d, %v", m.Image().Version, err)
	}
	if err := m.Restore([]byte{3, 0, 7, 0, 0, 0, 0, 0}); err == nil {
		t.Error("a snapshot of a newer program is taken")
	}
}

func TestGroupConfigs(t *testing.T) {
	m, c := newLocal()
	alter := func(group string, version uint64, configs map[string]string, want Code) {
		t.Helper()
		outcomes, err := c.AlterConfigs(context.Background(), AlterConfigs{Resources: []ResourceConfigs{{Kind: GroupResource, Name: group, Version: version, Configs: configs}}})
		if err != nil || outcomes[0].Code != want {
			t.Fatalf("%v, %v; want %v", outcomes, err, want)
		}
	}
	alter("", 0, map[string]string{"a": "1"}, ErrInvalidRequest)
	alter("g", 1, map[string]string{"a": "1"}, ErrConflict)
	alter("g", 0, map[string]string{"a": "1"}, OK)
	first := m.Image().GroupConfigs("g")
	alter("g", 0, map[string]string{"a": "2"}, ErrConflict)
	alter("g", first.Version, map[string]string{"a": "2"}, OK)
	snapshot, _ := m.Snapshot(nil)
	again := NewMachine()
	if err := again.Restore(snapshot); err != nil || again.Image().GroupConfigs("g").Configs["a"] != "2" {
		t.Errorf("restored %+v, %v", again.Image().GroupConfigs("g"), err)
	}
	alter("g", m.Image().GroupConfigs("g").Version, nil, OK)
	if list := m.Image().GroupsWithConfigs(); len(list) != 0 {
		t.Errorf("%v have configs", list)
	}
	alter("g", 0, map[string]string{"a": "3"}, OK)
	if now := m.Image().GroupConfigs("g").Version; now <= first.Version {
		t.Errorf("version %d came again after %d", now, first.Version)
	}
}

// TestOldImagesAreForgotten holds that an image does not keep those before it.
func TestOldImagesAreForgotten(t *testing.T) {
	m, c := newLocal()
	mustRegister(t, c, 1)
	old := weak.Make(m.Image())
	for i := range 3 {
		mustCreate(t, c, NewTopic{Name: fmt.Sprint("t", i), ID: testID(i + 1), Partitions: 1, ReplicationFactor: 1})
	}
	runtime.GC()
	if old.Value() != nil {
		t.Error("an image of four changes ago is still there")
	}
	runtime.KeepAlive(m)
}
