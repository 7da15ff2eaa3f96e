package broker_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/cmd/broker/brokertest"
)

// chromium is a headless browser that is driven through a pair of pipes: JSON messages that end in a zero byte.
type chromium struct {
	t       *testing.T
	to      *os.File
	session string

	mu      sync.Mutex
	last    int
	waiting map[int]chan json.RawMessage
	faults  []string // that the page or the browser reported
}

// startChromium starts a browser with one page, or skips the test where there is none.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	binary, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium: apt-get install chromium")
	}
	inRead, inWrite, err1 := os.Pipe()
	outRead, outWrite, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	cmd := exec.Command(binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{inRead, outWrite}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inRead.Close()
	outWrite.Close()
	c := &chromium{t: t, to: inWrite, waiting: map[int]chan json.RawMessage{}}
	var ended sync.WaitGroup
	ended.Go(func() { c.listen(outRead) })
	t.Cleanup(func() {
		c.call("Browser.close", nil)
		cmd.Wait()
		inWrite.Close()
		ended.Wait()
		outRead.Close()
	})
	var target struct{ TargetID string }
	c.into(c.call("Target.createTarget", map[string]any{"url": "about:blank"}), &target)
	var attached struct{ SessionID string }
	c.into(c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}), &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		c.call(domain+".enable", nil)
	}
	c.call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}) // a page that nobody sees does not refresh itself
	return c
}

func (c *chromium) listen(from *os.File) {
	r := bufio.NewReader(from)
	for {
		raw, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Error  json.RawMessage
			Result json.RawMessage
			Params json.RawMessage
		}
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		switch {
		case m.ID != 0:
			if m.Error != nil {
				c.faults = append(c.faults, string(m.Error))
			}
			c.waiting[m.ID] <- m.Result
			delete(c.waiting, m.ID)
		case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded", m.Method == "Runtime.consoleAPICalled":
			c.faults = append(c.faults, string(m.Params))
		}
		c.mu.Unlock()
	}
}

func (c *chromium) call(method string, params any) json.RawMessage {
	c.t.Helper()
	answer := make(chan json.RawMessage, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waiting[id] = answer
	c.mu.Unlock()
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if c.session != "" && !strings.HasPrefix(method, "Browser.") {
		message["sessionId"] = c.session
	}
	raw, err := json.Marshal(message)
	if err == nil {
		_, err = c.to.Write(append(raw, 0))
	}
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	select {
	case result := <-answer:
		return result
	case <-time.After(brokertest.Patience):
		c.t.Fatalf("the browser does not answer %s", method)
		return nil
	}
}

func (c *chromium) into(raw json.RawMessage, v any) {
	c.t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		c.t.Fatalf("%s: %v", raw, err)
	}
}

// eval returns what an expression in the page stands for, as text.
func (c *chromium) eval(expression string) string {
	c.t.Helper()
	var got struct {
		Result struct {
			Value       any
			Description string
		}
		ExceptionDetails json.RawMessage
	}
	c.into(c.call("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "awaitPromise": true}), &got)
	if got.ExceptionDetails != nil {
		c.t.Fatalf("%s: %s", expression, got.ExceptionDetails)
	}
	text, _ := got.Result.Value.(string)
	return text
}

// show makes the window so wide and light or dark, and opens an address.
func (c *chromium) show(url string, width, height int, scheme string) {
	c.t.Helper()
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
	c.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
	c.call("Page.navigate", map[string]any{"url": url})
}

// await waits until an expression in the page holds.
func (c *chromium) await(what, expression string) {
	c.t.Helper()
	deadline := time.Now().Add(brokertest.Patience)
	for c.eval("Boolean("+expression+")") != "true" {
		if time.Now().After(deadline) {
			c.t.Fatalf("not within %v: %s\n%s\n%v", brokertest.Patience, what, c.eval("document.body.innerText"), c.reported())
		}
	}
}

// press types a key.
func (c *chromium) press(key, code string, number int, text string) {
	c.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		event := map[string]any{"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number}
		if kind == "keyDown" && text != "" {
			event["text"] = text
		}
		c.call("Input.dispatchKeyEvent", event)
	}
}

// shot writes what is to be seen into a PNG file.
func (c *chromium) shot(file string) {
	c.t.Helper()
	var got struct{ Data string }
	c.into(c.call("Page.captureScreenshot", map[string]any{"format": "png"}), &got)
	raw, err := base64.StdEncoding.DecodeString(got.Data)
	if err == nil {
		err = os.WriteFile(file, raw, 0o644)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chromium) reported() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}
