package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// groupLayoutOf returns the layouts of the requests about groups.
func groupLayoutOf(key int16) *layout {
	switch key {
	case 8:
		return wholeOf(kmsg.OffsetCommitRequest{}, kmsg.OffsetCommitResponse{},
			text(), fixed(4), text(), nullableText(7).from(7), fixed(8).until(4),
			structs(kmsg.OffsetCommitRequestTopic{}, kmsg.OffsetCommitResponseTopic{}, text().until(9), fixed(16).from(10),
				structs(kmsg.OffsetCommitRequestTopicPartition{}, kmsg.OffsetCommitResponseTopicPartition{},
					fixed(4), fixed(8), fixed(4).from(6), nullableText(0))))
	case 9:
		return offsetFetchLayout()
	case 10:
		return wholeOf(kmsg.FindCoordinatorRequest{}, kmsg.FindCoordinatorResponse{},
			text().until(3), fixed(1).from(1), coordinatorKeys())
	case 11:
		return wholeOf(kmsg.JoinGroupRequest{}, kmsg.JoinGroupResponse{},
			text(), fixed(4), fixed(4).from(1), text(), nullableText(5).from(5), text(),
			structs(kmsg.JoinGroupRequestProtocol{}, nil, text(), blob()),
			nullableText(8).from(8))
	case 12:
		return wholeOf(kmsg.HeartbeatRequest{}, kmsg.HeartbeatResponse{}, text(), fixed(4), text(), nullableText(3).from(3))
	case 13:
		return wholeOf(kmsg.LeaveGroupRequest{}, kmsg.LeaveGroupResponse{},
			text(), text().until(2),
			structs(kmsg.LeaveGroupRequestMember{}, kmsg.LeaveGroupResponseMember{}, text(), nullableText(3), nullableText(5).from(5)).from(3))
	case 14:
		return wholeOf(kmsg.SyncGroupRequest{}, kmsg.SyncGroupResponse{},
			text(), fixed(4), text(), nullableText(3).from(3), nullableText(5).from(5), nullableText(5).from(5),
			structs(kmsg.SyncGroupRequestGroupAssignment{}, nil, text(), blob()))
	case 15:
		groups := texts()
		groups.reply = sizeOf(kmsg.DescribeGroupsResponseGroup{})
		return wholeOf(kmsg.DescribeGroupsRequest{}, kmsg.DescribeGroupsResponse{}, groups, fixed(1).from(3))
	case 16:
		return wholeOf(kmsg.ListGroupsRequest{}, kmsg.ListGroupsResponse{}, texts().from(4), texts().from(5))
	case 42:
		groups := texts()
		groups.reply = sizeOf(kmsg.DeleteGroupsResponseGroup{})
		return wholeOf(kmsg.DeleteGroupsRequest{}, kmsg.DeleteGroupsResponse{}, groups)
	case 47:
		return wholeOf(kmsg.OffsetDeleteRequest{}, kmsg.OffsetDeleteResponse{}, text(),
			structs(kmsg.OffsetDeleteRequestTopic{}, kmsg.OffsetDeleteResponseTopic{}, text(),
				structs(kmsg.OffsetDeleteRequestTopicPartition{}, kmsg.OffsetDeleteResponseTopicPartition{}, fixed(4))))
	case 68:
		return wholeOf(kmsg.ConsumerGroupHeartbeatRequest{}, kmsg.ConsumerGroupHeartbeatResponse{},
			text(), text(), fixed(4), nullableText(0), nullableText(0), fixed(4), texts().nullSince(0),
			nullableText(0).from(1), nullableText(0),
			structs(kmsg.ConsumerGroupHeartbeatRequestTopic{}, nil, fixed(16), numbers(4, nil)).nullSince(0))
	case 69:
		groups := texts()
		groups.reply = sizeOf(kmsg.ConsumerGroupDescribeResponseGroup{})
		return wholeOf(kmsg.ConsumerGroupDescribeRequest{}, kmsg.ConsumerGroupDescribeResponse{}, groups, fixed(1))
	default:
		return nil
	}
}

func offsetFetchLayout() *layout {
	return wholeOf(kmsg.OffsetFetchRequest{}, kmsg.OffsetFetchResponse{},
		text().until(7),
		structs(kmsg.OffsetFetchRequestTopic{}, kmsg.OffsetFetchResponseTopic{}, text(),
			numbers(4, kmsg.OffsetFetchResponseTopicPartition{})).until(7).nullSince(2),
		structs(kmsg.OffsetFetchRequestGroup{}, kmsg.OffsetFetchResponseGroup{},
			text(), nullableText(9).from(9), fixed(4).from(9),
			structs(kmsg.OffsetFetchRequestGroupTopic{}, kmsg.OffsetFetchResponseGroupTopic{}, text().until(9), fixed(16).from(10),
				numbers(4, kmsg.OffsetFetchResponseGroupTopicPartition{})).nullSince(8)).from(8),
		fixed(1).from(7))
}

func coordinatorKeys() field {
	f := texts().from(4)
	f.reply = sizeOf(kmsg.FindCoordinatorResponseCoordinator{})
	return f
}
