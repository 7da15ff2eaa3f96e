// The behaviour cases: what a Kafka-wire broker does at its edges, each test named by the id of its case.
// They start the broker as a process and speak to it in bytes; brokertest says how to run them against another.
package broker_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"millrace/cmd/broker/brokertest"
)

// Error codes that the cases name, by Kafka's numbers.
const (
	errNone                    = 0
	errOffsetOutOfRange        = 1
	errCorruptMessage          = 2
	errUnknownTopicOrPartition = 3
	errLeaderNotAvailable      = 5
	errNotLeader               = 6
	errMessageTooLarge         = 10
	errInvalidTopic            = 17
	errRecordListTooLarge      = 18
	errInvalidRequiredAcks     = 21
	errInvalidTimestamp        = 32
	errUnsupportedVersion      = 35
	errTopicExists             = 36
	errInvalidPartitions       = 37
	errInvalidReplication      = 38
	errInvalidAssignment       = 39
	errInvalidConfig           = 40
	errInvalidRequest          = 42
	errPolicyViolation         = 44
	errOutOfOrderSequence      = 45
	errInvalidProducerEpoch    = 47
	errFetchSessionNotFound    = 70
	errInvalidFetchEpoch       = 71
	errFencedLeaderEpoch       = 74
	errUnknownLeaderEpoch      = 75
	errUnsupportedCompression  = 76
	errInvalidRecord           = 87
	errUnknownTopicID          = 100
	errInconsistentTopicID     = 103
	errFetchSessionTopicID     = 106
	errRebootstrapRequired     = 129
)

// sharedBroker serves the cases that need no settings of their own: they use fresh topics and fresh connections.
type sharedBroker struct {
	mu     sync.Mutex
	dir    string
	broker *brokertest.Broker
}

// shared lives as long as the test binary; TestMain ends it.
var shared sharedBroker

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.broker != nil {
		shared.broker.End()
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// start returns the shared broker, and a connection to it. A broker that died under an earlier case is started
// again, and the case that finds it dead at its end fails.
func start(t *testing.T) (*brokertest.Broker, *brokertest.Conn) {
	t.Helper()
	if brokertest.Outside() != "" {
		b := brokertest.Start(t, nil)
		return b, brokertest.Dial(t, b.Addr)
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.broker == nil || !shared.broker.Alive() {
		if shared.dir == "" {
			dir, err := os.MkdirTemp("", "millrace-cases-")
			if err != nil {
				t.Fatal(err)
			}
			shared.dir = dir
		}
		b, err := brokertest.Launch(shared.dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		shared.broker = b
	}
	b := shared.broker
	t.Cleanup(func() {
		if !b.Alive() {
			t.Errorf("the broker died:\n%s", b.LogTail(8000))
		}
	})
	return b, brokertest.Dial(t, b.Addr)
}

// want fails the test, without ending it, when got differs.
func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// wantOneOf is want for answers of which several are right.
func wantOneOf[T comparable](t *testing.T, what string, got T, wants ...T) {
	t.Helper()
	for _, w := range wants {
		if got == w {
			return
		}
	}
	t.Errorf("%s: got %v, want one of %v", what, got, wants)
}

// residentBytes reads the process's memory from the kernel; 0 for a broker from outside.
func residentBytes(t testing.TB, b *brokertest.Broker) int64 {
	t.Helper()
	if b.Pid == 0 {
		return 0
	}
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(b.Pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no RssAnon in /proc/PID/status")
	return 0
}

// openFiles counts the process's descriptors; 0 for a broker from outside.
func openFiles(t *testing.T, b *brokertest.Broker) int {
	t.Helper()
	if b.Pid == 0 {
		return 0
	}
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(b.Pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
