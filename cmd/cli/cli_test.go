package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// run runs one command line with an empty environment.
func run(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	a := &App{Args: args, In: strings.NewReader(in), Out: &o, Err: &e, Version: "v1.2.3", Context: t.Context()}
	return a.Run(), o.String(), e.String()
}

func TestUsage(t *testing.T) {
	f := func(wantCode int, wantErr string, args ...string) {
		t.Helper()
		code, out, errOut := run(t, "", args...)
		if code != wantCode || !strings.Contains(errOut, wantErr) || out != "" {
			t.Errorf("%q: code %d, out %q, err %q; want code %d and %q", args, code, out, errOut, wantCode, wantErr)
		}
	}
	f(2, "name a command")
	f(2, `there is no command "toppic"; did you mean "topic"?`, "toppic")
	f(2, "unknown flag: --frm\nTry: millrace consume --help", "consume", "x", "--frm")
	f(2, "name a topic: millrace consume TOPIC", "consume")
	f(2, `takes one topic, not "b"`, "consume", "a", "b")
	f(2, `--from "yesterday" is none of`, "consume", "a", "--from", "yesterday")
	f(2, `--from: "noon" is neither`, "consume", "a", "--from", "time:noon")
	f(2, `--format "xml"`, "consume", "a", "--format", "xml")
	f(2, "--count -1", "consume", "a", "--count", "-1")
	f(2, `--acks "2"`, "produce", "a", "--acks", "2")
	f(2, `--codec "rar"`, "produce", "a", "--codec", "rar")
	f(2, `--header "x" is not NAME=VALUE`, "produce", "a", "--header", "x")
	f(2, `--timestamp: "x"`, "produce", "a", "--timestamp", "x")
	f(2, `--broker ":x" is not HOST:PORT`, "topic", "list", "--broker", ":x")
	f(2, "say what to alter", "topic", "alter", "a")
	f(2, `--config "x" is not NAME=VALUE`, "topic", "create", "a", "--config", "x")
	f(2, "--partitions 0 must be at least 1", "topic", "create", "a", "--partitions", "0")
	f(2, "name what to do", "topic")
	f(2, `there is no command "topic bogus"; there are alter, create, delete, describe, list`, "topic", "bogus")
	f(2, `there is no command "topic creat"; did you mean "create"?`, "topic", "creat")
	f(2, `--partitions "foo" is not a whole number up to 2147483647`+"\nTry: millrace topic create --help", "topic", "create", "a", "--partitions", "foo")
	f(2, `--timeout "5" is not a duration like 500ms`, "topic", "list", "--timeout", "5")
	f(1, "no broker answers at 127.0.0.1:1", "topic", "list", "--broker", "127.0.0.1:1", "--timeout", "1s")
	f(1, "no such file", "produce", "a", "--file", "/does/not/exist")
}

