package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlerTest) topicPartitions(limit int32, cursor string, names ...string) string {
	h.Helper()
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	if cursor != "" {
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		if _, err := fmt.Sscanf(cursor, "%s %d", &c.Topic, &c.Partition); err != nil {
			h.Fatal(err)
		}
		req.Cursor = &c
	}
	resp := ask[*kmsg.DescribeTopicPartitionsResponse](h, 0, req)
	got := ""
	for _, t := range resp.Topics {
		got += fmt.Sprintf("%s/%d", *t.Topic, t.ErrorCode)
		for _, p := range t.Partitions {
			got += fmt.Sprintf(",%d", p.Partition)
		}
		got += " "
	}
	if c := resp.NextCursor; c != nil {
		got += fmt.Sprintf("next %s %d", c.Topic, c.Partition)
	}
	return got
}

func TestDescribeTopicPartitions(t *testing.T) {
	h := newHandlerTest(t)
	h.create("r1", 3)
	h.create("r2", 2)
	f := func(want string, limit int32, cursor string, names ...string) {
		t.Helper()
		equal(h, fmt.Sprint(limit, cursor, names), h.topicPartitions(limit, cursor, names...), want)
	}
	f("a b/17 r1/0,0,1,2 r2/0,0,1 zz/3 ", 2000, "", "r2", "r1", "r1", "zz", "a b")
	f("r1/0,0,1,2 r2/0,0,1 ", 2000, "")
	f("r1/0,0,1 next r1 2", 2, "", "r2", "r1", "zz")
	f("r1/0,0,1,2 next r2 0", 3, "", "r2", "r1", "zz")
	f("r1/0,0 next r1 1", 0, "", "r2", "r1", "zz")
	f("r1/0,0 next r1 1", -5, "", "r2", "r1", "zz")
	f("r1/0,1,2 next r2 0", 2, "r1 1", "r2", "r1", "zz")
	f("r1/0,2 r2/0,0 next r2 1", 2, "r1 2")
	f("r2/0,0,1 ", 5, "r15 2")
	f("r1/42 r2/42 ", 9, "r15 2", "r1", "r2")
	f("r1/42 ", 9, "r1 -1", "r1")
	f("r1/0 r2/0,0,1 ", 9, "r1 99", "r1", "r2")
	f("zz/3 ", 9, "zz 0", "r1", "zz")
}

func TestDescribeTopicPartitionsIsBounded(t *testing.T) {
	h := newHandlerTest(t)
	h.create("big", describedPartitionsMax+1)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 1 << 30
	resp := ask[*kmsg.DescribeTopicPartitionsResponse](h, 0, req)
	equal(h, "partitions", len(resp.Topics[0].Partitions), describedPartitionsMax)
	equal(h, "cursor", resp.NextCursor.Partition, describedPartitionsMax)
}

func TestListConfigResources(t *testing.T) {
	h := newHandlerTest(t)
	h.create("a", 1)
	h.create("b", 1)
	f := func(version int16, want string, types ...int8) {
		t.Helper()
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		resp := ask[*kmsg.ListConfigResourcesResponse](h, version, req)
		got := ""
		if resp.ErrorCode != 0 {
			got = fmt.Sprint("code ", resp.ErrorCode)
		}
		for _, r := range resp.ConfigResources {
			got += fmt.Sprintf("%s/%d ", r.Name, r.Type)
		}
		equal(h, fmt.Sprint(types), got, want)
	}
	f(0, "")
	f(1, "1/4 a/2 b/2 ")
	f(1, "a/2 b/2 ", 2, 2)
	f(1, "1/4 ", 4)
	f(1, "", 8, 16, 32)
	f(1, "code 35", 3)
	f(1, "code 35", 2, 2, 0)
}

func TestDescribeClusterEndpointTypes(t *testing.T) {
	h := newHandlerTest(t)
	f := func(version int16, kind int8, want int16) {
		t.Helper()
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType, req.IncludeClusterAuthorizedOperations = kind, true
		resp := ask[*kmsg.DescribeClusterResponse](h, version, req)
		equal(h, "code", resp.ErrorCode, want)
		equal(h, "brokers are there", len(resp.Brokers) > 0, want == 0)
		if want == 0 {
			equal(h, "cluster", resp.ClusterID, h.s.image().ClusterID)
			equal(h, "controller", resp.ControllerID, testNode)
			equal(h, "operations", resp.ClusterAuthorizedOperations, operationsOfCluster)
		}
	}
	f(0, 2, codeNone) // v0 does not carry the type
	f(1, 1, codeNone)
	f(2, 1, codeNone)
	f(2, 2, codeMismatchedEndpointType)
	f(2, 3, codeUnsupportedEndpointType)
	f(2, 0, codeUnsupportedEndpointType)
}
