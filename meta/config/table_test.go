package config

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

// kafkaRows reads what Apache Kafka 4.4 answers to DescribeConfigs.
func kafkaRows(t *testing.T, file string) map[string][]string {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := map[string][]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 0 && fields[0] != "#" {
			rows[fields[0]] = fields[1:]
		}
	}
	return rows
}

func shown(value string, null bool) string {
	if null {
		return "<null>"
	}
	return fmt.Sprintf("%q", value)
}

func TestTopicsHaveTheConfigsOfKafka(t *testing.T) {
	rows := kafkaRows(t, "kafka-4.4-topic.txt")
	r := NewResolver(mustBroker(t, nil), nil, nil)
	for _, e := range r.DescribeTopic(nil) {
		row := rows[e.Name]
		if row == nil {
			t.Errorf("Kafka has no %s", e.Name)
			continue
		}
		delete(rows, e.Name)
		synonym := "-"
		if len(e.Synonyms) > 0 {
			synonym = e.Synonyms[0].Name
		}
		got := fmt.Sprint([]string{e.Type.String(), shown(e.Value, e.Null), fmt.Sprint(e.ReadOnly), fmt.Sprint(e.Sensitive), synonym})
		if got != fmt.Sprint(row) {
			t.Errorf("%s: %v, Kafka has %v", e.Name, got, row)
		}
		if e.Source != SourceDefault || e.Doc == "" {
			t.Errorf("%s: source %v, doc %q", e.Name, e.Source, e.Doc)
		}
	}
	for name := range rows {
		t.Errorf("%s of Kafka is missing", name)
	}
}

func TestBrokerSettingsAreThoseOfKafka(t *testing.T) {
	rows := kafkaRows(t, "kafka-4.4-broker.txt")
	own := map[string]string{
		"node.id":                  `has a default here`,
		"broker.id":                `means node.id, and is not set unless somebody sets it`,
		"listeners":                `binds loopback here, and is fixed at the start`,
		"log.dir":                  `one directory, of another name`,
		"queued.max.request.bytes": `is bounded here`,
		// Kafka takes them at run time alone, and lists them only where they are set.
		"leader.replication.throttled.rate":              `not listed`,
		"follower.replication.throttled.rate":            `not listed`,
		"replica.alter.log.dirs.io.max.bytes.per.second": `not listed`,
		// Their values are fixed at the start here.
		"listener.security.protocol.map":      `at start`,
		"offsets.retention.check.interval.ms": `at start`,
	}
	for _, d := range BrokerDefinitions() {
		if strings.HasPrefix(d.Name, "millrace.") || own[d.Name] != "" {
			continue
		}
		row := rows[d.Name]
		if row == nil {
			t.Errorf("Kafka has no %s", d.Name)
			continue
		}
		delete(rows, d.Name)
		got := fmt.Sprint([]string{d.Type.String(), shown(d.Default, d.Null), fmt.Sprint(d.ReadOnly()), fmt.Sprint(d.Sensitive)})
		if got != fmt.Sprint(row) {
			t.Errorf("%s: %v, Kafka has %v", d.Name, got, row)
		}
	}
	for name := range rows {
		if own[name] == "" {
			t.Errorf("%s of Kafka is missing", name)
		}
	}
}

// TestClassesOfSettings: a setting without effect is taken, one that asks for what is not here is not.
func TestClassesOfSettings(t *testing.T) {
	f := func(name, value, want string) {
		t.Helper()
		_, err := ParseBroker(Settings{name: {Value: value, Origin: "test"}})
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s=%s: %v, want %q", name, value, err, want)
		}
	}
	f("log.cleaner.threads", "4", "")
	f("num.io.threads", "16", "")
	f("num.io.threads", "many", "not a number")
	f("process.roles", "broker,controller", "")
	f("ssl.keystore.location", "/k", "TLS does not exist")
	f("ssl.client.auth", "none", "")
	f("authorizer.class.name", "a.b.C", "leave it out")
	f("controller.quorum.voters", "1@a:1,2@b:1", "cluster of its own")
	if b := mustBroker(t, map[string]string{"log.cleaner.enable": "false"}); b.CleanInterval < 1<<60 {
		t.Errorf("compaction every %v although it is off", b.CleanInterval)
	}
	if err := CheckBrokerConfigs(map[string]string{"sasl.enabled.mechanisms": "PLAIN"}); err == nil {
		t.Error("a refused setting is taken while the broker runs")
	}
}

func TestTableIsSound(t *testing.T) {
	for _, list := range [][]*Definition{TopicDefinitions(), BrokerDefinitions(), GroupDefinitions()} {
		seen := map[string]bool{}
		for _, d := range list {
			if seen[d.Name] {
				t.Errorf("%s stands twice", d.Name)
			}
			seen[d.Name] = true
			if d.Doc == "" || !strings.HasSuffix(d.Doc, ".") || d.Type == 0 || d.Scope == 0 || d.Standing == 0 || d.Importance == 0 {
				t.Errorf("%s is incomplete: %+v", d.Name, d)
			}
			if d.Standing == Refused && d.Reason == "" {
				t.Errorf("%s is refused without a reason", d.Name)
			}
			if !d.Null {
				if _, err := d.parse(d.Default); err != nil {
					t.Errorf("default: %v", err)
				}
			}
			for _, s := range d.Synonyms {
				if BrokerDefinition(s.Name) == nil {
					t.Errorf("synonym %s of %s does not exist", s.Name, d.Name)
				}
			}
		}
	}
}

func TestNearestName(t *testing.T) {
	f := func(scope Scope, name, want string) {
		t.Helper()
		if got := Nearest(scope, name); got != want {
			t.Errorf("nearest to %q: %q, want %q", name, got, want)
		}
	}
	f(ScopeTopic, "retention.mss", "retention.ms")
	f(ScopeTopic, "Retention.MS", "retention.ms")
	f(ScopeTopic, "cleanup_policy", "cleanup.policy")
	f(ScopeTopic, "xyz", "")
	f(ScopeBroker, "listener", "listeners")
	f(ScopeBroker, "num.partition", "num.partitions")
	f(ScopeBroker, "io.backend", "millrace.io.backend")
	f(ScopeBroker, "retention.hours", "log.retention.hours")
	f(ScopeBroker, strings.Repeat("x", 1<<20), "")
}

func TestDocumentation(t *testing.T) {
	var b strings.Builder
	if err := WriteDocumentation(&b); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(TopicDefinitions(), BrokerDefinitions()...) {
		if !strings.Contains(b.String(), "\n| `"+d.Name+"` | ") {
			t.Errorf("%s is not documented", d.Name)
		}
	}
}
