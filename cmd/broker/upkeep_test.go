package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// alterBroker changes a config of a broker, or of all where its name is empty; nil deletes it. It returns the error.
func alterBroker(c *brokertest.Conn, broker, name string, value *string) int16 {
	one := change{name, 0, value}
	if value == nil {
		one.op = 1
	}
	req := alterRequest(broker, one)
	req.Resources[0].ResourceType = kmsg.ConfigResourceTypeBroker
	return c.Request(req, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
}

// TestCompactionSettingsChangeWhileItRuns has a broker look for what to compact at once instead of in an hour, holds
// a compaction up by a low rate and lets it go on, and demands the same after a restart.
func TestCompactionSettingsChangeWhileItRuns(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"log.cleaner.backoff.ms": "3600000"})
	c := brokertest.Dial(t, b.Addr)
	topic := b.NewTopic(t, 1, map[string]string{"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0"})
	fill := func() {
		for range 4 {
			c.MustProduce(topic, 0, brokertest.NewBatch(brokertest.Record{Key: []byte("k"), Value: make([]byte, 600_000)}))
		}
	}
	metric := func(name string) float64 { return metricOf(t, b, "millrace_engine_clean"+name+"_total") }
	set := func(broker, name, value string) {
		t.Helper()
		want(t, name, alterBroker(c, broker, name, &value), errNone)
	}
	shown := func(name, value string, source kmsg.ConfigSource) {
		t.Helper()
		answer := describe(c, kmsg.ConfigResourceTypeBroker, "1", []string{name}).Configs
		if len(answer) != 1 || answer[0].Value == nil || *answer[0].Value != value || answer[0].Source != source || answer[0].ReadOnly {
			t.Errorf("%s is %+v, want %s from %v", name, answer, value, source)
		}
	}
	const rate = "log.cleaner.io.max.bytes.per.second"
	fill()
	set("", rate, "1024")
	set("1", "log.cleaner.backoff.ms", "20")
	brokertest.Eventually(t, "a compaction has begun", func() bool { return metric("_read_bytes") > 0 })
	shown(rate, "1024", kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	shown("log.cleaner.backoff.ms", "20", kmsg.ConfigSourceDynamicBrokerConfig)
	want(t, "compactions at 1 KiB/s", metric("ings"), 0)
	want(t, "no rate", alterBroker(c, "", rate, nil), errNone)
	compacted := func() bool { return c.Records(topic, 0, 0)[0].Offset > 0 && metric("ings") > 0 }
	brokertest.Eventually(t, "it is finished", compacted)

	f := func(name, value string, code int16) {
		t.Helper()
		want(t, name+"="+value, alterBroker(c, "1", name, &value), code)
	}
	f("log.cleaner.dedupe.buffer.size", "1048576", errNone)
	f("log.cleaner.dedupe.buffer.size", "1048575", errInvalidConfig)
	f(rate, "10", errInvalidConfig)
	f("log.cleaner.backoff.ms", "often", errInvalidConfig)
	f("log.cleaner.threads", "2", errNone)
	f("producer.id.expiration.ms", "60000", errNone)
	f("log.cleaner.enable", "false", errInvalidRequest)
	shown("log.cleaner.threads", "2", kmsg.ConfigSourceDynamicBrokerConfig)
	b.Stop(t)
	b.Restart(t)
	c = brokertest.Dial(t, b.Addr)
	shown("log.cleaner.backoff.ms", "20", kmsg.ConfigSourceDynamicBrokerConfig)
	fill()
	brokertest.Eventually(t, "compacted after a restart", compacted)
}
