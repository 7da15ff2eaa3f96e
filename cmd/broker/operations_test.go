package broker_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"millrace/cmd/broker/brokertest"
)

// Every metric that an alert rule looks at is one that a broker exports, and every rule has its line in the operations
// page.
func TestAlertsLookAtMetricsThatExist(t *testing.T) {
	rules, err := os.ReadFile("../../docs/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	b := brokertest.Start(t, nil)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, "alerts")
	m.Generation = -1
	m.Commit(8, topic, 1, nil) // lag shows with the first offset
	brokertest.Dial(t, b.Addr).MustProduce(topic, 0, batchOf("one"))
	exported := metricsOf(t, b)
	seen := 0
	for _, name := range regexp.MustCompile(`millrace_[a-z_]+`).FindAllString(string(rules), -1) {
		seen++
		if !strings.Contains(exported, "\n"+name+" ") && !strings.Contains(exported, "\n"+name+"{") {
			t.Errorf("no metric %s is exported", name)
		}
	}
	for _, match := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		seen++
		if !strings.Contains(string(page), match[1]) {
			t.Errorf("docs/operations.md says nothing of %s", match[1])
		}
	}
	if seen < 20 {
		t.Errorf("only %d names were found in docs/alerts.yml", seen)
	}
}
