package kafka

import (
	"bytes"
	"cmp"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestProtocolDocumentIsCurrent(t *testing.T) {
	var want bytes.Buffer
	if err := WriteProtocol(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/protocol.md is not what the table of APIs says: run make docs")
	}
}

// The table names each API as kmsg does, within the versions that kmsg knows, and knows where it turns
// flexible.
func TestTableAgreesWithKmsg(t *testing.T) {
	last := int16(-1)
	for _, a := range workerAPIs() {
		if a.key <= last {
			t.Errorf("%s: not in the order of keys", a.name)
		}
		last = a.key
	}
	theirs := map[int16]string{45: "AlterPartitionAssignments"} // Kafka has the longer name
	for _, a := range apis() {
		r := kmsg.RequestForKey(a.key)
		if r == nil || a.max > r.MaxVersion() || a.min > a.max {
			t.Errorf("%s: versions %d-%d", a.name, a.min, a.max)
			continue
		}
		if name := kmsg.NameForKey(a.key); !strings.EqualFold(name, cmp.Or(theirs[a.key], a.name)) {
			t.Errorf("key %d is %s in kmsg, %s here", a.key, name, a.name)
		}
		for v := a.min; v <= a.max; v++ {
			r.SetVersion(v)
			if got := a.flexible >= 0 && v >= a.flexible; got != r.IsFlexible() {
				t.Errorf("%s v%d: flexible is %v, not %v", a.name, v, r.IsFlexible(), got)
			}
		}
		if (a.class == onWorker) != ((a.handle != nil) != (a.later != nil) && a.request != nil) {
			t.Errorf("%s: handler or layout is missing", a.name)
		}
	}
}
