package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTop shows what a broker's admin endpoint tells, here one whose clients mean ill.
func TestTop(t *testing.T) {
	answers := map[string]string{
		"/api/overview": `{"node_id":7,"topics":1,"partitions":3,"groups":1,"connections":2,"health":"disk \u001b[2J"}`,
		"/api/history":  `{"columns":["time","cpus","produce_p99_seconds"],"rows":[[1,0.5,-1]]}`,
		"/api/topics":   `{"rows":[{"name":"orders","partitions":3,"records":40,"bytes":2000,"records_in_per_second":12.4,"bytes_growth_per_second":null}]}`,
		"/api/clients":  `{"rows":[{"id":"\u001b[31mred\n","connections":1,"produced_bytes_per_second":1500}]}`,
		"/api/groups":   `{"rows":[{"id":"g\u202e","state":"Stable","members":1,"lag":9,"lag_growth_per_second":-3}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer a token of some length" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Write([]byte(answers[r.URL.Path]))
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	code, _, errOut := run(t, "", "top", "--admin", address)
	if code != exitFailed || !strings.Contains(errOut, "MILLRACE_ADMIN_TOKEN") {
		t.Errorf("without a token: %d %s", code, errOut)
	}
	with := func(args ...string) (int, string, string) {
		var o, e strings.Builder
		a := &App{Args: append([]string{"top", "--admin", address, "--interval", "1s"}, args...), Out: &o, Err: &e, Environ: []string{"MILLRACE_ADMIN_TOKEN=a token of some length"}, Context: t.Context()}
		return a.Run(), o.String(), e.String()
	}
	code, out, errOut := with()
	for _, want := range []string{"node 7", `NOT WELL: disk \x1b[2J`, "0.50 CPUs", "p99 -,", "orders  3           40       2.0 kB  12            -", `\x1b[31mred\n`, "1.5 kB", `g\u202e`, "9    -3"} {
		if code != exitDone || !strings.Contains(out, want) {
			t.Errorf("code %d %s, no %q in\n%s", code, errOut, want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a client's escape sequence reaches the terminal")
	}
	code, out, errOut = with("--json")
	var look busiest
	if err := json.Unmarshal([]byte(out), &look); code != exitDone || err != nil || look.Topics[0].Name != "orders" || look.Figures["cpus"] != 0.5 {
		t.Errorf("--json: %d %v %s\n%s", code, err, errOut, out)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	if code, _, errOut = run(t, "", "top", "--admin", nobody.Addr().String()); code != exitFailed || !strings.Contains(errOut, "millrace.admin.listen") {
		t.Errorf("nobody there: %d %s", code, errOut)
	}
	for _, args := range [][]string{{"--interval", "10ms"}, {"--rows", "0"}, {"--timeout", "0s"}, {"--admin", "a b"}} {
		if code, _, errOut = run(t, "", append([]string{"top"}, args...)...); code != exitUsage {
			t.Errorf("%v: %d %s", args, code, errOut)
		}
	}
}
