package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// pollInterval is how often a consumer looks whether it still gets on.
const pollInterval = 500 * time.Millisecond

// patience knows where each partition of a topic is read next and what the broker said of it last, and tells
// when to give up: the client itself retries for ever.
type patience struct {
	topic   string
	timeout time.Duration
	next    map[int32]int64
	last    map[int32]error // since the partition got on
	waited  time.Duration   // for the broker, since the last record came
}

func newPatience(topic string, timeout time.Duration, starts map[int32]int64) *patience {
	return &patience{topic: topic, timeout: timeout, next: maps.Clone(starts), last: map[int32]error{}}
}

// advance notes that the records of a partition before next have come.
func (p *patience) advance(partition int32, next int64) {
	if partition < 0 {
		return
	}
	p.next[partition] = next
	delete(p.last, partition)
	p.waited = 0
}

// failed notes an error of a partition, and returns it explained where no retry heals it.
func (p *patience) failed(partition int32, err error) error {
	p.last[partition] = err
	// The protocol calls damage retriable, as another replica may have the records whole; the client asks the
	// leader again, and with the same offset.
	if isRetriable(err) && !errors.Is(err, kerr.CorruptMessage) {
		return nil
	}
	return p.explain(partition, err)
}

// over returns why no record has come for the timeout while some are missing, nil while there is hope.
func (p *patience) over(missing map[int32]int64) error {
	if len(missing) == 0 || p.waited < p.timeout {
		return nil
	}
	partitions := slices.Sorted(maps.Keys(missing))
	for _, partition := range partitions {
		if err := p.last[partition]; err != nil {
			return p.explain(partition, err)
		}
	}
	first := partitions[0]
	return fmt.Errorf("topic %s partition %d offset %d: the broker has given nothing for %v and no error; is it still running? --timeout waits longer",
		p.topic, first, p.next[first], p.timeout)
}

func (p *patience) explain(partition int32, err error) error {
	at := fmt.Sprintf("topic %s partition %d offset %d", p.topic, partition, p.next[partition])
	inspect := fmt.Sprintf("`millrace inspect --data-dir DIR --topic %s --partition %d` on the broker's host shows what is damaged", p.topic, partition)
	hint := ""
	switch {
	case errors.Is(err, kerr.CorruptMessage):
		hint = "the stored records are damaged there; " + inspect + ", and --from an offset behind it reads on"
	case errors.Is(err, kerr.KafkaStorageError):
		hint = "the broker cannot read them; its log says why, and " + inspect
	case isRetriable(err):
		hint = fmt.Sprintf("this has lasted for %v; --timeout waits longer", p.timeout)
	default:
		return explain(p.topic, fmt.Errorf("partition %d offset %d: %w", partition, p.next[partition], err))
	}
	return &hinted{text: fmt.Sprintf("%s: %s; %s", at, brief(err), hint), err: err}
}
