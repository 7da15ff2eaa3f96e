package config

import (
	"strings"
	"testing"
	"time"
)

// TestDynamicSettings resolves settings that take effect while a broker runs, those of one listener among them.
func TestDynamicSettings(t *testing.T) {
	const general, own = "max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"
	b := mustBroker(t, map[string]string{general: "9", own: "7", "log.dirs": "/a,b", "cordoned.log.dirs": "*", "millrace.log.slow.request.ms": "5"})
	f := func(r *Resolver, all, plaintext int, cordoned bool, slow time.Duration) {
		t.Helper()
		if r.ConnectionRate("") != all || r.ConnectionRate("PLAINTEXT") != plaintext || r.ConnectionRate("OTHER") != 0 {
			t.Errorf("rates %d, %d, %d", r.ConnectionRate(""), r.ConnectionRate("PLAINTEXT"), r.ConnectionRate("OTHER"))
		}
		if r.Cordoned("/a") != cordoned || r.SlowRequest() != slow {
			t.Errorf("cordoned %v, slow %v", r.Cordoned("/a"), r.SlowRequest())
		}
	}
	f(NewResolver(mustBroker(t, nil), nil, nil), 0, 0, false, time.Second)
	f(NewResolver(b, nil, nil), 9, 7, true, 5*time.Millisecond)
	f(NewResolver(b, map[string]string{own: "6", general: "5", "millrace.log.slow.request.ms": "0"}, map[string]string{general: "4", "cordoned.log.dirs": ""}), 4, 6, false, 0)
	f(NewResolver(b, nil, map[string]string{general: "many", "cordoned.log.dirs": "b"}), 9, 7, false, 5*time.Millisecond) // an older program may have taken it

	now, waiting, err := b.Reread(mustBroker(t, map[string]string{general: "8", "log.dirs": "/a,b"}))
	if err != nil || len(waiting) != 0 {
		t.Error(waiting, err)
	}
	f(NewResolver(now, nil, nil), 8, 0, false, time.Second)

	if r := NewResolver(b, nil, map[string]string{"replica.alter.log.dirs.io.max.bytes.per.second": "1000"}); r.MoveRate() != 1000 || NewResolver(b, nil, nil).MoveRate() != 0 {
		t.Errorf("rate of moves %d", r.MoveRate())
	}

	refused := func(name, value, want string) {
		t.Helper()
		_, err := ParseBroker(Settings{name: {Value: value, Origin: "test"}, "log.dirs": {Value: "/a,b"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: %v, want %q", name, value, err, want)
		}
		if _, known := err.(*Error); !known || BrokerDefinition(name) == nil {
			return
		}
		configs := map[string]string{name: value}
		if CheckBrokerConfigs(configs) == nil && b.CheckDynamic(configs) == nil {
			t.Errorf("%s=%s is taken while the broker runs", name, value)
		}
	}
	refused(general, "0", "at least 1")
	refused(own, "x", "not a number")
	refused("listener.name.inside."+general, "5", "no listener inside")
	refused("listener.name.plaintext.num.partitions", "5", "unknown setting")
	refused("listener.name.", "5", "unknown setting")
	refused("cordoned.log.dirs", "/c", "not in log.dirs")
	refused("cordoned.log.dirs", "/a,*", "must stand alone")
	refused("max.connections.per.ip", "0", "lets nobody in")
	all, perAddress, overrides := NewResolver(b, map[string]string{"max.connections": "50", "max.connections.per.ip.overrides": "::1:3"}, map[string]string{"max.connections.per.ip": "7"}).ConnectionsMax()
	if all != 50 || perAddress != 7 || len(overrides) != 1 || overrides["::1"] != 3 {
		t.Errorf("connections: %d, %d, %v", all, perAddress, overrides)
	}

	entries := NewResolver(b, nil, map[string]string{own: "6"}).DescribeBroker(true)
	found := ""
	for _, e := range entries {
		if e.Name == own {
			found += e.Value + " " + e.Source.String()
		}
	}
	if found != "6 dynamic broker" || len(entries) != len(BrokerDefinitions())+1 {
		t.Errorf("described as %q among %d", found, len(entries))
	}
	if len(b.Rows()) != len(BrokerDefinitions())+1 {
		t.Error("--print-config leaves out that of a listener")
	}
}
