package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errConnectionLost is a connection that ended on a produce request.
var errConnectionLost = errors.New("the connection ended on a produce request")

// complaint keeps what the broker said last against produce requests. The client retries most errors until
// it gives up, and then only says that it was too late; the error of a retry it tells to its log alone.
// It is safe for concurrent use.
type complaint struct{ last atomic.Pointer[error] }

// reason returns why records that were not acknowledged in time were not: ErrRecordTimeout where the broker
// did not say.
func (c *complaint) reason() error {
	if last := c.last.Load(); last != nil {
		return *last
	}
	return kgo.ErrRecordTimeout
}

// OnBrokerE2E notes how a produce request's connection fared.
func (c *complaint) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key != int16(kmsg.Produce) {
		return
	}
	if err := e2e.Err(); err != nil {
		err = fmt.Errorf("%w: %w", errConnectionLost, err)
		c.last.Store(&err)
	}
}

// Level asks for the client's lines on each produce request.
func (c *complaint) Level() kgo.LogLevel { return kgo.LogLevelDebug }

// retried finds the code in a line like "topic[0{retrying@-1,1(KAFKA_STORAGE_ERROR: Disk error...)}".
var retried = regexp.MustCompile(`\{retrying@-?[0-9]+,[0-9]+\(([A-Z_]+)`)

// Log keeps the error that made the client retry.
func (c *complaint) Log(_ kgo.LogLevel, message string, pairs ...any) {
	if message != "produced" {
		return
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if text, ok := pairs[i+1].(string); ok && pairs[i] == "to" {
			c.answered(text)
		}
	}
}

func (c *complaint) answered(text string) {
	if found := retried.FindStringSubmatch(text); found != nil {
		if err := protocolError(found[1]); err != nil {
			c.last.Store(&err)
			return
		}
	}
	if !strings.Contains(text, "skipped") {
		c.last.Store(nil)
	}
}

// protocolError returns the error of the protocol with this name, nil if there is none.
func protocolError(name string) error {
	const codesMax = 1000
	for code := range int16(codesMax) {
		if err := kerr.TypedErrorForCode(code); err != nil && err.Message == name {
			return err
		}
	}
	return nil
}
