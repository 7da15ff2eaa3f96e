package kafka

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

const protocolHead = `# The Kafka protocol

Generated from the table of APIs that the broker answers from; do not edit.

An API is listed, here and in ApiVersions, only when it is answered in every version of its range as Apache
Kafka 4.4 answers it. Everything else is refused by closing the connection. Produce and Fetch run on the event
loops; the others run on workers, after an estimate of the memory that they will take has been counted against
the bytes in flight. "Flexible" is the first version with compact types and tagged fields.

| key | API | versions | flexible | runs on | notes |
|--:|---|---|---|---|---|
`

const protocolTail = `
## Limits

- A frame is at most socket.request.max.bytes long, an array holds at most 1,000,000 elements, a struct at most
  10,000 tagged fields; lengths and counts that reach beyond the frame are malformed. Each of these closes the
  connection before anything is allocated.
- A request that would take more than half of queued.max.request.bytes closes the connection.
- One Metadata request creates at most 1,000 topics; for others it answers LEADER_NOT_AVAILABLE, and clients
  ask again.
- DescribeTopicPartitions lists at most 2,000 partitions and then gives a cursor.

## Where answers differ from Apache Kafka 4.4

- Metadata answers with the topic that it has just created, where Kafka answers UNKNOWN_TOPIC_OR_PARTITION until
  a later request. An entry that is wrong in itself gets INVALID_REQUEST alone; Kafka fails the whole request.
- CreateTopics answers NONE only when the logs of the topic can be used.
- Of the features that Kafka finalizes ApiVersions announces group.version alone.
- ListOffsets answers INVALID_REQUEST where the isolation level is unknown, IncrementalAlterConfigs where the
  operation is; Kafka answers UNKNOWN_SERVER_ERROR.
- DescribeConfigs, AlterConfigs and IncrementalAlterConfigs know topics, groups and this broker. Broker loggers and client
  metrics have no configs.
- DescribeConfigs answers INVALID_REQUEST for a resource that is named again; DescribeProducers answers a
  partition that is named again once.
- AlterConfigs refuses a resource that is named twice, and unknown broker settings; Kafka never answers the
  first and accepts the second.
`

// WriteProtocol writes docs/protocol.md: the table of APIs with what is particular to each.
func WriteProtocol(w io.Writer) error {
	list := apis()
	slices.SortFunc(list, func(a, b api) int { return cmp.Compare(a.key, b.key) })
	out := []byte(protocolHead)
	for _, a := range list {
		runs := "worker"
		if a.class == onLoop {
			runs = "event loop"
		}
		out = fmt.Appendf(out, "| %d | %s | %s | %s | %s | %s |\n",
			a.key, a.name, versionRange(a.min, a.max), fromVersion(a.flexible), runs, a.note)
	}
	out = append(out, protocolTail...)
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("write protocol table: %w", err)
	}
	return nil
}

func versionRange(first, last int16) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

func fromVersion(version int16) string {
	if version < 0 {
		return "none"
	}
	return fmt.Sprintf("%d", version)
}
