package broker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// setBrokerConfigs changes dynamic configs of broker 1, or of all where all is set; an empty value deletes. It returns
// the code and its message.
func setBrokerConfigs(c *brokertest.Conn, all bool, configs map[string]string) (int16, string) {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeBroker
	if !all {
		resource.ResourceName = "1"
	}
	for name, value := range configs {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op = name, kmsg.IncrementalAlterConfigOpDelete
		if value != "" {
			config.Op, config.Value = kmsg.IncrementalAlterConfigOpSet, &value
		}
		resource.Configs = append(resource.Configs, config)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{resource}
	out := c.Request(req, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	if out.ErrorMessage == nil {
		return out.ErrorCode, ""
	}
	return out.ErrorCode, *out.ErrorMessage
}

// TestSlowRequests lets everything count as slow that takes a millisecond, as making many partitions does, and as a client
// does that sends its request in two parts.
func TestSlowRequests(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"millrace.log.slow.request.ms": "0"})
	if brokertest.Outside() != "" {
		t.Skip("the log of a broker from outside is not here")
	}
	b.CreateTopic(t, "many", 2000, nil)
	if log := b.LogTail(1 << 20); strings.Contains(log, "slow request") {
		t.Errorf("logged although it is off: %s", log)
	}
	c := brokertest.Dial(t, b.Addr)
	code, message := setBrokerConfigs(c, true, map[string]string{"millrace.log.slow.request.ms": "1"})
	want(t, "code of the change "+message, code, errNone)
	logged := func(cause func(), parts ...string) {
		t.Helper()
		brokertest.Eventually(t, "the slow request to be logged", func() bool {
			cause() // again, since of others at the same time one is logged
			for line := range strings.Lines(b.LogTail(1 << 20)) {
				found := true
				for _, part := range parts {
					found = found && strings.Contains(line, part)
				}
				if found {
					return true
				}
			}
			return false
		})
	}
	logged(func() { b.NewTopic(t, 200, nil) }, `"msg":"slow request","component":"kafka","api":"CreateTopics"`, `"read_ms":`, `"queue_ms":`, `"work_ms":`, `"wait_ms":0`, `"send_ms":`)

	metadata := brokertest.MetadataRequest()
	frame, correlation := c.Frame(metadata, 12)
	bytes := func() float64 { return metricOf(t, b, "millrace_net_received_bytes_total") }
	before := bytes()
	c.SendFrame(frame[:7])
	brokertest.Eventually(t, "the first part to be read", func() bool { return bytes() == before+7 })
	for began := time.Now(); time.Since(began) < 5*time.Millisecond; {
		bytes()
	}
	c.SendFrame(frame[7:])
	c.Receive(metadata, correlation)
	logged(func() {}, `"msg":"slow client","component":"kafka","api":"Metadata"`, `"read_ms":`)
	for _, name := range []string{"requests", "clients"} {
		if metricOf(t, b, "millrace_kafka_slow_"+name+"_total") < 1 {
			t.Errorf("slow %s are not counted", name)
		}
	}
}
