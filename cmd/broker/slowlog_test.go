package broker_test

import (
	"strings"
	"testing"

	"millrace/cmd/broker/brokertest"
)

// TestSlowRequests lets everything count as slow that takes a millisecond, as making many partitions does.
func TestSlowRequests(t *testing.T) {
	b := brokertest.Start(t, map[string]string{"millrace.log.slow.request.ms": "1"})
	if brokertest.Outside() != "" {
		t.Skip("the log of a broker from outside is not here")
	}
	b.CreateTopic(t, "many", 2000, nil)
	brokertest.Eventually(t, "the slow request to be logged", func() bool {
		log := b.LogTail(1 << 20)
		return strings.Contains(log, `"msg":"slow request","component":"kafka","api":"CreateTopics"`) && strings.Contains(log, `"queue_ms":`) && strings.Contains(log, `"work_ms":`)
	})
	if !strings.Contains(metricsOf(t, b), "\nmillrace_kafka_slow_requests_total ") {
		t.Error("slow requests are not counted")
	}
}
