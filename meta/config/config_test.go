package config

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func settingsOf(values map[string]string) Settings {
	s := Settings{}
	for k, v := range values {
		s[k] = Setting{Value: v, Origin: "--set"}
	}
	return s
}

func mustBroker(t *testing.T, values map[string]string) *Broker {
	t.Helper()
	b, err := ParseBroker(settingsOf(values))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDefaultBroker(t *testing.T) {
	b := mustBroker(t, nil)
	want := Listener{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "127.0.0.1", Port: 9092, AdvertisedHost: "localhost", AdvertisedPort: 9092}
	if len(b.Listeners) != 1 || b.Listeners[0] != want {
		t.Errorf("listeners %+v", b.Listeners)
	}
	if b.NodeID != 1 || b.NumPartitions != 1 || !b.AutoCreateTopics || b.RequestBytesMax != 100<<20 || b.FetchBytesMax != 55<<20 ||
		b.ConnectionsMaxIdle != 10*time.Minute || b.ProduceDecodedBytesMax != 64<<20 || b.AdminListen != "127.0.0.1:9644" {
		t.Errorf("%+v", b)
	}
	topic := b.Topic
	if topic.RetentionAge != 7*24*time.Hour || topic.SegmentBytes != 1<<30 || topic.SegmentAge != 7*24*time.Hour ||
		topic.FlushInterval != math.MaxInt64 || topic.FlushMessages != math.MaxInt64 || topic.MessageBytesMax != 1048588 ||
		!topic.CleanupDelete || topic.LogAppendTime || topic.TimestampAfterMaxMS != 3600000 || topic.Compression != CompressionProducer {
		t.Errorf("%+v", topic)
	}
}

func TestBrokerFaults(t *testing.T) {
	f := func(values map[string]string, want ...string) {
		t.Helper()
		b, err := ParseBroker(settingsOf(values))
		if err == nil {
			t.Fatalf("%v was taken: %+v", values, b.Listeners)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %q does not contain %q", values, err, w)
			}
		}
	}
	f(map[string]string{"num.partition": "3"}, "unknown setting num.partition (--set); did you mean num.partitions?")
	f(map[string]string{"num.partitions": "many", "auto.create.topics.enable": "yes"},
		`invalid value "many" for num.partitions: not a number of type int (--set)`, `"yes"`, "expected true or false")
	f(map[string]string{"num.partitions": "0"}, "value must be 1 to 100000")
	f(map[string]string{"log.segment.bytes": "1"}, "value must be at least 1048576")
	f(map[string]string{"log.cleanup.policy": "shrink"}, "value must be one of delete, compact")
	f(map[string]string{"log.cleaner.io.max.bytes.per.second": "10"}, "value must be at least 1024")
	f(map[string]string{"log.dirs": "a,b,./a/"}, "names a twice")
	f(map[string]string{"log.dirs": ""}, "names no directory")
	f(map[string]string{"broker.id": "2", "node.id": "3"}, "broker.id: differs from node.id")
	f(map[string]string{"listeners": "PLAINTEXT://0.0.0.0:9092"}, "set advertised.listeners=PLAINTEXT://HOST:9092")
	f(map[string]string{"listeners": "PLAINTEXT://:9092"}, "set advertised.listeners=")
	f(map[string]string{"listeners": "PLAINTEXT://[::]:9092"}, "set advertised.listeners=")
	f(map[string]string{"listeners": "PLAINTEXT://h:1", "advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "advertises every address")
	f(map[string]string{"listeners": "INSIDE://127.0.0.1:9092"}, "add INSIDE:PLAINTEXT to listener.security.protocol.map")
	f(map[string]string{"listeners": "SSL://127.0.0.1:9092"}, "speaks SSL, which does not exist here yet")
	f(map[string]string{"listeners": "PLAINTEXT://127.0.0.1"}, "is not HOST:PORT")
	f(map[string]string{"listeners": "PLAINTEXT://127.0.0.1:99999"}, "is not 0 to 65535")
	f(map[string]string{"listeners": ""}, "no listener")
	f(map[string]string{"listeners": "A://127.0.0.1:1,B://127.0.0.1:1", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}, "both bind port 1")
	f(map[string]string{"advertised.listeners": "OTHER://h:1"}, "listener OTHER is advertised but not in listeners")
	f(map[string]string{"queued.max.request.bytes": "1048576"}, "at least socket.request.max.bytes", "at least millrace.produce.decoded.bytes.max")
	f(map[string]string{"max.connections.per.ip": "0"}, "0 lets nobody in without max.connections.per.ip.overrides")
	f(map[string]string{"max.connections.per.ip.overrides": "somewhere:3"}, "is not an address")
	f(map[string]string{"millrace.admin.listen": "9644"}, "is not HOST:PORT")
	for _, host := range []string{"0.0.0.0", "", "[::]", "10.1.2.3", "broker.example.org"} {
		f(map[string]string{"millrace.admin.listen": host + ":9644"}, "set millrace.admin.token to a secret, or listen on 127.0.0.1")
		mustBroker(t, map[string]string{"millrace.admin.listen": host + ":9644", "millrace.admin.token": "0123456789abcdef"})
	}
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]", "127.9.9.9"} {
		mustBroker(t, map[string]string{"millrace.admin.listen": host + ":9644"})
	}
	f(map[string]string{"millrace.admin.listen": "0.0.0.0:9644", "millrace.admin.token": "short"}, "fewer than 16 characters")
	f(map[string]string{"millrace.io.backend": "uring"}, "one of auto, ring, posix")
}

