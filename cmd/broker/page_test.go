package broker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/cmd/broker/brokertest"
)

// hostile is put wherever a client may choose the text.
const hostile = `</script><img src=x onerror="document.title='owned'">'"&` + "\u202e\x00\x1b[31m"

// pageBroker is a broker with something to see: topics, a group, records that mean ill.
func pageBroker(t *testing.T) (*brokertest.Broker, brokertest.Topic) {
	b := brokertest.Start(t, nil)
	topic := b.CreateTopic(t, "orders", 3, map[string]string{"retention.ms": "3600000"})
	c := brokertest.Dial(t, b.Addr)
	for i := range 60 {
		batch := batchOf(fmt.Sprintf(`{"id":%d,"total":12345678901234567890.50,"items":[{"sku":"a-%d","price":1e400},{}],"to":"Zoë"}`, i, i))
		batch.Records[0].Key = fmt.Appendf(nil, "order-%d", i)
		c.MustProduce(topic, 0, batch)
	}
	bad := batchOf(hostile)
	bad.Records[0].Key = []byte(hostile)
	bad.Records[0].Headers = []brokertest.Header{{Key: hostile, Value: []byte(hostile)}, {Key: "trace", Value: []byte{0xff, 0xfe}}}
	c.MustProduce(topic, 1, bad)
	m := b.NewMember(t, "group "+hostile)
	m.Generation = -1
	m.Commit(8, topic, 10, nil)
	return b, topic
}

// TestPageWithKeys works the page by keyboard alone, and looks at what means ill: it is shown and does nothing.
func TestPageWithKeys(t *testing.T) {
	browser := startChromium(t)
	b, topic := pageBroker(t)
	if b.AdminAddr == "" {
		t.Skip("the broker from outside has no page")
	}
	tab := func() { browser.press("Tab", "Tab", 9, "") }
	enter := func() { browser.press("Enter", "Enter", 13, "\r") }
	tabTo := func(what, condition string) {
		t.Helper()
		for range 40 {
			if browser.eval("("+condition+")(document.activeElement)") == "true" {
				return
			}
			tab()
		}
		t.Fatalf("no way to %s by the tab key", what)
	}
	browser.show("http://"+b.AdminAddr+"/", 1280, 1000, "light")
	browser.await("the overview", "document.body?.innerText.includes('Busiest topics')")
	tabTo("Topics", "e => e.textContent === 'Topics'")
	enter()
	browser.await("the topics", "document.getElementById('main').innerText.includes('orders')")
	brokertest.Dial(t, b.Addr).MustProduce(topic, 2, batchOf("one more"))
	browser.await("the page to see a record more by itself", "document.getElementById('main').innerText.includes('\\t62\\t')")
	tabTo("the topic", "e => e.textContent === 'orders'")
	enter()
	browser.await("the topic", "document.getElementById('main').innerText.includes('retention.ms')")
	tabTo("partition 1", "e => e.textContent === '1' && e.tagName === 'A'")
	enter()
	browser.await("the records", "document.querySelector('summary')")
	tabTo("the record", "e => e.tagName === 'SUMMARY'")
	enter()
	browser.await("the record's value", "document.querySelector('details[open] pre')?.textContent.includes('<img src=x')")
	browser.await("its headers", "document.querySelector('details[open]').textContent.includes('//4=')")
	tabTo("the search", "e => e.id === 'search'")
	for _, r := range "onerror" {
		browser.press(string(r), "", 0, string(r))
	}
	enter()
	browser.await("what was found", "document.getElementById('main').innerText.includes('1 records from offset 0 on, 1 looked at')")
	browser.show("http://"+b.AdminAddr+"/#/groups", 1280, 1000, "light")
	browser.await("the groups", "document.getElementById('main').innerText.includes('onerror')")
	tabTo("the group", "e => e.textContent.startsWith('group ')")
	enter()
	browser.await("the group", "document.getElementById('main').innerText.includes('"+topic.Name+"')")
	if title := browser.eval("document.title + document.querySelectorAll('main img, main script').length"); !strings.HasSuffix(title, "millrace0") {
		t.Errorf("the title is %q: something was run", title)
	}
	if got := browser.reported(); len(got) > 0 {
		t.Errorf("the browser reports: %s", strings.Join(got, "\n"))
	}
}

