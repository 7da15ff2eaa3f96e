package brokertest

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Keys returns the APIs that Minimal can fill with content.
func Keys() []int16 {
	return []int16{0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 32, 33, 34, 35, 37, 42, 44, 45, 46, 47, 60, 61, 68, 69, 74, 75}
}

// Minimal returns a small valid request of the given API and version that asks about partition 0 of topic,
// without an effect on what exists: creating and altering only validates, deleting names a topic that is missing.
// It is nil for an API that is not in Keys.
func Minimal(key, version int16, topic Topic) kmsg.Request {
	var req kmsg.Request
	switch key {
	case 0:
		req = ProduceRequest(version, -1, topic, Part{0, NewBatch(Values(1, "minimal")...).Encode()})
	case 1:
		req = FetchRequest(version, 0, topic, FetchFrom{})
	case 2:
		req = ListOffsetsRequest(topic, 0, -1)
	case 3:
		req = MetadataRequest(topic.Name)
	case 8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69:
		req = minimalGroups(key, version, topic)
	case 18:
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClientSoftwareName, r.ClientSoftwareVersion = "brokertest", "1.0"
		req = r
	case 19, 37, 20:
		req = minimalTopics(key, topic)
	case 21:
		req = DeleteRecordsRequest(topic, 0, 0)
	case 22:
		r := kmsg.NewPtrInitProducerIDRequest()
		r.ProducerID, r.ProducerEpoch = -1, -1
		req = r
	case 23:
		req = EpochRequest(topic, 0, -1, 0)
	case 32, 33, 44, 74:
		req = minimalConfigs(key, topic)
	default:
		req = minimalDescribe(key, topic)
	}
	if req != nil {
		req.SetVersion(version)
	}
	return req
}

func minimalTopics(key int16, topic Topic) kmsg.Request {
	switch key {
	case 19:
		return CreateTopicsRequest(true, NewTopicSpec(topic.Name+"-new", 1, nil))
	case 20:
		return DeleteTopicsRequest(topic.Name + "-missing")
	}
	r := kmsg.NewPtrCreatePartitionsRequest()
	r.ValidateOnly, r.TimeoutMillis = true, 5000
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic.Name, 7
	r.Topics = append(r.Topics, rt)
	return r
}

func minimalConfigs(key int16, topic Topic) kmsg.Request {
	switch key {
	case 32:
		r := kmsg.NewPtrDescribeConfigsRequest()
		rr := kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic.Name
		r.Resources = append(r.Resources, rr)
		return r
	case 33:
		r := kmsg.NewPtrAlterConfigsRequest()
		r.ValidateOnly = true
		rr := kmsg.NewAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic.Name
		r.Resources = append(r.Resources, rr)
		return r
	case 44:
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r.ValidateOnly = true
		rr := kmsg.NewIncrementalAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic.Name
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Value = "retention.ms", kmsg.StringPtr("1000")
		rr.Configs = append(rr.Configs, rc)
		r.Resources = append(r.Resources, rr)
		return r
	}
	return kmsg.NewPtrListConfigResourcesRequest()
}

func minimalDescribe(key int16, topic Topic) kmsg.Request {
	switch key {
	case 34:
		r := kmsg.NewPtrAlterReplicaLogDirsRequest()
		dir, in := kmsg.NewAlterReplicaLogDirsRequestDir(), kmsg.NewAlterReplicaLogDirsRequestDirTopic()
		dir.Dir, in.Topic, in.Partitions = "/missing", topic.Name, []int32{0}
		dir.Topics = append(dir.Topics, in)
		r.Dirs = append(r.Dirs, dir)
		return r
	case 35:
		r := kmsg.NewPtrDescribeLogDirsRequest()
		rt := kmsg.NewDescribeLogDirsRequestTopic()
		rt.Topic, rt.Partitions = topic.Name, []int32{0}
		r.Topics = append(r.Topics, rt)
		return r
	case 45:
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		rt, rp := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		rt.Topic, rt.Partitions = topic.Name, append(rt.Partitions, rp) // null replicas take back what is not there
		r.Topics = append(r.Topics, rt)
		return r
	case 46:
		r := kmsg.NewPtrListPartitionReassignmentsRequest()
		rt := kmsg.NewListPartitionReassignmentsRequestTopic()
		rt.Topic, rt.Partitions = topic.Name, []int32{0}
		r.Topics = append(r.Topics, rt)
		return r
	case 60:
		return kmsg.NewPtrDescribeClusterRequest()
	case 61:
		r := kmsg.NewPtrDescribeProducersRequest()
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic, rt.Partitions = topic.Name, []int32{0}
		r.Topics = append(r.Topics, rt)
		return r
	case 75:
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = topic.Name
		r.Topics = append(r.Topics, rt)
		r.ResponsePartitionLimit = 100
		return r
	}
	return nil
}