func TestSeveralListeners(t *testing.T) {
	b := mustBroker(t, map[string]string{
		"listeners":                        "inside://127.0.0.1:9092, outside://0.0.0.0:9093",
		"advertised.listeners":             "OUTSIDE://broker.example.org:19093",
		"listener.security.protocol.map":   "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
		"max.connections.per.ip.overrides": "127.0.0.1:5,::1:6",
		"broker.id":                        "7",
	})
	if b.NodeID != 7 {
		t.Errorf("node id %d", b.NodeID)
	}
	if got := fmt.Sprint(b.Listeners); got != "[{INSIDE PLAINTEXT 127.0.0.1 9092 127.0.0.1 9092} {OUTSIDE PLAINTEXT 0.0.0.0 9093 broker.example.org 19093}]" {
		t.Error(got)
	}
	if got := fmt.Sprint(b.ConnectionsMaxOverrides); got != "map[127.0.0.1:5 ::1:6]" {
		t.Error(got)
	}
}

// I06: what CreateTopics and alterations say to values.
func TestTopicConfigFaults(t *testing.T) {
	f := func(name, value string, kind Kind) {
		t.Helper()
		err := CheckTopicConfigs(map[string]string{name: value})
		if got := KindOf(err); got != kind {
			t.Errorf("%s=%q: kind %d, want %d: %v", name, value, got, kind, err)
		}
	}
	f("no.such.key", "1", KindUnknown)
	f("retention.ms", "abc", KindInvalid)
	f("retention.ms", "-1", 0)
	f("retention.ms", "-2", KindInvalid)
	f("retention.ms", " 5 ", 0)
	f("retention.ms", "", KindInvalid)
	f("retention.ms", "9223372036854775808", KindInvalid)
	f("segment.ms", "0", KindInvalid)
	f("segment.bytes", "2147483648", KindInvalid)
	f("segment.bytes", "1048575", KindInvalid)
	f("cleanup.policy", "foo", KindInvalid)
	f("cleanup.policy", "", 0)
	f("cleanup.policy", "delete", 0)
	f("cleanup.policy", "delete,delete", KindInvalid)
	f("cleanup.policy", "compact", 0)
	f("cleanup.policy", "compact,delete", 0)
	f("remote.storage.enable", "false", 0)
	f("remote.storage.enable", "FALSE", 0)
	f("remote.storage.enable", "true", KindRefused)
	f("preallocate", "true", 0)
	f("compression.type", "brotli", KindInvalid)
	f("compression.gzip.level", "0", KindInvalid)
	f("min.cleanable.dirty.ratio", "1.5", KindInvalid)
	f("min.cleanable.dirty.ratio", "NaN", KindInvalid)
	f("leader.replication.throttled.replicas", "0:1,1:2", 0)
	f("leader.replication.throttled.replicas", "*", 0)
	f("leader.replication.throttled.replicas", "x", KindInvalid)
	f("min.compaction.lag.ms", "9223372036854775807", 0)
	err := CheckTopicConfigs(map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})
	if KindOf(err) != KindConflict {
		t.Errorf("lags: %v", err)
	}
	err = CheckTopicConfigs(map[string]string{"a": "1", "retention.ms": "x"})
	if err == nil || !strings.Contains(err.Error(), "unknown setting a") || !strings.Contains(err.Error(), "retention.ms") {
		t.Errorf("two faults: %v", err)
	}
}

