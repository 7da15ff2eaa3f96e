package kafka

import (
	"math"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type fieldKind uint8

const (
	kindFixed    fieldKind = iota // width bytes
	kindString                    // its length, then bytes
	kindBytes                     // its length in 32 bits, then bytes, which stay where they are
	kindArray                     // its count, then elements: of width bytes, strings, or structs of fields
	kindOptional                  // a byte, then a struct of fields unless that byte is -1
)

const (
	neverNull = math.MaxInt16
	always    = math.MaxInt16 // the last version of a field that is still there
)

// configsShown is about what a topic has of configs in a reply.
const configsShown = 40

// field describes one field of a request in the order of the wire. That is all a walk needs to know of a
// request: how long each part is and what it will take when it is decoded.
type field struct {
	kind     fieldKind
	strings  bool  // kindArray of strings
	width    uint8 // bytes, of kindFixed or of an array's elements
	min, max int16 // versions that carry it
	nullFrom int16 // first version in which it may be null
	heap     int64 // bytes of a decoded element, or of what the field points to
	reply    int64 // bytes that an element takes in the structs of the reply
	fields   []field
}

func (f *field) nullable(version int16) bool { return version >= f.nullFrom }

// layout is the whole of a request.
type layout struct {
	heap, reply int64
	fields      []field
}

func fixed(width uint8) field { return field{kind: kindFixed, width: width, max: always} }
func text() field             { return field{kind: kindString, max: always, nullFrom: neverNull} }

// nullableText is a *string, decoded into a header and bytes of its own even where null is not allowed.
func nullableText(from int16) field {
	return field{kind: kindString, max: always, nullFrom: from, heap: stringBytes}
}

func blob() field { return field{kind: kindBytes, max: always, nullFrom: neverNull} }

func texts() field {
	return field{kind: kindArray, strings: true, max: always, nullFrom: neverNull, heap: stringBytes}
}

func numbers(width uint8, reply any) field {
	return field{kind: kindArray, width: width, max: always, nullFrom: neverNull, heap: int64(width), reply: sizeOf(reply)}
}

// structs is an array of structs: element is kmsg's struct, reply the one that answers it (nil: none).
func structs(element, reply any, fields ...field) field {
	return field{kind: kindArray, max: always, nullFrom: neverNull, heap: sizeOf(element), reply: sizeOf(reply), fields: fields}
}

func optional(element any, fields ...field) field {
	return field{kind: kindOptional, max: always, heap: sizeOf(element), fields: fields}
}

func (f field) from(version int16) field      { f.min = version; return f }
func (f field) until(version int16) field     { f.max = version; return f }
func (f field) nullSince(version int16) field { f.nullFrom = version; return f }

// answers adds n structs of the reply that each element brings, whatever is in it.
func (f field) answers(n int64, reply any) field { f.reply += n * sizeOf(reply); return f }

func sizeOf(v any) int64 {
	if v == nil {
		return 0
	}
	return int64(reflect.TypeOf(v).Size())
}

func wholeOf(request, reply any, fields ...field) *layout {
	return &layout{heap: rounded(sizeOf(request)), reply: rounded(sizeOf(reply)), fields: fields}
}

func layoutOf(key int16) *layout {
	switch key {
	case 2:
		return wholeOf(kmsg.ListOffsetsRequest{}, kmsg.ListOffsetsResponse{},
			fixed(4), fixed(1).from(2),
			structs(kmsg.ListOffsetsRequestTopic{}, kmsg.ListOffsetsResponseTopic{}, text(),
				structs(kmsg.ListOffsetsRequestTopicPartition{}, kmsg.ListOffsetsResponseTopicPartition{},
					fixed(4), fixed(4).from(4), fixed(8))),
			fixed(4).from(10))
	case 3:
		return wholeOf(kmsg.MetadataRequest{}, kmsg.MetadataResponse{},
			structs(kmsg.MetadataRequestTopic{}, kmsg.MetadataResponseTopic{},
				fixed(16).from(10), nullableText(10)).nullSince(1),
			fixed(1).from(4), fixed(1).from(8).until(10), fixed(1).from(8))
	case 18:
		return wholeOf(kmsg.ApiVersionsRequest{}, kmsg.ApiVersionsResponse{},
			text().from(3), text().from(3), nullableText(5).from(5), fixed(4).from(5))
	case 19:
		return wholeOf(kmsg.CreateTopicsRequest{}, kmsg.CreateTopicsResponse{},
			structs(kmsg.CreateTopicsRequestTopic{}, kmsg.CreateTopicsResponseTopic{},
				text(), fixed(4), fixed(2),
				structs(kmsg.CreateTopicsRequestTopicReplicaAssignment{}, nil, fixed(4), numbers(4, nil)),
				structs(kmsg.CreateTopicsRequestTopicConfig{}, nil, text(), nullableText(0))).
				answers(configsShown, kmsg.CreateTopicsResponseTopicConfig{}),
			fixed(4), fixed(1).from(1))
	case 20:
		return wholeOf(kmsg.DeleteTopicsRequest{}, kmsg.DeleteTopicsResponse{},
			deleteTopicNames(),
			structs(kmsg.DeleteTopicsRequestTopic{}, kmsg.DeleteTopicsResponseTopic{}, nullableText(6), fixed(16)).from(6),
			fixed(4))
	case 21:
		return wholeOf(kmsg.DeleteRecordsRequest{}, kmsg.DeleteRecordsResponse{},
			structs(kmsg.DeleteRecordsRequestTopic{}, kmsg.DeleteRecordsResponseTopic{}, text(),
				structs(kmsg.DeleteRecordsRequestTopicPartition{}, kmsg.DeleteRecordsResponseTopicPartition{}, fixed(4), fixed(8))),
			fixed(4))
	case 22:
		return wholeOf(kmsg.InitProducerIDRequest{}, kmsg.InitProducerIDResponse{},
			nullableText(0), fixed(4), fixed(8).from(3), fixed(2).from(3))
	case 23:
		return wholeOf(kmsg.OffsetForLeaderEpochRequest{}, kmsg.OffsetForLeaderEpochResponse{},
			fixed(4).from(3),
			structs(kmsg.OffsetForLeaderEpochRequestTopic{}, kmsg.OffsetForLeaderEpochResponseTopic{}, text(),
				structs(kmsg.OffsetForLeaderEpochRequestTopicPartition{}, kmsg.OffsetForLeaderEpochResponseTopicPartition{},
					fixed(4), fixed(4).from(2), fixed(4))))
	default:
		if l := groupLayoutOf(key); l != nil {
			return l
		}
		return adminLayoutOf(key)
	}
}

func deleteTopicNames() field {
	f := texts().until(5)
	f.reply = sizeOf(kmsg.DeleteTopicsResponseTopic{})
	return f
}

func adminLayoutOf(key int16) *layout {
	switch key {
	case 32:
		return wholeOf(kmsg.DescribeConfigsRequest{}, kmsg.DescribeConfigsResponse{},
			structs(kmsg.DescribeConfigsRequestResource{}, kmsg.DescribeConfigsResponseResource{},
				fixed(1), text(), texts().nullSince(0)).
				answers(configsShown, kmsg.DescribeConfigsResponseResourceConfig{}),
			fixed(1).from(1), fixed(1).from(3))
	case 33:
		return wholeOf(kmsg.AlterConfigsRequest{}, kmsg.AlterConfigsResponse{},
			structs(kmsg.AlterConfigsRequestResource{}, kmsg.AlterConfigsResponseResource{}, fixed(1), text(),
				structs(kmsg.AlterConfigsRequestResourceConfig{}, nil, text(), nullableText(0))),
			fixed(1))
	case 34:
		return wholeOf(kmsg.AlterReplicaLogDirsRequest{}, kmsg.AlterReplicaLogDirsResponse{},
			structs(kmsg.AlterReplicaLogDirsRequestDir{}, nil, text(),
				structs(kmsg.AlterReplicaLogDirsRequestDirTopic{}, kmsg.AlterReplicaLogDirsResponseTopic{}, text(),
					numbers(4, kmsg.AlterReplicaLogDirsResponseTopicPartition{}))))
	case 35:
		return wholeOf(kmsg.DescribeLogDirsRequest{}, kmsg.DescribeLogDirsResponse{},
			structs(kmsg.DescribeLogDirsRequestTopic{}, kmsg.DescribeLogDirsResponseDirTopic{}, text(),
				numbers(4, kmsg.DescribeLogDirsResponseDirTopicPartition{})).nullSince(0))
	case 37:
		return wholeOf(kmsg.CreatePartitionsRequest{}, kmsg.CreatePartitionsResponse{},
			structs(kmsg.CreatePartitionsRequestTopic{}, kmsg.CreatePartitionsResponseTopic{}, text(), fixed(4),
				structs(kmsg.CreatePartitionsRequestTopicAssignment{}, nil, numbers(4, nil)).nullSince(0)),
			fixed(4), fixed(1))
	case 44:
		return wholeOf(kmsg.IncrementalAlterConfigsRequest{}, kmsg.IncrementalAlterConfigsResponse{},
			structs(kmsg.IncrementalAlterConfigsRequestResource{}, kmsg.IncrementalAlterConfigsResponseResource{}, fixed(1), text(),
				structs(kmsg.IncrementalAlterConfigsRequestResourceConfig{}, nil, text(), fixed(1), nullableText(0))),
			fixed(1))
	case 45:
		return wholeOf(kmsg.AlterPartitionAssignmentsRequest{}, kmsg.AlterPartitionAssignmentsResponse{},
			fixed(4), fixed(1).from(1),
			structs(kmsg.AlterPartitionAssignmentsRequestTopic{}, kmsg.AlterPartitionAssignmentsResponseTopic{}, text(),
				structs(kmsg.AlterPartitionAssignmentsRequestTopicPartition{}, kmsg.AlterPartitionAssignmentsResponseTopicPartition{},
					fixed(4), numbers(4, nil).nullSince(0))))
	case 46:
		return wholeOf(kmsg.ListPartitionReassignmentsRequest{}, kmsg.ListPartitionReassignmentsResponse{},
			fixed(4),
			structs(kmsg.ListPartitionReassignmentsRequestTopic{}, nil, text(), numbers(4, nil)).nullSince(0))
	case 60:
		return wholeOf(kmsg.DescribeClusterRequest{}, kmsg.DescribeClusterResponse{},
			fixed(1), fixed(1).from(1), fixed(1).from(2))
	case 61:
		return wholeOf(kmsg.DescribeProducersRequest{}, kmsg.DescribeProducersResponse{},
			structs(kmsg.DescribeProducersRequestTopic{}, kmsg.DescribeProducersResponseTopic{}, text(),
				numbers(4, kmsg.DescribeProducersResponseTopicPartition{})))
	case 74:
		return wholeOf(kmsg.ListConfigResourcesRequest{}, kmsg.ListConfigResourcesResponse{},
			numbers(1, nil).from(1))
	case 75:
		return wholeOf(kmsg.DescribeTopicPartitionsRequest{}, kmsg.DescribeTopicPartitionsResponse{},
			structs(kmsg.DescribeTopicPartitionsRequestTopic{}, kmsg.DescribeTopicPartitionsResponseTopic{}, text()),
			fixed(4),
			optional(kmsg.DescribeTopicPartitionsRequestCursor{}, text(), fixed(4)))
	default:
		return nil
	}
}