// TestPageAsksForToken opens the page of a broker that has a token: who does not know it sees nothing, who does is let in
// for as long as the tab is open.
func TestPageAsksForToken(t *testing.T) {
	const token = "a page's secret token"
	browser := startChromium(t)
	b := brokertest.Start(t, map[string]string{"millrace.admin.token": token})
	if b.AdminAddr == "" {
		t.Skip("the broker from outside has no page")
	}
	say := func(text string) {
		browser.await("the form", "document.getElementById('token') && document.getElementById('token') === document.activeElement")
		for _, r := range text {
			browser.press(string(r), "", 0, string(r))
		}
		browser.press("Enter", "Enter", 13, "\r")
	}
	base := "http://" + b.AdminAddr + "/"
	browser.show(base+"#/topics", 400, 800, "light")
	browser.await("the form's label", "document.querySelector('label')?.textContent.includes('millrace.admin.token')")
	if shown := browser.eval("document.getElementById('main').innerText"); strings.Contains(shown, "Filter") {
		t.Errorf("without the token the page shows %q", shown)
	}
	say("a wrong one, with p in it")
	browser.await("the refusal", "document.getElementById('main').innerText.includes('not the broker')")
	say(token)
	browser.await("the topics", "document.getElementById('main').innerText.includes('0 of 0')")
	browser.show(base+"#/", 400, 800, "light")
	browser.await("the overview", "document.getElementById('main').innerText.includes('Produce latency')")
	if place := browser.eval("location.href + document.cookie + JSON.stringify(localStorage)"); strings.Contains(place, "secret") {
		t.Errorf("the token is in %s", place)
	}
	for _, fault := range browser.reported() {
		if !strings.Contains(fault, "401") { // of what was asked without the token
			t.Errorf("the browser reports: %s", fault)
		}
	}
}

// TestPageInBrowser looks at the page as a person would, wide and narrow, light and dark. With MILLRACE_TEST_SHOTS the
// pictures are kept in that directory.
func TestPageInBrowser(t *testing.T) {
	browser := startChromium(t)
	b, topic := pageBroker(t)
	if b.AdminAddr == "" {
		t.Skip("the broker from outside has no page")
	}
	shots := os.Getenv("MILLRACE_TEST_SHOTS")
	looks := []struct {
		width  int
		scheme string
	}{{1280, "light"}, {400, "dark"}, {1280, "dark"}, {400, "light"}}
	if shots == "" {
		shots, looks = t.TempDir(), looks[:2]
	}
	base := "http://" + b.AdminAddr + "/"
	views := []struct{ name, hash, holds string }{
		{"overview", "#/", "Produce latency"},
		{"topics", "#/topics", topic.Name},
		{"topic", "#/topic?name=" + topic.Name, "retention.ms"},
		{"records", "#/records?topic=" + topic.Name + "&partition=0", "order-59"},
		{"groups", "#/groups", "Empty"},
		{"clients", "#/clients", "127.0.0.1"},
	}
	for _, look := range looks {
		for _, v := range views {
			browser.show("about:blank", look.width, 1000, look.scheme)
			browser.show(base+v.hash, look.width, 1000, look.scheme)
			browser.await(v.name, fmt.Sprintf("document.getElementById('main')?.innerText.includes(%q) && !document.getElementById('state').textContent", v.holds))
			if wide := browser.eval("document.documentElement.scrollWidth > window.innerWidth"); wide != "false" {
				t.Errorf("%s at %d pixels is wider than the window", v.name, look.width)
			}
			browser.shot(filepath.Join(shots, fmt.Sprintf("%s-%d-%s.png", v.name, look.width, look.scheme)))
		}
	}
	if got := browser.reported(); len(got) > 0 {
		t.Errorf("the browser reports: %s", strings.Join(got, "\n"))
	}
}
