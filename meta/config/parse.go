package config

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"time"
)

// ParseBroker checks the static settings, each alone and against each other, and returns them typed. The
// error names every fault at once: setting, origin, reason, and for an unknown setting the nearest valid
// name.
func ParseBroker(settings Settings) (*Broker, error) {
	p := &brokerParser{settings: settings, values: map[string]Parsed{}, bad: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		p.check(name, settings[name])
	}
	b := p.broker()
	b.settings = maps.Clone(settings)
	resolver := NewResolver(b, nil, nil)
	b.Topic, b.Upkeep = resolver.Topic(nil), resolver.Upkeep()
	if err := join(p.faults); err != nil {
		return nil, err
	}
	return b, nil
}

type brokerParser struct {
	settings Settings
	values   map[string]Parsed
	bad      map[string]bool
	faults   []error
}

func (p *brokerParser) check(name string, s Setting) {
	d := BrokerDefinition(name)
	if d == nil {
		err := unknown(ScopeBroker, name)
		err.Origin = s.Origin
		p.faults = append(p.faults, err)
		return
	}
	v, err := d.parse(s.Value)
	if err != nil {
		e := *err.(*Error)
		e.Origin = s.Origin
		p.faults = append(p.faults, &e)
		p.bad[name] = true
		return
	}
	p.values[name] = v
}

// value returns what is set, or else the default.
func (p *brokerParser) value(name string) Parsed {
	if v, ok := p.values[name]; ok {
		return v
	}
	d := BrokerDefinition(name)
	if d.Null {
		return Parsed{}
	}
	return d.defaultValue()
}

func (p *brokerParser) isSet(name string) bool {
	_, ok := p.values[name]
	return ok
}

// fault reports a setting that is legal alone.
func (p *brokerParser) fault(name, reason string) {
	p.faults = append(p.faults, &Error{Kind: KindConflict, Name: name, Reason: reason, Origin: p.settings[name].Origin})
}

func (p *brokerParser) broker() *Broker {
	number := func(name string) int64 { return p.value(name).Number }
	overrides, _ := parseOverrides(p.value("max.connections.per.ip.overrides").Text)
	dirs := p.dataDirs()
	b := &Broker{
		NodeID:    p.nodeID(),
		Rack:      p.value("broker.rack").Text,
		DataDir:   dirs[0],
		DataDirs:  dirs,
		Listeners: p.listeners(),

		NumPartitions:            int32(number("num.partitions")),
		DefaultReplicationFactor: int16(number("default.replication.factor")),
		AutoCreateTopics:         p.value("auto.create.topics.enable").Bool,
		DeleteTopics:             p.value("delete.topic.enable").Bool,

		RequestBytesMax:          int(number("socket.request.max.bytes")),
		QueuedRequestBytesMax:    number("queued.max.request.bytes"),
		FetchBytesMax:            int(number("fetch.max.bytes")),
		FetchSessionSlots:        int(number("max.incremental.fetch.session.cache.slots")),
		ConnectionsMaxIdle:       milliseconds(number("connections.max.idle.ms")),
		ConnectionsMax:           int(number("max.connections")),
		ConnectionsMaxPerAddress: int(number("max.connections.per.ip")),
		ConnectionsMaxOverrides:  overrides,

		RetentionCheckInterval: milliseconds(number("log.retention.check.interval.ms")),

		GroupSessionMin:   milliseconds(number("group.min.session.timeout.ms")),
		GroupSessionMax:   milliseconds(number("group.max.session.timeout.ms")),
		GroupInitialDelay: milliseconds(number("group.initial.rebalance.delay.ms")),
		GroupMembersMax:   int(number("group.max.size")),
		Consumer:          p.consumerBounds(),
		ConsumersMax:      int(number("group.consumer.max.size")),
		ConsumerAssignors: p.value("group.consumer.assignors").List,
		ConsumerMigration: p.value("group.consumer.migration.policy").Text,
		OffsetMetadataMax: int(number("offset.metadata.max.bytes")),
		OffsetsRetention:  milliseconds(number("offsets.retention.minutes") * 60_000),
		OffsetsCheck:      milliseconds(number("offsets.retention.check.interval.ms")),

		IOBackend:              p.value("millrace.io.backend").Text,
		NetLoops:               int(number("millrace.net.loops")),
		AdminListen:            p.value("millrace.admin.listen").Text,
		AdminToken:             p.value("millrace.admin.token").Text,
		ProduceDecodedBytesMax: number("millrace.produce.decoded.bytes.max"),
		OutboundBytesMax:       number("millrace.net.outbound.bytes.max"),
		SlowReader:             milliseconds(number("millrace.net.slow.reader.ms")),
		MetaFsync:              p.value("millrace.meta.fsync").Bool,
		LogLevels:              logLevels(p.value("millrace.log.level").Text),
		LogFormat:              p.value("millrace.log.format").Text,
	}
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if reason := b.unfit(name, p.values[name].Text); reason != "" {
			p.fault(name, reason)
		}
	}
	if b.GroupSessionMin > b.GroupSessionMax {
		p.fault("group.min.session.timeout.ms", "is above group.max.session.timeout.ms: no member could join")
	}
	if b.QueuedRequestBytesMax < int64(b.RequestBytesMax) {
		p.fault("queued.max.request.bytes", "must be at least socket.request.max.bytes, or the largest request would wait forever")
	}
	if b.QueuedRequestBytesMax < b.ProduceDecodedBytesMax {
		p.fault("queued.max.request.bytes", "must be at least millrace.produce.decoded.bytes.max, or the largest batch would never be decoded")
	}
	if host, _, err := splitHostPort(b.AdminListen); err == nil && !IsLoopback(host) && b.AdminToken == "" && !p.bad["millrace.admin.token"] {
		p.fault("millrace.admin.listen", "is reached from other hosts, and shows records: set millrace.admin.token to a secret, or listen on 127.0.0.1")
	}
	return b
}

func (p *brokerParser) nodeID() int32 {
	id := p.value("node.id").Number
	if p.isSet("broker.id") {
		old := p.value("broker.id").Number
		switch {
		case !p.isSet("node.id"):
			id = old
		case old != id:
			p.fault("broker.id", "differs from node.id: leave it out, or set both to the same id")
		}
		if id < 0 {
			p.fault("broker.id", "must be at least 0")
		}
	}
	return int32(id)
}

// dataDirsMax bounds the data directories: each takes memory and goroutines.
const dataDirsMax = 64

func (p *brokerParser) dataDirs() []string {
	name := "log.dirs"
	dirs := p.value(name).List
	if !p.isSet(name) {
		name = "log.dir"
		dirs = nonEmpty(p.value(name).Text)
	}
	if len(dirs) == 0 {
		p.fault(name, "names no directory (a variable that is not set?); give it one or leave it out")
		return []string{""}
	}
	if len(dirs) > dataDirsMax {
		p.fault(name, fmt.Sprintf("names %d directories; %d are possible", len(dirs), dataDirsMax))
	}
	seen := map[string]bool{}
	for _, dir := range dirs {
		if clean := path.Clean(dir); seen[clean] {
			p.fault(name, fmt.Sprintf("names %s twice: leave one out", clean))
		} else {
			seen[clean] = true
		}
	}
	return dirs
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// milliseconds is the longest duration for what is longer or negative, which mean "never".
func milliseconds(n int64) time.Duration {
	if n < 0 || n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}
