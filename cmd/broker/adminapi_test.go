package broker_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// askAdmin sends a request to the admin endpoint and returns status and body.
func askAdmin(t *testing.T, b *brokertest.Broker, method, target string, headers ...string) (int, string) {
	t.Helper()
	if b.AdminAddr == "" {
		t.Skip("the broker from outside has no admin endpoint")
	}
	req, err := http.NewRequest(method, "http://"+b.AdminAddr+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// apiOf asks below /api/ and reads the answer into v.
func apiOf(t *testing.T, b *brokertest.Broker, path string, v any, parameters ...string) {
	t.Helper()
	query := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	code, body := askAdmin(t, b, "GET", "/api/"+path+"?"+query.Encode())
	if code != http.StatusOK {
		t.Fatalf("%s %v: %d %s", path, parameters, code, body)
	}
	if err := json.Unmarshal([]byte(body), v); err != nil {
		t.Fatalf("%s: %v in %s", path, err, body)
	}
}

// What is not meant for the endpoint is told so, at the cost of nothing.
func TestAdminRefuses(t *testing.T) {
	b := brokertest.Start(t, nil)
	topic := b.NewTopic(t, 1, nil)
	f := func(code int, holds, method, target string, headers ...string) {
		t.Helper()
		gotCode, body := askAdmin(t, b, method, target, headers...)
		if gotCode != code || !strings.Contains(body, holds) {
			t.Errorf("%s %.80s %v: %d %.200s, want %d with %q", method, target, headers, gotCode, body, code, holds)
		}
	}
	f(405, "only reads", "POST", "/api/overview")
	f(405, "only reads", "DELETE", "/api/topic?name="+topic.Name)
	f(403, "as localhost", "GET", "/api/overview", "Host", "evil.example")
	f(403, "as localhost", "GET", "/", "Host", "evil.example:9644")
	f(200, "cluster_id", "GET", "/api/overview", "Host", "localhost:1")
	f(200, "cluster_id", "GET", "/api/overview", "Host", "[::1]:1")
	f(403, "another site", "GET", "/api/overview", "Sec-Fetch-Site", "cross-site")
	f(403, "another site", "GET", "/debug/pprof/profile", "Sec-Fetch-Site", "same-site")
	f(200, "cluster_id", "GET", "/api/overview", "Sec-Fetch-Site", "same-origin")
	f(414, "4096", "GET", "/api/topics?filter="+strings.Repeat("x", 5000))
	for _, path := range []string{"/../../etc/passwd", "/api/%2e%2e/%2e%2e/etc/passwd", "//api/overview", "/page.css/..", "/api/./overview"} {
		f(400, "shortest form", "GET", path)
	}
	f(404, "no such path", "GET", "/api/nothing")
	f(404, "no such path", "GET", "/etc/passwd")
	f(404, "no such path", "GET", "/page.css%00")
	f(400, "nothing", "GET", "/api/topics?nothing=1")
	f(400, "once", "GET", "/api/topics?limit=1&limit=2")
	f(400, "cannot be read", "GET", "/api/topics?filter=%zz")
	f(400, "UTF-8", "GET", "/api/topics?filter=%ff")
	f(400, "1 to 1000", "GET", "/api/topics?limit=1001")
	f(400, "name, rate, size, records", "GET", "/api/topics?sort=speed")
	f(404, "no topic", "GET", "/api/topic?name=none")
	f(404, "no group", "GET", "/api/group?id=none")
	f(404, "partition 7", "GET", "/api/records?topic="+topic.Name+"&partition=7")
	f(400, "whole number", "GET", "/api/records?topic="+topic.Name+"&partition=-1")
	f(400, "whole number", "GET", "/api/records?topic="+topic.Name+"&offset=99999999999999999999")
	f(400, "give one", "GET", "/api/records?topic="+topic.Name+"&offset=1&time=1")
	f(200, `"records":[]`, "GET", "/api/records?topic="+topic.Name+"&offset=5000000")

	for range 100 { // who never ends a header keeps nobody else waiting
		slow, err := net.Dial("tcp", b.AdminAddr)
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		fmt.Fprint(slow, "GET /api/overview HTTP/1.1\r\nHost: loc")
	}
	f(200, "ok", "GET", "/healthz")
}

func TestAdminToken(t *testing.T) {
	const token = "a secret of some length"
	b := brokertest.Start(t, map[string]string{"millrace.admin.token": token})
	f := func(code int, target string, headers ...string) {
		t.Helper()
		if got, body := askAdmin(t, b, "GET", target, headers...); got != code || strings.Contains(body, token) {
			t.Errorf("%s %v: %d %.100s, want %d", target, headers, got, body, code)
		}
	}
	for _, path := range []string{"/", "/page.js", "/page.css", "/page.svg", "/healthz", "/readyz"} {
		f(200, path)
	}
	for _, path := range []string{"/api/overview", "/metrics", "/debug/pprof/", "/api/records?topic=x"} {
		f(401, path)
		f(401, path, "Authorization", "Bearer wrong")
		f(401, path, "Authorization", token)
	}
	f(200, "/api/overview", "Authorization", "Bearer "+token, "Host", "broker.example.org")
	f(200, "/metrics", "Authorization", "Bearer "+token)
	if log := b.LogTail(1 << 20); strings.Contains(log, token) {
		t.Error("the log has the token")
	}
	if raw, _ := json.Marshal(describe(brokertest.Dial(t, b.Addr), kmsg.ConfigResourceTypeBroker, "1", nil)); strings.Contains(string(raw), token) {
		t.Error("DescribeConfigs tells the token")
	}
}

type apiRecord struct {
	Offset, Timestamp int64
	Key, Value        apiContent
	Headers           []struct{ Key, Value apiContent }
}

type apiContent struct {
	Bytes        int
	Text, Base64 *string
	Cut          bool
}

type apiRecords struct {
	From, Next, Scanned int64
	End                 bool
	Records             []apiRecord
}

func TestAdminRecords(t *testing.T) {
	b := brokertest.Start(t, nil)
	topic := b.NewTopic(t, 1, nil)
	c := brokertest.Dial(t, b.Addr)
	start := now()
	for i := range 300 {
		batch := batchOf(fmt.Sprintf("value %d", i))
		batch.Records[0].Timestamp = start + int64(i)
		c.MustProduce(topic, 0, batch)
	}
	odd := batchOf("é", strings.Repeat("é", 600_000/2), "")
	odd.Records[0].Key, odd.Records[0].Value = []byte{0xff, 0}, nil
	odd.Records[1].Key = []byte{}
	odd.Records[2].Headers = []brokertest.Header{{Key: "needle", Value: []byte("in a header")}}
	c.MustProduce(topic, 0, odd) // 300 to 302
	get := func(parameters ...string) (a apiRecords) {
		t.Helper()
		apiOf(t, b, "records", &a, append([]string{"topic", topic.Name}, parameters...)...)
		return a
	}
	if a := get(); len(a.Records) != 50 || a.Next != 50 || a.End || *a.Records[49].Value.Text != "value 49" {
		t.Errorf("the first page: %+v", a)
	}
	if a := get("offset", "290", "limit", "5"); len(a.Records) != 5 || a.Records[0].Offset != 290 || a.Next != 295 {
		t.Errorf("from an offset: %+v", a)
	}
	if a := get("offset", "-4"); a.From != 299 || a.Next != 303 || !a.End {
		t.Errorf("from the end: %+v", a)
	}
	if a := get("time", fmt.Sprint(start+100)); a.From != 100 || a.Records[0].Timestamp != start+100 {
		t.Errorf("from a time: %+v", a)
	}
	if a := get("search", "value 29", "limit", "3"); len(a.Records) != 3 || a.Records[0].Offset != 29 || a.Records[2].Offset != 291 || a.Next != 292 {
		t.Errorf("search: %+v", a)
	} else if a = get("search", "value 29", "offset", fmt.Sprint(a.Next)); len(a.Records) != 8 || !a.End {
		t.Errorf("search goes on: %+v", a)
	}
	if a := get("search", "needle"); len(a.Records) != 1 || a.Records[0].Offset != 302 || *a.Records[0].Headers[0].Value.Text != "in a header" {
		t.Errorf("search in headers: %+v", a)
	}
	a := get("offset", "300")
	if r := a.Records[0]; *r.Key.Base64 != "/wA=" || r.Value.Bytes != -1 || r.Value.Text != nil {
		t.Errorf("bytes and null: %+v", r)
	}
	if r := a.Records[1]; r.Key.Bytes != 0 || *r.Key.Text != "" || r.Value.Bytes != 600_000 || !r.Value.Cut || len(*r.Value.Text) != 2048 {
		t.Errorf("cut: %d bytes %v", len(*r.Value.Text), r.Value.Cut)
	}
	if r := get("offset", "301", "whole", "true").Records; len(r) != 1 || len(*r[0].Value.Text) != 600_000 || r[0].Value.Cut {
		t.Errorf("whole: %d records", len(r))
	}
	var list struct {
		Total, Matches int
		Rows           []struct{ Name string }
	}
	if apiOf(t, b, "topics", &list, "filter", topic.Name[3:], "sort", "size"); list.Matches != 1 || list.Rows[0].Name != topic.Name {
		t.Errorf("topics: %+v", list)
	}
	var clients struct {
		Rows []struct {
			ID       string
			Produced int64 `json:"produced_bytes"`
		}
	}
	if apiOf(t, b, "clients", &clients); len(clients.Rows) != 1 || clients.Rows[0].Produced < 600_000 {
		t.Errorf("clients: %+v", clients)
	}
}
