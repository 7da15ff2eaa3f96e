package kafka

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/diskio"
	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/group"
	"millrace/meta/cluster"
	"millrace/meta/config"
	"millrace/perf"
)

// handlerTest is a server whose handlers are called without a network: requests and answers go through
// their bytes all the same.
type handlerTest struct {
	*testing.T
	s        *Server
	apply    *applier
	listener string
}

// applier proposes to a state machine in the same process.
type applier struct {
	mu      sync.Mutex
	machine *cluster.Machine
	groups  *group.Store
	before  func() // runs before each command, where set
	err     error  // what Propose answers, where set
}

func (a *applier) Propose(_ context.Context, machine uint8, command []byte) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return nil, a.err
	}
	if f := a.before; f != nil {
		a.before = nil
		f()
	}
	if machine == 2 {
		return a.groups.Apply(command)
	}
	return a.machine.Apply(command)
}

const testNode = 1

func newHandlerTest(t *testing.T, settings ...string) *handlerTest {
	t.Helper()
	values := config.Settings{"node.id": {Value: "1", Origin: "test"}}
	for i := 0; i < len(settings); i += 2 {
		values[settings[i]] = config.Setting{Value: settings[i+1], Origin: "test"}
	}
	broker, err := config.ParseBroker(values)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fs, err := diskio.Open(dir, diskio.Options{Backend: diskio.BackendPosix})
	if err != nil {
		t.Fatal(err)
	}
	store, err := engine.Open(t.Context(), engine.Options{Dir: dir, FS: fs, Pool: perf.NewPool(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(); fs.Close() })
	machine := cluster.NewMachine()
	apply := &applier{machine: machine, groups: group.NewStore()}
	client := cluster.NewClient(apply, 1, machine)
	machine.OnChange(func(d cluster.Delta) { followTopics(t, store, d) })
	if _, err := client.RegisterBroker(t.Context(), cluster.RegisterBroker{ClusterID: "abcdefghijklmnopqrstuv", NodeID: testNode, Time: time.Now(),
		Endpoints: []cluster.Endpoint{{Listener: "IN", Host: "inside", Port: 1}, {Listener: "OUT", Host: "outside", Port: 2}}}); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{NodeID: testNode, Rack: "r1", Loops: 1, Shards: oneStore{store}, Cluster: machine, Proposer: apply, ClusterCode: 1, Groups: apply.groups, GroupCode: 2,
		ProducerIDs: cluster.NewProducerIDs(client), Config: broker, Pool: perf.NewPool(1 << 20),
		Advertised: []Endpoint{{"IN", "inside", 1}, {"OUT", "outside", 2}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &handlerTest{T: t, s: s, apply: apply, listener: "OUT"}
}

// oneStore are the shards of one data directory.
type oneStore struct{ *engine.Store }

func (s oneStore) Stores() []*engine.Store { return []*engine.Store{s.Store} }

func (s oneStore) Move(*engine.Shard, *engine.Store) {}

func (s oneStore) Cordoned(*engine.Store) (it, all bool)                      { return false, false }
func (s oneStore) Moving(model.ShardID) (*engine.Store, *engine.MoveProgress) { return nil, nil }

func followTopics(t *testing.T, store *engine.Store, d cluster.Delta) {
	for _, change := range d.Topics {
		for p := range partitionsOf(change.Old) {
			if change.New == nil {
				if err := store.DropShards(model.ShardID{Topic: change.Old.ID, Partition: int32(p)}); err != nil {
					t.Error(err)
				}
			}
		}
		for p := range partitionsOf(change.New) {
			if _, err := store.EnsureShard(model.ShardID{Topic: change.New.ID, Partition: int32(p)}, engine.ShardSpec{TopicName: change.New.Name}); err != nil {
				t.Error(err)
			}
		}
	}
}

func partitionsOf(t *cluster.Topic) []cluster.Partition {
	if t == nil {
		return nil
	}
	return t.Partitions
}

// ask sends a request in one version. nil means that the connection would be closed.
func (h *handlerTest) ask(version int16, req kmsg.Request) kmsg.Response {
	h.Helper()
	req.SetVersion(version)
	body := req.AppendTo(nil)
	a := h.s.table[req.Key()]
	if a == nil || version < a.min || version > a.max {
		h.Fatalf("key %d v%d is not advertised", req.Key(), version)
	}
	if _, err := a.estimate(version, body); err != nil {
		h.Fatalf("%s v%d: %v", a.name, version, err)
	}
	decoded, err := decode(a.key, version, body)
	if err != nil {
		h.Fatal(err)
	}
	resp := h.answer(a, &request{ctx: h.Context(), key: a.key, version: version, listener: h.listener, body: decoded})
	if resp == nil {
		return nil
	}
	if resp.GetVersion() != version || resp.Key() != a.key {
		h.Fatalf("%s v%d was answered in v%d", a.name, version, resp.GetVersion())
	}
	out := req.ResponseKind()
	if err := out.ReadFrom(resp.AppendTo(nil)); err != nil {
		h.Fatalf("%s v%d: answer cannot be read: %v", a.name, version, err)
	}
	return out
}

// answer lets a handler answer. One that waits for the coordinator is awaited; a Join may wait for its group.
func (h *handlerTest) answer(a *api, r *request) kmsg.Response {
	h.Helper()
	if a.later == nil {
		return a.handle(h.s, r)
	}
	got := make(chan kmsg.Response, 1)
	r.forget = func() {}
	r.finish = func(resp kmsg.Response) {
		if resp != nil {
			resp.SetVersion(r.version)
		}
		got <- resp
	}
	a.later(h.s, r)
	select {
	case resp := <-got:
		return resp
	case <-time.After(10 * time.Second):
		h.Fatalf("%s v%d: no answer", a.name, r.version)
		return nil
	}
}

// ask answers with the response type of the request.
func ask[R kmsg.Response](h *handlerTest, version int16, req kmsg.Request) R {
	h.Helper()
	resp, ok := h.ask(version, req).(R)
	if !ok {
		h.Fatalf("key %d v%d: no answer", req.Key(), version)
	}
	return resp
}

// equal fails the test unless got is want.
func equal[T comparable](h *handlerTest, what string, got, want T) {
	h.Helper()
	if got != want {
		h.Errorf("%s: %v, want %v", what, got, want)
	}
}

// create makes a topic and returns its id.
func (h *handlerTest) create(name string, partitions int32, configs ...string) [16]byte {
	h.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, topicToCreate(name, partitions, 1, configs...))
	resp := ask[*kmsg.CreateTopicsResponse](h, 7, req)
	if resp.Topics[0].ErrorCode != 0 {
		h.Fatalf("create %s: %d %s", name, resp.Topics[0].ErrorCode, *resp.Topics[0].ErrorMessage)
	}
	return resp.Topics[0].TopicID
}

func topicToCreate(name string, partitions int32, factor int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name = configs[i]
		if configs[i+1] != "NULL" {
			c.Value = &configs[i+1]
		}
		t.Configs = append(t.Configs, c)
	}
	return t
}

func textOf(s *string) string {
	if s == nil {
		return "(null)"
	}
	return *s
}

// A15: every advertised API answers a minimal request in each of its versions, and the answer decodes.
func TestA15EveryVersionIsAnswered(t *testing.T) {
	h := newHandlerTest(t)
	for _, a := range workerAPIs() {
		for v := a.min; v <= a.max; v++ {
			req := kmsg.RequestForKey(a.key)
			if r, ok := req.(*kmsg.ApiVersionsRequest); ok {
				r.Default()
				r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1"
			}
			h.ask(v, req)
		}
	}
}

// Whatever numbers and lists a request holds, the handler answers it, within what was estimated for it.
func TestHandlersTakeAnyRequest(t *testing.T) {
	h := newHandlerTest(t)
	h.create("known", 3)
	f := newFiller(t)
	names := []string{"known", "known", "", "1", "a b", "x"}
	f.name = func() string { return names[f.rnd.IntN(len(names))] }
	for _, a := range workerAPIs() {
		for v := a.min; v <= a.max; v++ {
			for range 40 {
				body := f.body(a.key, v)
				req, err := decode(a.key, v, body)
				if err != nil {
					t.Fatal(err)
				}
				if m, ok := req.(*kmsg.CreateTopicsRequest); ok {
					m.ValidateOnly = m.ValidateOnly || len(h.s.image().Brokers()) == 0 || h.s.image().TopicCount() > 100
				}
				resp := h.answer(&a, &request{ctx: t.Context(), key: a.key, version: v, listener: "IN", body: req})
				if resp == nil {
					continue
				}
				if err := req.ResponseKind().ReadFrom(resp.AppendTo(nil)); err != nil {
					t.Fatalf("%s v%d: answer to % x cannot be read: %v", a.name, v, body, err)
				}
			}
		}
	}
}