// I09: set, delete, append, subtract.
func TestAlter(t *testing.T) {
	current := map[string]string{"retention.ms": "5", "cleanup.policy": "delete"}
	f := func(want string, kind Kind, ops ...Op) {
		t.Helper()
		next, err := Alter(ScopeTopic, current, ops)
		if got := KindOf(err); got != kind {
			t.Errorf("%v: kind %d, want %d: %v", ops, got, kind, err)
		} else if err == nil && fmt.Sprint(next) != want {
			t.Errorf("%v: %v, want %v", ops, next, want)
		}
	}
	f("map[cleanup.policy:delete retention.ms:6]", 0, Op{Kind: Set, Name: "retention.ms", Value: "6"})
	f("map[cleanup.policy:delete]", 0, Op{Kind: Delete, Name: "retention.ms", Null: true})
	f("map[cleanup.policy: retention.ms:5]", 0, Op{Kind: Subtract, Name: "cleanup.policy", Value: "delete"})
	f("map[cleanup.policy:delete retention.ms:5]", 0, Op{Kind: Append, Name: "cleanup.policy", Value: "delete"})
	f("map[cleanup.policy:delete leader.replication.throttled.replicas:0:1 retention.ms:5]", 0,
		Op{Kind: Append, Name: "leader.replication.throttled.replicas", Value: "0:1"})
	f("map[cleanup.policy:delete,compact retention.ms:5]", 0, Op{Kind: Append, Name: "cleanup.policy", Value: "compact"})
	f("", KindNotList, Op{Kind: Append, Name: "retention.ms", Value: "1"})
	f("", KindNull, Op{Kind: Set, Name: "retention.ms", Null: true})
	f("", KindUnknown, Op{Kind: Delete, Name: "retention.mss"})
	f("", KindInvalid, Op{Kind: 9, Name: "retention.ms"})
	f("", KindInvalid, Op{Kind: Set, Name: "retention.ms", Value: "6"}, Op{Kind: Set, Name: "segment.ms", Value: "0"}, Op{Kind: Set, Name: "flush.ms", Value: "1"})
	if fmt.Sprint(current) != "map[cleanup.policy:delete retention.ms:5]" {
		t.Errorf("current changed: %v", current)
	}
	if next, err := Alter(ScopeTopic, map[string]string{"gone": "1"}, []Op{{Kind: Delete, Name: "gone"}}); err != nil || len(next) != 0 {
		t.Errorf("delete of a stored unknown: %v %v", next, err)
	}
	if _, err := Alter(ScopeBroker, nil, []Op{{Kind: Set, Name: "num.partitions", Value: "3"}}); KindOf(err) != KindNotDynamic {
		t.Errorf("static setting: %v", err)
	}
	if next, err := Alter(ScopeBroker, nil, []Op{{Kind: Set, Name: "log.retention.ms", Value: "3"}}); err != nil || next["log.retention.ms"] != "3" {
		t.Errorf("dynamic setting: %v %v", next, err)
	}
}

