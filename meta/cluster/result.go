package cluster

import (
	"encoding/binary"

	"millrace/perf/fields"
)

func appendOutcomes(dst []byte, outcomes []Outcome) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(outcomes)))
	for _, o := range outcomes {
		dst = appendOutcome(dst, o)
	}
	return dst
}

func parseOutcomes(src []byte) ([]Outcome, error) {
	r := &reader{fields.New(src)}
	outcomes := make([]Outcome, r.Count(1))
	for i := range outcomes {
		outcomes[i] = r.outcome()
	}
	return outcomes, r.End()
}

// A topic goes back whole, since it may be gone from the image by the time its maker looks.
func appendCreateTopicResults(dst []byte, results []CreateTopicResult) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(results)))
	for _, result := range results {
		dst = appendOutcome(dst, result.Outcome)
		if !result.Failed() {
			dst = appendTopic(dst, result.Topic)
		}
	}
	return dst
}

func parseCreateTopicResults(src []byte) ([]CreateTopicResult, error) {
	r := &reader{fields.New(src)}
	results := make([]CreateTopicResult, r.Count(1))
	for i := range results {
		results[i].Outcome = r.outcome()
		if !results[i].Failed() {
			results[i].Topic = r.topic(PartitionsMax)
		}
	}
	return results, r.End()
}

func (o RegisterBrokerResult) append(dst []byte) []byte {
	return binary.AppendVarint(appendOutcome(dst, o.Outcome), o.Epoch)
}

func (o AllocateProducerIDsResult) append(dst []byte) []byte {
	return binary.AppendVarint(appendOutcome(dst, o.Outcome), o.First)
}

func (o RaiseLeaderEpochsResult) append(dst []byte) []byte {
	return binary.AppendVarint(appendOutcome(dst, o.Outcome), o.Partitions)
}

// parseNumber reads a result that is an outcome and a number.
func parseNumber(src []byte) (Outcome, int64, error) {
	r := &reader{fields.New(src)}
	o, number := r.outcome(), r.Varint()
	return o, number, r.End()
}
