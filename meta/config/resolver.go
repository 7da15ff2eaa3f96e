package config

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Resolver finds the values of topics and of the broker through all places where they may stand. It is
// immutable and safe for concurrent use; when dynamic configs change a new one is made.
type Resolver struct {
	static       Settings
	dynamic      map[string]string // of this broker
	dynamicAll   map[string]string // of all brokers
	defaultTopic *Topic
}

// NewResolver returns a resolver over the static settings of b and the dynamic configs of all brokers and
// of this one. It keeps the maps, which must not change any more.
func NewResolver(b *Broker, dynamicAll, dynamicBroker map[string]string) *Resolver {
	r := &Resolver{static: b.settings, dynamic: dynamicBroker, dynamicAll: dynamicAll}
	r.defaultTopic = r.parseTopic(nil)
	return r
}

// found is a value in one place. It has the form of the topic's config, also where an older synonym in
// larger units holds it.
type found struct {
	SynonymValue
	parsed Parsed
}

// search returns the values of a topic's config, nearest first, the default last. A value that does not
// parse, such as one that an older program took, is passed over.
func (r *Resolver) search(d *Definition, overrides map[string]string) []found {
	var all []found
	add := func(definition *Definition, factor int64, values map[string]string, source Source) {
		value, ok := values[definition.Name]
		if !ok {
			return
		}
		if parsed, err := definition.parse(value); err == nil {
			parsed.Number = scale(parsed.Number, factor)
			all = append(all, found{SynonymValue{Name: definition.Name, Value: value, Source: source}, parsed})
		}
	}
	own := SourceTopic
	if d.Scope == ScopeGroup {
		own = SourceGroup
	}
	add(d, 1, overrides, own)
	for _, place := range []struct {
		values map[string]string
		source Source
	}{{r.dynamic, SourceDynamicBroker}, {r.dynamicAll, SourceDynamicDefaultBroker}} {
		for _, s := range d.Synonyms {
			add(BrokerDefinition(s.Name), s.Factor, place.values, place.source)
		}
	}
	for _, s := range d.Synonyms {
		if setting, ok := r.static[s.Name]; ok {
			add(BrokerDefinition(s.Name), s.Factor, map[string]string{s.Name: setting.Value}, SourceStaticBroker)
		}
	}
	return all
}

// topicValue returns the value that counts.
func (r *Resolver) topicValue(name string, overrides map[string]string) Parsed {
	d := TopicDefinition(name)
	if all := r.search(d, overrides); len(all) > 0 {
		return all[0].parsed
	}
	return d.defaultValue()
}

// Topic returns the values that count for a topic with these overrides. Without overrides it returns the
// same Topic each time and costs nothing.
func (r *Resolver) Topic(overrides map[string]string) *Topic {
	if len(overrides) == 0 {
		return r.defaultTopic
	}
	return r.parseTopic(overrides)
}

// broker returns the value of a broker's setting that counts. One that does not parse is passed over.
func (r *Resolver) broker(name string) Parsed {
	d := BrokerDefinition(name)
	places := []map[string]string{r.dynamic, r.dynamicAll}
	if setting, ok := r.static[name]; ok {
		places = append(places, map[string]string{name: setting.Value})
	}
	for _, values := range places {
		if value, ok := values[name]; ok {
			if v, err := d.parse(value); err == nil {
				return v
			}
		}
	}
	if d.Null {
		return Parsed{}
	}
	return d.defaultValue()
}

// SlowRequest returns from how long on a request is logged; 0: none is.
func (r *Resolver) SlowRequest() time.Duration {
	return milliseconds(r.broker("millrace.log.slow.request.ms").Number)
}

// ConnectionsMax returns how many connections there may be, how many of an address, and exceptions by address.
func (r *Resolver) ConnectionsMax() (all, perAddress int, overrides map[string]int) {
	overrides, _ = parseOverrides(r.broker("max.connections.per.ip.overrides").Text) // it was checked
	return int(r.broker("max.connections").Number), int(r.broker(perAddressMax).Number), overrides
}