// I11: values, sources and synonyms through all places.
func TestDescribeTopic(t *testing.T) {
	b := mustBroker(t, map[string]string{"log.retention.hours": "2", "log.roll.ms": "9000", "message.max.bytes": "111"})
	find := func(r *Resolver, overrides map[string]string, name string) string {
		for _, e := range r.DescribeTopic(overrides) {
			if e.Name == name {
				line := fmt.Sprintf("%s %v:", e.Value, e.Source)
				for _, s := range e.Synonyms {
					line += fmt.Sprintf(" %s=%s@%v", s.Name, s.Value, s.Source)
				}
				return line
			}
		}
		return ""
	}
	f := func(r *Resolver, overrides map[string]string, name, want string) {
		t.Helper()
		if got := find(r, overrides, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	static := NewResolver(b, nil, nil)
	f(static, nil, "retention.ms", "7200000 static: log.retention.hours=2@static")
	f(static, nil, "segment.ms", "9000 static: log.roll.ms=9000@static")
	f(static, nil, "segment.bytes", "1073741824 default: log.segment.bytes=1073741824@default")
	f(static, map[string]string{"retention.ms": "7"}, "retention.ms", "7 topic: retention.ms=7@topic log.retention.hours=2@static")
	f(static, nil, "remote.storage.enable", "false default:")
	dynamic := NewResolver(b, map[string]string{"message.max.bytes": "222"}, map[string]string{"message.max.bytes": "333"})
	f(dynamic, nil, "max.message.bytes",
		"333 dynamic broker: message.max.bytes=333@dynamic broker message.max.bytes=222@dynamic default message.max.bytes=111@static message.max.bytes=1048588@default")
	if got := dynamic.Topic(nil).MessageBytesMax; got != 333 {
		t.Errorf("max message bytes %d", got)
	}
	if got := dynamic.Topic(map[string]string{"max.message.bytes": "4", "retention.ms": "-1"}); got.MessageBytesMax != 4 || got.RetentionAge != -1 {
		t.Errorf("overridden: %+v", got)
	}
	if got := static.Topic(nil).RetentionAge; got != 2*time.Hour {
		t.Errorf("retention %v", got)
	}
	if static.Topic(nil) != static.Topic(map[string]string{}) {
		t.Error("topics without overrides do not share their values")
	}
	// What an older program stored and this one refuses is passed over.
	if got := static.Topic(map[string]string{"retention.ms": "abc"}).RetentionAge; got != 2*time.Hour {
		t.Errorf("retention %v", got)
	}
}

func TestDescribeBroker(t *testing.T) {
	b := mustBroker(t, map[string]string{"num.partitions": "4"})
	r := NewResolver(b, map[string]string{"message.max.bytes": "222"}, nil)
	byName := map[string]Entry{}
	for _, e := range r.DescribeBroker(true) {
		byName[e.Name] = e
	}
	if e := byName["num.partitions"]; e.Value != "4" || e.Source != SourceStaticBroker || !e.ReadOnly || len(e.Synonyms) != 2 {
		t.Errorf("%+v", e)
	}
	if e := byName["message.max.bytes"]; e.Value != "222" || e.Source != SourceDynamicDefaultBroker || e.ReadOnly {
		t.Errorf("%+v", e)
	}
	if e := byName["broker.rack"]; !e.Null || len(e.Synonyms) != 0 {
		t.Errorf("%+v", e)
	}
	if all := r.DescribeBroker(false); len(all) != 1 || all[0].Name != "message.max.bytes" {
		t.Errorf("all brokers: %+v", all)
	}
	rows := b.Rows()
	for _, row := range rows {
		if row.Name == "num.partitions" && (row.Value != "4" || row.Default != "1" || row.Source != "--set" || strings.Count(row.Doc, ". ") > 0) {
			t.Errorf("%+v", row)
		}
	}
	f := func(name, effect, doc string) {
		t.Helper()
		for _, row := range rows {
			if row.Name == name && (row.Effect != effect || row.Doc != doc) {
				t.Errorf("%+v", row)
			}
		}
	}
	f("num.partitions", "takes effect", "How many partitions a topic gets that does not say so itself.")
	f("log.cleaner.min.compaction.lag.ms", "takes effect", "Of topics, min.compaction.lag.ms: How old the newest record of a segment must be before the segment is compacted.")
	f("log.roll.hours", "takes effect", "Of topics, segment.ms in hours: How old a segment may get before a new one is begun, so that retention can delete it.")
	f("min.insync.replicas", "no meaning here", "Of topics, min.insync.replicas: How many replicas must be in sync for a produce request with acks=all to be taken.")
	if len(rows) != len(BrokerDefinitions()) {
		t.Errorf("%d rows", len(rows))
	}
}

func FuzzParseBroker(f *testing.F) {
	f.Add("listeners", "PLAINTEXT://127.0.0.1:9092")
	f.Add("listener.security.protocol.map", "A:PLAINTEXT")
	f.Add("max.connections.per.ip.overrides", "::1:3")
	f.Add("retention", "1")
	f.Fuzz(func(t *testing.T, name, value string) {
		b, err := ParseBroker(Settings{name: {Value: value, Origin: "fuzz"}})
		if (b == nil) == (err == nil) {
			t.Fatal("neither or both")
		}
		if err == nil {
			b.Rows()
		}
		_ = CheckTopicConfigs(map[string]string{name: value})
	})
}
