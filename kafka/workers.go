package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// workerAPIs lists the APIs whose requests are decoded by kmsg and answered on a worker, by key.
func workerAPIs() []api {
	row := func(key int16, name string, min, max, flexible int16, handle func(*Server, *request) kmsg.Response, note string) api {
		return api{key: key, name: name, min: min, max: max, flexible: flexible, class: onWorker,
			handle: handle, request: layoutOf(key), note: note}
	}
	later := func(key int16, name string, min, max, flexible int16, start func(*Server, *request), note string) api {
		a := row(key, name, min, max, flexible, nil, note)
		a.later = start
		return a
	}
	return []api{
		row(2, "ListOffsets", 1, 11, 6, (*Server).listOffsets,
			"-4 from v8, -5 from v9, -6 from v11; without tiering -4 is the log start, -5 and -6 answer offset -1"),
		row(3, "Metadata", 0, 13, 9, (*Server).metadata,
			"creates missing topics where auto.create.topics.enable and the request allow it"),
		later(8, "OffsetCommit", 2, 10, 8, (*Server).offsetCommit, "v10 names topics by id"),
		row(9, "OffsetFetch", 1, 10, 6, (*Server).offsetFetch, "several groups from v8, topics by id in v10"),
		row(10, "FindCoordinator", 0, 6, 3, (*Server).findCoordinator,
			"of groups; for a transactional id TRANSACTIONAL_ID_AUTHORIZATION_FAILED, since there are no transactions yet"),
		later(11, "JoinGroup", 0, 9, 6, (*Server).joinGroup, ""),
		later(12, "Heartbeat", 0, 4, 4, (*Server).heartbeat, ""),
		later(13, "LeaveGroup", 0, 5, 4, (*Server).leaveGroup, ""),
		later(14, "SyncGroup", 0, 5, 4, (*Server).syncGroup, ""),
		later(15, "DescribeGroups", 0, 6, 5, (*Server).describeGroups, ""),
		later(16, "ListGroups", 0, 5, 3, (*Server).listGroups, "groups of the types Classic and Consumer"),
		row(18, "ApiVersions", 0, 5, 3, (*Server).apiVersions,
			"a version above the range is answered in the layout of v0; v5 checks cluster id and node id"),
		row(19, "CreateTopics", 2, 7, 5, (*Server).createTopics, ""),
		row(20, "DeleteTopics", 1, 6, 4, (*Server).deleteTopics, ""),
		row(21, "DeleteRecords", 0, 2, 2, (*Server).deleteRecords, ""),
		row(22, "InitProducerId", 0, 5, 2, (*Server).initProducerID,
			"without a transactional id only; with one TRANSACTIONAL_ID_AUTHORIZATION_FAILED, since there are no transactions yet"),
		row(23, "OffsetForLeaderEpoch", 2, 4, 4, (*Server).offsetForLeaderEpoch, ""),
		row(32, "DescribeConfigs", 1, 4, 4, (*Server).describeConfigs, ""),
		row(33, "AlterConfigs", 0, 2, 2, (*Server).alterConfigs, ""),
		row(34, "AlterReplicaLogDirs", 1, 2, 2, (*Server).alterReplicaLogDirs, "a restart ends moves under way"),
		row(35, "DescribeLogDirs", 1, 5, 2, (*Server).describeLogDirs, ""),
		row(37, "CreatePartitions", 0, 3, 2, (*Server).createPartitions, ""),
		later(42, "DeleteGroups", 0, 3, 2, (*Server).deleteGroups, ""),
		row(44, "IncrementalAlterConfigs", 0, 1, 1, (*Server).incrementalAlterConfigs, ""),
		row(45, "AlterPartitionReassignments", 0, 1, 0, (*Server).alterPartitionReassignments, "to the replica that a partition has; others do not exist"),
		row(46, "ListPartitionReassignments", 0, 0, 0, (*Server).listPartitionReassignments, "there never are any"),
		later(47, "OffsetDelete", 0, 0, -1, (*Server).offsetDelete, ""),
		row(60, "DescribeCluster", 0, 2, 0, (*Server).describeCluster, ""),
		row(61, "DescribeProducers", 0, 0, 0, (*Server).describeProducers, ""),
		later(68, "ConsumerGroupHeartbeat", 0, 1, 0, (*Server).consumerGroupHeartbeat, "v1 has regular expressions, of the syntax of RE2"),
		later(69, "ConsumerGroupDescribe", 0, 1, 0, (*Server).consumerGroupDescribe, ""),
		row(74, "ListConfigResources", 0, 1, 0, (*Server).listConfigResources, ""),
		row(75, "DescribeTopicPartitions", 0, 0, 0, (*Server).describeTopicPartitions, ""),
	}
}