// ConnectionRate returns how many new connections a second one listener takes or, for "", all of them together; 0: any
// number.
func (r *Resolver) ConnectionRate(listener string) int {
	name := connectionRate
	if listener != "" {
		name = "listener.name." + strings.ToLower(listener) + "." + name
	}
	if rate := r.broker(name).Number; rate < math.MaxInt32 {
		return int(rate)
	}
	return 0
}

// MoveRate returns how many bytes a second may be copied between data directories; 0: any number.
func (r *Resolver) MoveRate() int64 {
	if rate := r.broker("replica.alter.log.dirs.io.max.bytes.per.second").Number; rate < math.MaxInt64 {
		return rate
	}
	return 0
}

// Cordoned tells whether a data directory gets no new partitions.
func (r *Resolver) Cordoned(dir string) bool {
	return slices.ContainsFunc(r.broker(cordonedDirs).List, func(cordoned string) bool { return cordoned == "*" || sameDir(cordoned, dir) })
}

// Upkeep returns the values that count for the background of partitions.
func (r *Resolver) Upkeep() Upkeep {
	u := Upkeep{
		CleanInterval:        milliseconds(r.broker("log.cleaner.backoff.ms").Number),
		CleanMemoryBytes:     r.broker("log.cleaner.dedupe.buffer.size").Number,
		ProducerIDExpiration: milliseconds(r.broker("producer.id.expiration.ms").Number),
	}
	if rate := r.broker("log.cleaner.io.max.bytes.per.second").Double; rate < math.MaxInt64/2 {
		u.CleanBytesPerSecond = int64(rate) // otherwise more than any disk has
	}
	if !r.broker("log.cleaner.enable").Bool {
		u.CleanInterval = math.MaxInt64
	}
	return u
}

func (r *Resolver) parseTopic(overrides map[string]string) *Topic {
	value := func(name string) Parsed { return r.topicValue(name, overrides) }
	number := func(name string) int64 { return value(name).Number }
	duration := func(name string) time.Duration { return milliseconds(number(name)) }
	t := &Topic{
		Compression:                 compressionOf(value("compression.type").Text),
		CompressionGzipLevel:        int(number("compression.gzip.level")),
		CompressionLZ4Level:         int(number("compression.lz4.level")),
		CompressionZstdLevel:        int(number("compression.zstd.level")),
		MessageBytesMax:             int(number("max.message.bytes")),
		DecompressedMessageBytesMax: int(number("max.decompressed.message.bytes")),
		LogAppendTime:               value("message.timestamp.type").Text == "LogAppendTime",
		TimestampBeforeMaxMS:        number("message.timestamp.before.max.ms"),
		TimestampAfterMaxMS:         number("message.timestamp.after.max.ms"),
		UncleanLeaderElection:       value("unclean.leader.election.enable").Bool,
		RetentionBytes:              number("retention.bytes"),
		RetentionAge:                -1,
		SegmentBytes:                number("segment.bytes"),
		SegmentAge:                  duration("segment.ms"),
		SegmentJitter:               duration("segment.jitter.ms"),
		FlushMessages:               number("flush.messages"),
		FlushInterval:               duration("flush.ms"),
		FileDeleteDelay:             duration("file.delete.delay.ms"),
		DeleteRetention:             duration("delete.retention.ms"),
		MinCleanableDirtyRatio:      value("min.cleanable.dirty.ratio").Double,
		MinCompactionLag:            duration("min.compaction.lag.ms"),
		MaxCompactionLag:            duration("max.compaction.lag.ms"),
	}
	for _, policy := range value("cleanup.policy").List {
		t.CleanupDelete = t.CleanupDelete || policy == "delete"
		t.CleanupCompact = t.CleanupCompact || policy == "compact"
	}
	if age := number("retention.ms"); age >= 0 {
		t.RetentionAge = milliseconds(age)
	}
	return t
}