// Part is what a Produce request holds for one partition; nil Records are null.
type Part struct {
	Partition int32
	Records   []byte
}

// ProduceRequest builds a Produce of one topic; from version 13 the topic goes by its id.
func ProduceRequest(version, acks int16, topic Topic, parts ...Part) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = version, acks, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic.Name, topic.ID
	for _, p := range parts {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.Partition, p.Records
		rt.Partitions = append(rt.Partitions, rp)
	}
	r.Topics = append(r.Topics, rt)
	return r
}

// FetchFrom is one partition of a Fetch. Zero byte limits become 10 MiB, a zero epoch check is none.
type FetchFrom struct {
	Partition int32
	Offset    int64
	BytesMax  int32
}

// FetchRequest builds a sessionless Fetch of one topic that waits for one byte at most waitMillis.
func FetchRequest(version int16, waitMillis int32, topic Topic, from ...FetchFrom) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxWaitMillis, r.MinBytes, r.MaxBytes = version, waitMillis, 1, 50<<20
	r.SessionID, r.SessionEpoch = 0, -1
	r.Topics = append(r.Topics, FetchTopic(topic, from...))
	return r
}

// FetchTopic is one topic of a Fetch.
func FetchTopic(topic Topic, from ...FetchFrom) kmsg.FetchRequestTopic {
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic.Name, topic.ID
	for _, f := range from {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = f.Partition, f.Offset, f.BytesMax
		if f.BytesMax == 0 {
			rp.PartitionMaxBytes = 10 << 20
		}
		rt.Partitions = append(rt.Partitions, rp)
	}
	return rt
}

// ListOffsetsRequest asks for one timestamp of one partition.
func ListOffsetsRequest(topic Topic, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	r := kmsg.NewPtrListOffsetsRequest()
	r.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic.Name
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = partition, timestamp
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}

// MetadataRequest asks for the named topics without creating any; no names at all is an empty list.
func MetadataRequest(names ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		r.Topics = append(r.Topics, rt)
	}
	return r
}

// NewTopicSpec is one topic of a CreateTopics with one replica.
func NewTopicSpec(name string, partitions int32, configs map[string]string) kmsg.CreateTopicsRequestTopic {
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
	for key, value := range configs {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = key, kmsg.StringPtr(value)
		rt.Configs = append(rt.Configs, rc)
	}
	return rt
}

// CreateTopicsRequest creates, or only validates, the given topics.
func CreateTopicsRequest(validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.TimeoutMillis, r.ValidateOnly, r.Topics = 10_000, validateOnly, topics
	return r
}

// DeleteTopicsRequest deletes by name, in the fields of old versions and of new ones.
func DeleteTopicsRequest(names ...string) *kmsg.DeleteTopicsRequest {
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.TimeoutMillis, r.TopicNames = 10_000, names
	for _, name := range names {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		r.Topics = append(r.Topics, rt)
	}
	return r
}

// DeleteRecordsRequest moves the log start of one partition; offset -1 is its high watermark.
func DeleteRecordsRequest(topic Topic, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
	r := kmsg.NewPtrDeleteRecordsRequest()
	r.TimeoutMillis = 10_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic.Name
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, offset
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}

// EpochRequest asks where leaderEpoch ends in one partition; currentEpoch -1 is unchecked.
func EpochRequest(topic Topic, partition, currentEpoch, leaderEpoch int32) *kmsg.OffsetForLeaderEpochRequest {
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = topic.Name
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = partition, currentEpoch, leaderEpoch
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}
