package broker_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"millrace/cmd/broker/brokertest"
)

// exportedNames are the metrics of a broker that has done a little of everything.
func exportedNames(t *testing.T) (is func(name string) bool, exported string) {
	b := brokertest.Start(t, nil)
	topic := b.NewTopic(t, 1, nil)
	m := b.NewMember(t, "alerts")
	m.Generation = -1
	m.Commit(8, topic, 1, nil) // lag shows with the first offset
	brokertest.Dial(t, b.Addr).MustProduce(topic, 0, batchOf("one"))
	exported = metricsOf(t, b)
	if exported == "" {
		t.Skip("the broker from outside exports nothing here")
	}
	return func(name string) bool {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && strings.Contains(exported, "\n# TYPE "+base+" ") {
				return true
			}
		}
		return false
	}, exported
}

// Every metric that an alert rule or the dashboard looks at is one that a broker exports, and every rule has its line in
// the operations page.
func TestAlertsLookAtMetricsThatExist(t *testing.T) {
	rules, page, board := readDoc(t, "alerts.yml"), readDoc(t, "operations.md"), readDoc(t, "grafana.json")
	is, exported := exportedNames(t)
	seen := 0
	for _, name := range regexp.MustCompile(`millrace_[a-z_]+`).FindAllString(rules+board, -1) {
		seen++
		if !is(name) {
			t.Errorf("no metric %s is exported", name)
		}
	}
	for _, match := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		seen++
		if !strings.Contains(page, match[1]) {
			t.Errorf("docs/operations.md says nothing of %s", match[1])
		}
	}
	if seen < 60 {
		t.Errorf("only %d names were found", seen)
	}
	promtool(t, exported, "check", "metrics")
	promtool(t, "", "check", "rules", "../../docs/alerts.yml")
	promtool(t, "", "check", "rules", boardAsRules(t, board))
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// promtool runs Prometheus' own checker, where there is one.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	binary, err := exec.LookPath("promtool")
	if err != nil {
		t.Logf("promtool %v was not run: apt-get install prometheus", args)
		return
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

// boardAsRules writes each expression of the dashboard as a rule into a file, for a checker that knows rules, and looks at
// the dashboard's form: each panel has a number of its own, a place, and says what it shows.
func boardAsRules(t *testing.T, board string) string {
	t.Helper()
	var dashboard struct {
		UID    string
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(board), &dashboard); err != nil || dashboard.UID != "millrace" || len(dashboard.Panels) < 20 {
		t.Fatalf("docs/grafana.json: %v, %d panels", err, len(dashboard.Panels))
	}
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: board\n    rules:\n")
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q: %+v", p.ID, p.Title, p.GridPos)
		}
		ids[p.ID] = true
		for i, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(target.Expr)
			fmt.Fprintf(&rules, "      - record: board:panel%d:%d\n        expr: %q\n", p.ID, i, expr)
		}
	}
	file := filepath.Join(t.TempDir(), "board.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