// TestProduceStalled holds that a broker which stops to answer ends the work after the timeout.
func TestProduceStalled(t *testing.T) {
	c := serve(t, t.TempDir())
	done := make(chan string)
	in, out := io.Pipe()
	go func() {
		var e bytes.Buffer
		a := &App{Args: []string{"produce", "a", "--broker", c.address, "--timeout", "500ms"}, In: in, Out: io.Discard, Err: &e, Context: t.Context()}
		done <- fmt.Sprint(a.Run(), " ", e.String())
	}()
	io.WriteString(out, "one\n")
	deadline := time.After(20 * time.Second)
	for _, got, _ := run(t, "", "consume", "a", "--broker", c.address); got != "one\n"; _, got, _ = run(t, "", "consume", "a", "--broker", c.address) {
		select {
		case <-deadline:
			t.Fatalf("the first record does not arrive: %q", got)
		default:
		}
	}
	c.cmd.Process.Signal(syscall.SIGSTOP)
	for !stopped(t, c.cmd.Process.Pid) {
		select {
		case <-deadline:
			t.Fatal("the broker does not stop")
		default:
		}
	}
	io.WriteString(out, "two\n")
	out.Close()
	select {
	case got := <-done:
		if !strings.HasPrefix(got, "1 ") || !strings.Contains(got, "1 record not acknowledged, 1 acknowledged") {
			t.Errorf("got %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("produce does not end")
	}
	c.cmd.Process.Signal(syscall.SIGCONT)
	c.end(syscall.SIGTERM)
}

// stopped tells whether every thread of a process stands still.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads of %d: %v, %v", pid, threads, err)
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil {
			return false // it ended meanwhile
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return true
}

func TestVersion(t *testing.T) {
	if code, out, _ := run(t, "", "version"); code != 0 || !strings.HasPrefix(out, "millrace v1.2.3 go") {
		t.Errorf("code %d, out %q", code, out)
	}
	code, out, _ := run(t, "", "version", "--json")
	var v map[string]string
	if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil || v["version"] != "v1.2.3" {
		t.Errorf("code %d, out %q, %v", code, out, err)
	}
}

// TestJSONRecordRoundTrip holds that nothing is lost on the way through JSON.
func TestJSONRecordRoundTrip(t *testing.T) {
	f := func(r *kgo.Record, want string) {
		t.Helper()
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(newJSONRecord(r)); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(b.String()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		back, err := newJSONReader(&b).read()
		if err != nil {
			t.Fatal(err)
		}
		back.Topic, back.Offset, back.LeaderEpoch = r.Topic, r.Offset, r.LeaderEpoch
		back.Attrs = r.Attrs
		if !reflect.DeepEqual(back, r) {
			t.Errorf("read back %+v, want %+v", back, r)
		}
	}
	at := time.UnixMilli(1700000000123)
	head := `{"topic":"t","partition":1,"offset":7,"leader_epoch":0,"timestamp":1700000000123,"timestamp_type":"create",`
	record := func(key, value []byte, headers ...kgo.RecordHeader) *kgo.Record {
		return &kgo.Record{Topic: "t", Partition: 1, Offset: 7, Timestamp: at, Key: key, Value: value, Headers: headers}
	}
	f(record(nil, []byte("v")), head+`"key":null,"value":"v"}`)
	f(record([]byte{}, []byte{}), head+`"key":"","value":""}`)
	f(record([]byte("k"), nil), head+`"key":"k","value":null}`)
	f(record([]byte{0xff}, []byte{0xfe, 0}), head+`"key_base64":"/w==","value_base64":"/gA="}`)
	f(record([]byte("<&>"), []byte("é\n")), head+`"key":"<&>","value":"é\n"}`)
	f(record(nil, []byte("v"), kgo.RecordHeader{Key: "h", Value: []byte("1")}, kgo.RecordHeader{Key: "h"}, kgo.RecordHeader{Key: "\xff", Value: []byte{0xff}},
		kgo.RecordHeader{Key: "", Value: []byte{}}),
		head+`"key":null,"value":"v","headers":[{"key":"h","value":"1"},{"key":"h","value":null},{"key_base64":"/w==","value_base64":"/w=="},{"key":"","value":""}]}`)
}

func TestJSONReaderFaults(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		r := newJSONReader(strings.NewReader(in))
		var err error
		for err == nil {
			_, err = r.read()
		}
		if want == "" && err != io.EOF || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	f(``, "")
	f(`{"value":"a"}{"value":null}`+"\n\n", "")
	f(`{"value":"a"}{"valu":"b"}`, `input record 2, line 1: unknown field "valu"; those of a record are key`)
	f(`{"key":"a"}`, "input record 1, line 1: neither value nor value_base64")
	f(`{"value":"a","value_base64":"YQ=="}`, "both given")
	f(`{"value_base64":"!"}`, "value_base64: illegal base64")
	f(`{"value":"a","headers":[{"value":"x"}]}`, "header 0 has no key")
	f(`{"value":1}`, "input record 1, line 1: field value is a number and must be a string or null")
	f("{\"value\":\"a\"}\n\n"+`{"value":"a","partition":"x"}`+"\n{}", "input record 2, line 3: field partition is a string and must be a whole number")
	f(`{"value":"a","timestamp":1.5}`, "field timestamp is number 1.5 and must be a whole number")
	f(`{"value":"a","headers":[{"key":"h","value":1}]}`, "must be a string or null")
	f(`{"value":"a","headers":{}}`, "field headers is an object and must be an array")
	f("{\"value\":\"a\"}\n7\n", `input record 2, line 2: a number is no record; a record is an object`)
	f("{\"value\":\"a\"}\n{\"value\":\n x}", "input record 2, line 3: not JSON (invalid character 'x'")
	f("{\"value\":\"a\"}\n{\"value\":", "input record 2, line 2: the input ends within the record")
	f(`x`, "input record 1, line 1: not JSON")
}

func TestLineReader(t *testing.T) {
	f := func(in, separator string, want ...string) {
		t.Helper()
		r := newLineReader(strings.NewReader(in), separator)
		var got []string
		for {
			record, err := r.read()
			if err != nil {
				if err != io.EOF {
					got = append(got, err.Error())
				}
				break
			}
			if separator != "" {
				got = append(got, string(record.Key)+"|"+string(record.Value))
				continue
			}
			got = append(got, string(record.Value))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
	f("", "")
	f("a\nb", "", "a", "b")
	f("a\r\n\nb\n", "", "a", "", "b")
	f("k:v:w\n:x\ny:\n", ":", "k|v:w", "|x", "y|")
	f("k=v\nnone\n", "=", "k|v", `input line 2 has no key separator "="`)
	long := strings.Repeat("x", 1<<19)
	f(long+"\n"+long, "", long, long)
}

func TestSize(t *testing.T) {
	f := func(n int64, want string) {
		t.Helper()
		if got := size(n); got != want {
			t.Errorf("size(%d) is %q, want %q", n, got, want)
		}
	}
	f(0, "0 B")
	f(999, "999 B")
	f(1000, "1.0 kB")
	f(999_999, "1.0 MB")
	f(1_500_000, "1.5 MB")
	f(2_000_000_000, "2.0 GB")
}
