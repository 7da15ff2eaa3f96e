package meta

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Machine is a state machine that is replicated by the group. It must be deterministic: the same commands
// in the same order give the same state and the same results on every node and on every replay. All calls
// come from one goroutine.
type Machine interface {
	// Apply applies one command and returns what its proposer gets. It keeps neither slice. A command it
	// does not know is an error, which stops the node: going on would let this node's state differ from
	// that of others.
	Apply(command []byte) (result []byte, err error)
	// Snapshot appends the whole state to dst.
	Snapshot(dst []byte) ([]byte, error)
	// Restore replaces the state by that of a snapshot. It does not keep the slice.
	Restore(snapshot []byte) error
}

// Options configure a Node. EnsureDefaults fills what is zero, Validate reports every fault at once.
type Options struct {
	Dir       string // of the group's log and state; made if missing
	FS        vfs.FS // default: the operating system's
	NodeID    int32  // 0 or more; the directory remembers it
	ClusterID string // empty: that of the directory, a new one for a new directory
	Machines  map[uint8]Machine
	Sync      bool // sync the log before a proposal is answered
	Logger    *slog.Logger

	SnapshotEntries int           // entries in the log after which a snapshot replaces them; default 10,000
	SnapshotBytes   int64         // the same in bytes; default 4 MiB
	TickInterval    time.Duration // default 1 s; one voter needs none
}

// The surface that this package implements (node.go, propose.go):
//
//	func Open(ctx context.Context, o Options) (*Node, error)   // replays; returns when leader and everything committed is applied
//	func (n *Node) Propose(ctx context.Context, machine uint8, command []byte) (result []byte, err error)
//	func (n *Node) ClusterID() string; NodeID() int32
//	func (n *Node) Leader() (id int32, ok bool); IsLeader() bool
//	func (n *Node) Failed() error; Close() error; Metrics() *Metrics
//
// meta/cluster:
//
//	func NewMachine() *Machine                       // implements meta.Machine
//	func (m *Machine) Image() *Image                 // atomic load, never nil
//	func (m *Machine) OnChange(f func(Delta))        // f is first called with everything there is as created; later on the apply goroutine before the proposal is answered
//	type Delta struct { Image *Image; Topics []TopicChange; Brokers, BrokerConfigs bool }
//	type TopicChange struct { Old, New *Topic }      // Old nil: created; New nil: deleted
//	func NewClient(p Proposer, machine uint8, m *Machine) *Client   // p: *meta.Node
//	func (c *Client) RegisterBroker(ctx, RegisterBroker) (RegisterBrokerResult, error)
//	func (c *Client) CreateTopics(ctx, CreateTopics) ([]CreateTopicResult, error)
//	func (c *Client) DeleteTopics(ctx, DeleteTopics) ([]Outcome, error)
//	func (c *Client) CreatePartitions(ctx, CreatePartitions) ([]Outcome, error)
//	func (c *Client) AlterConfigs(ctx, AlterConfigs) ([]Outcome, error)
//	func (c *Client) RaiseLeaderEpochs(ctx, RaiseLeaderEpochs) (RaiseLeaderEpochsResult, error)
//	func NewProducerIDs(c *Client) *ProducerIDs; func (p *ProducerIDs) Next(ctx) (int64, error)
//	func (i *Image) CheckCreateTopics(CreateTopics) []CreateTopicResult      // validate_only
//	func (i *Image) CheckCreatePartitions(CreatePartitions) []Outcome
//	func CheckTopicName(name string) error
//
// meta/config:
//
//	func ParseBroker(s Settings) (*Broker, error)    // every fault at once
//	func TopicDefinitions() []*Definition; BrokerDefinitions() []*Definition
//	func TopicDefinition(name string) *Definition; BrokerDefinition(name string) *Definition   // nil: unknown
//	func Nearest(scope Scope, name string) string    // nearest known name, empty if none is near
//	func NewResolver(b *Broker, dynamicAll, dynamicBroker map[string]string) *Resolver   // immutable; make a new one when dynamic configs change
//	func (r *Resolver) Topic(overrides map[string]string) *Topic                // cheap without overrides
//	func (r *Resolver) DescribeTopic(overrides map[string]string) []Entry; DescribeBroker(own bool) []Entry
//	func CheckTopicConfigs(configs map[string]string) error     // errors are *Error; also cross checks
//	func CheckBrokerConfigs(configs map[string]string) error    // dynamic ones
//	type Op struct { Kind OpKind (Set, Delete, Append, Subtract); Name, Value string; Null bool }
//	func Alter(scope Scope, current map[string]string, ops []Op) (map[string]string, error)
//	func WriteDocumentation(w io.Writer) error; func (b *Broker) Rows() []Row    // --print-config