func compressionOf(text string) Compression {
	switch text {
	case "uncompressed":
		return CompressionUncompressed
	case "gzip":
		return CompressionGzip
	case "snappy":
		return CompressionSnappy
	case "lz4":
		return CompressionLZ4
	case "zstd":
		return CompressionZstd
	}
	return CompressionProducer
}

// DescribeTopic returns every config of a topic with these overrides, in the order of names.
func (r *Resolver) DescribeTopic(overrides map[string]string) []Entry {
	return r.describe(TopicDefinitions(), overrides)
}

func (r *Resolver) describe(definitions []*Definition, overrides map[string]string) []Entry {
	entries := make([]Entry, 0, len(definitions))
	for _, d := range definitions {
		all := r.search(d, overrides)
		var synonyms []SynonymValue
		for _, f := range all {
			synonyms = append(synonyms, f.SynonymValue)
		}
		// Kafka lists the default under the broker's name, and only where that has one.
		if len(d.Synonyms) > 0 {
			if s := BrokerDefinition(d.Synonyms[0].Name); !s.Null {
				synonyms = append(synonyms, SynonymValue{Name: s.Name, Value: s.Default, Source: SourceDefault})
			}
		}
		e := d.entry(synonyms)
		if len(all) > 0 {
			e.Value, e.Source = d.shown(&all[0]), all[0].Source
		} else {
			e.Value, e.Null, e.Source = d.Default, d.Null, SourceDefault
		}
		entries = append(entries, e)
	}
	return entries
}

// shown is the value as it was written, and for an older synonym the number that it comes to.
func (d *Definition) shown(f *found) string {
	if s := BrokerDefinition(f.Name); f.Source != SourceTopic && f.Source != SourceGroup && len(d.Synonyms) > 1 && s != nil && s.Name != d.Synonyms[0].Name {
		return strconv.FormatInt(f.parsed.Number, 10)
	}
	return f.Value
}

// entry fills what does not depend on the value, and hides what is sensitive.
func (d *Definition) entry(synonyms []SynonymValue) Entry {
	if d.Sensitive {
		for i := range synonyms {
			synonyms[i].Value, synonyms[i].Null = "", true
		}
	}
	return Entry{Definition: d, Name: d.Name, ReadOnly: d.ReadOnly(), Sensitive: d.Sensitive, Type: d.Type, Doc: d.Doc, Synonyms: synonyms}
}

// DescribeBroker returns, in the order of names, every setting of this broker (own), or the dynamic
// configs of all brokers that are set.
func (r *Resolver) DescribeBroker(own bool) []Entry {
	var entries []Entry
	for _, d := range brokerDefinitions(maps.Keys(r.dynamic), maps.Keys(r.dynamicAll), maps.Keys(r.static)) {
		var synonyms []SynonymValue
		add := func(value string, ok bool, source Source) {
			if ok {
				synonyms = append(synonyms, SynonymValue{Name: d.Name, Value: value, Source: source})
			}
		}
		if own {
			value, ok := r.dynamic[d.Name]
			add(value, ok, SourceDynamicBroker)
		}
		value, ok := r.dynamicAll[d.Name]
		if !own && !ok {
			continue
		}
		add(value, ok, SourceDynamicDefaultBroker)
		setting, ok := r.static[d.Name]
		add(setting.Value, ok, SourceStaticBroker)
		add(d.Default, !d.Null, SourceDefault)
		e := d.entry(synonyms)
		if len(synonyms) > 0 {
			e.Value, e.Null, e.Source = synonyms[0].Value, synonyms[0].Null, synonyms[0].Source
		} else {
			e.Null, e.Source = true, SourceDefault
		}
		entries = append(entries, e)
	}
	return entries
}
