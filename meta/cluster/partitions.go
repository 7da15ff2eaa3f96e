package cluster

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// CheckCreatePartitions tells what CreatePartitions would answer for the image, without adding anything.
func (i *Image) CheckCreatePartitions(c CreatePartitions) []Outcome {
	return c.run(newTransaction(i))
}

func (c CreatePartitions) apply(t *transaction) []byte {
	return appendOutcomes(nil, c.run(t))
}

func (c CreatePartitions) run(t *transaction) []Outcome {
	outcomes := make([]Outcome, len(c.Topics))
	var added int64
	for i := range c.Topics {
		outcomes[i] = t.addPartitions(&c.Topics[i], &added)
	}
	return outcomes
}

// addPartitions adds to one topic. added counts what the command has added so far.
func (t *transaction) addPartitions(n *NewPartitions, added *int64) Outcome {
	topic := t.topicByName(n.Topic)
	if topic == nil {
		return Outcome{ErrUnknownTopic, fmt.Sprintf("there is no topic %q", n.Topic)}
	}
	have := len(topic.Partitions)
	count := int64(n.Count) - int64(have)
	switch {
	case count == 0:
		return Outcome{ErrInvalidPartitions, fmt.Sprintf("topic %q already has %d partition(s)", n.Topic, have)}
	case count < 0:
		return Outcome{ErrInvalidPartitions, fmt.Sprintf("topic %q has %d partition(s); %d would not be an increase", n.Topic, have, n.Count)}
	case n.Assignments != nil && int64(len(n.Assignments)) != count:
		return Outcome{ErrInvalidAssignment, fmt.Sprintf("%d partition(s) to add, but %d assignment(s)", count, len(n.Assignments))}
	case *added+count > PartitionsPerRequestMax:
		return Outcome{ErrTooManyPartitions, fmt.Sprintf("%d more partitions in one request are more than %d", *added+count, PartitionsPerRequestMax)}
	}
	factor := len(topic.Partitions[0].Replicas)
	var more []Partition
	var o Outcome
	if n.Assignments != nil {
		more, o = t.assigned(n.Assignments, factor)
	} else {
		more, o = t.placed(int(count), factor, binary.BigEndian.Uint32(topic.ID[:])+uint32(have))
	}
	if o.Failed() {
		return o
	}
	*added += count
	changed := *topic
	changed.Partitions = append(slices.Clip(topic.Partitions), more...)
	t.put(&changed)
	return Outcome{}
}
