package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Listener is one address that the broker listens on, and the address it is known by.
type Listener struct {
	Name           string // for example PLAINTEXT
	Protocol       string // PLAINTEXT
	Host           string // empty: all addresses
	Port           int    // 0: the system picks one
	AdvertisedHost string
	AdvertisedPort int // 0: the port that is listened on
}

// Broker holds the static settings of one broker, parsed and checked against each other. It is immutable.
type Broker struct {
	NodeID  int32
	Rack    string
	DataDir string // the first of log.dirs
	// DataDirs are log.dirs, at least one.
	DataDirs []string

	Listeners []Listener

	NumPartitions            int32
	DefaultReplicationFactor int16
	AutoCreateTopics         bool
	DeleteTopics             bool // delete.topic.enable

	RequestBytesMax          int           // socket.request.max.bytes
	QueuedRequestBytesMax    int64         // queued.max.request.bytes: bytes of requests in flight, all connections
	FetchBytesMax            int           // fetch.max.bytes
	FetchSessionSlots        int           // max.incremental.fetch.session.cache.slots
	ConnectionsMaxIdle       time.Duration // 0: never
	ConnectionsMax           int
	ConnectionsMaxPerAddress int
	ConnectionsMaxOverrides  map[string]int

	RetentionCheckInterval time.Duration // log.retention.check.interval.ms
	Upkeep

	GroupSessionMin   time.Duration // group.min.session.timeout.ms
	GroupSessionMax   time.Duration // group.max.session.timeout.ms
	GroupInitialDelay time.Duration // group.initial.rebalance.delay.ms
	GroupMembersMax   int           // group.max.size
	Consumer          ConsumerBounds
	ConsumersMax      int           // group.consumer.max.size
	ConsumerAssignors []string      // group.consumer.assignors
	ConsumerMigration string        // group.consumer.migration.policy
	OffsetMetadataMax int           // offset.metadata.max.bytes
	OffsetsRetention  time.Duration // offsets.retention.minutes
	OffsetsCheck      time.Duration // offsets.retention.check.interval.ms

	IOBackend              string // auto, ring, posix
	NetLoops               int    // 0: chosen from the CPUs
	AdminListen            string // host:port; empty: no admin endpoint
	AdminToken             string // empty: the admin endpoint asks for none
	ProduceDecodedBytesMax int64  // millrace.produce.decoded.bytes.max
	OutboundBytesMax       int64  // millrace.net.outbound.bytes.max
	SlowReader             time.Duration
	MetaFsync              bool
	LogLevels              LogLevels
	LogFormat              string // auto, text, json

	// Topic holds the defaults of topics that these settings make.
	Topic *Topic

	settings Settings
}

// Upkeep are the settings of what goes on in the background of partitions, all of them dynamic but for
// log.cleaner.enable.
type Upkeep struct {
	CleanInterval        time.Duration // log.cleaner.backoff.ms; never without log.cleaner.enable
	CleanMemoryBytes     int64         // log.cleaner.dedupe.buffer.size
	CleanBytesPerSecond  int64         // log.cleaner.io.max.bytes.per.second; 0: no bound
	ProducerIDExpiration time.Duration // producer.id.expiration.ms
}

// Setting is one static value and where it was written, for example "file broker.properties line 3",
// "--set", or "environment MILLRACE_NODE_ID".
type Setting struct {
	Value  string
	Origin string
}

// Reread returns these settings with the dynamic ones as they are in again, and the names, in order, of the others that
// are not the same there: those wait for the next start.
func (b *Broker) Reread(again *Broker) (now *Broker, waiting []string, err error) {
	merged := maps.Clone(b.settings)
	for _, d := range brokerDefinitions(maps.Keys(b.settings), maps.Keys(again.settings)) {
		setting, ok := again.settings[d.Name]
		switch {
		case !d.Dynamic && merged[d.Name].Value != setting.Value:
			waiting = append(waiting, d.Name)
		case d.Dynamic && ok:
			merged[d.Name] = setting
		case d.Dynamic:
			delete(merged, d.Name)
		}
	}
	now, err = ParseBroker(merged)
	return now, waiting, err
}

// Names of settings whose values depend on what a broker cannot change while it runs.
const (
	cordonedDirs   = "cordoned.log.dirs"
	connectionRate = "max.connection.creation.rate"
	perAddressMax  = "max.connections.per.ip"
)

// CheckDynamic checks dynamic configs, each of which is legal alone, against what cannot change while the broker runs:
// its directories and its listeners. Faults are *Error, or Faults of more than one.
func (b *Broker) CheckDynamic(configs map[string]string) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if reason := b.unfit(name, configs[name]); reason != "" {
			faults = append(faults, &Error{Kind: KindInvalid, Name: name, Value: configs[name], Reason: reason})
		}
	}
	return join(faults)
}

// unfit says why this broker cannot have a value that is legal alone, empty where it can.
func (b *Broker) unfit(name, value string) string {
	if listener, _ := ofListener(name); listener != "" &&
		!slices.ContainsFunc(b.Listeners, func(l Listener) bool { return strings.ToLower(l.Name) == listener }) {
		return "there is no listener " + listener + " (names are in lower case here)"
	}
	if name == perAddressMax && strings.TrimSpace(value) == "0" && len(b.ConnectionsMaxOverrides) == 0 {
		return "0 lets nobody in without max.connections.per.ip.overrides among the broker's own settings"
	}
	if name != cordonedDirs {
		return ""
	}
	for dir := range splitList(value) {
		if dir == "*" && strings.TrimSpace(value) != "*" {
			return "* stands for all directories and must stand alone"
		}
		if dir != "*" && !slices.ContainsFunc(b.DataDirs, func(o string) bool { return sameDir(dir, o) }) {
			return dir + " is not in log.dirs"
		}
	}
	return ""
}

// sameDir tells whether two paths, each of which may be relative, name one directory.
func sameDir(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return a == b && errA == nil && errB == nil
}

// Settings are the static settings of a broker, merged by the caller.
type Settings map[string]Setting
