package broker_test

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

// TestCordon: a cordoned directory gets no new partitions and none that are moved, and serves those that it has. Which
// are cordoned changes while the broker runs, and is kept.
func TestCordon(t *testing.T) {
	b, second := twoDirs(t, "")
	c := brokertest.Dial(t, b.Addr)
	cordon := func(value string, wantCode int16) {
		t.Helper()
		code, message := setBrokerConfigs(c, false, map[string]string{"cordoned.log.dirs": value})
		want(t, "code of cordoned.log.dirs="+value+": "+message, code, wantCode)
	}
	cordoned := func() (list string) {
		t.Helper()
		for _, d := range c.Request(kmsg.NewPtrDescribeLogDirsRequest(), 5).(*kmsg.DescribeLogDirsResponse).Dirs {
			if d.IsCordoned {
				list += filepath.Base(d.Dir) + " "
			}
		}
		return list
	}
	before := b.NewTopic(t, 2, nil)
	cordon("/nowhere", errInvalidConfig)
	cordon("*,"+second, errInvalidConfig)
	cordon(second, errNone)
	want(t, "cordoned", cordoned(), "second ")
	want(t, "metric", metricOf(t, b, fmt.Sprintf("millrace_disk_cordoned{directory=%q}", second)), 1)
	topic := b.NewTopic(t, 6, nil)
	for partition, dir := range dirsOf(c, topic) {
		want(t, fmt.Sprint("directory of partition ", partition), dir, b.DataDir)
	}
	for p := range int32(2) {
		c.MustProduce(before, p, batchOf("a"))
	}
	move := func(wantCode int16) {
		t.Helper()
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: second, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic.Name, Partitions: []int32{0}}}}}
		got := c.Request(req, 2).(*kmsg.AlterReplicaLogDirsResponse).Topics[0].Partitions[0].ErrorCode
		want(t, "code of a move", got, wantCode)
	}
	move(kerr.InvalidReplicaAssignment.Code)

	cordon("*", errNone)
	b.Kill(t)
	b.Restart(t)
	c = brokertest.Dial(t, b.Addr)
	want(t, "cordoned after a kill", cordoned(), "data second ")
	name := brokertest.FreshName("none")
	create := c.Request(brokertest.CreateTopicsRequest(false, brokertest.NewTopicSpec(name, 1, nil)), 7).(*kmsg.CreateTopicsResponse).Topics[0]
	want(t, "code of a new topic", create.ErrorCode, kerr.InvalidReplicationFactor.Code)
	more := kmsg.NewPtrCreatePartitionsRequest()
	more.TimeoutMillis = 10_000
	more.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: topic.Name, Count: 7}}
	want(t, "code of more partitions", c.Request(more, 3).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode, kerr.InvalidReplicationFactor.Code)
	auto := brokertest.MetadataRequest(name)
	auto.AllowAutoTopicCreation = true
	want(t, "code of a topic made by Metadata", c.Request(auto, 12).(*kmsg.MetadataResponse).Topics[0].ErrorCode, kerr.InvalidReplicationFactor.Code)
	c.MustProduce(topic, 0, batchOf("a"))

	cordon("", errNone) // deletes
	want(t, "cordoned", cordoned(), "")
	move(errNone)
	b.NewTopic(t, 1, nil)
}

// dirsOf returns the directory of each partition.
func dirsOf(c *brokertest.Conn, topic brokertest.Topic) map[int32]string {
	of, _ := logDirs(c, topic)
	return of
}

// TestConnectionRate bounds how many connections come in a second, by a real client, while the broker runs.
func TestConnectionRate(t *testing.T) {
	b := brokertest.Start(t, nil)
	b.SkipOnKafka(t, "its window is another")
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	const general, own = "max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"
	alter := func(wantError bool, changes ...kadm.AlterConfig) {
		t.Helper()
		responses, err := admin.AlterBrokerConfigs(t.Context(), changes, 1)
		if err == nil {
			err = responses[0].Err
		}
		if err != nil != wantError {
			t.Fatalf("%+v: %v", changes, err)
		}
	}
	value := func(s string) *string { return &s }
	alter(true, kadm.AlterConfig{Name: general, Value: value("0")})
	alter(true, kadm.AlterConfig{Name: "listener.name.none." + general, Value: value("5")})
	alter(true, kadm.AlterConfig{Name: "listener.name.plaintext.num.partitions", Value: value("5")})
	alter(false, kadm.AlterConfig{Name: general, Value: value("1000")}, kadm.AlterConfig{Name: own, Value: value("10")})
	described, err := admin.DescribeBrokerConfigs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, config := range described[0].Configs {
		shown[config.Key] = config.MaybeValue()
	}
	want(t, general, shown[general], "1000")
	want(t, own, shown[own], "10")
	want(t, "limit in the metrics", metricOf(t, b, "millrace_net_connection_rate_limit"), 1000)

	connect := func(connections int) {
		t.Helper()
		began := time.Now()
		all := make([]*brokertest.Conn, connections)
		for i := range all {
			all[i] = brokertest.Dial(t, b.Addr)
		}
		for _, c := range all {
			c.Alive()
			c.NetConn.(*net.TCPConn).SetLinger(0)
			c.NetConn.Close()
		}
		t.Logf("%d connections in %v", connections, time.Since(began))
	}
	holds := func() float64 { return metricOf(t, b, "millrace_net_accept_holds_total") }
	began := time.Now()
	connect(18)
	if took := time.Since(began); took < 790*time.Millisecond || holds() < 1 {
		t.Errorf("18 connections in %v at 10 a second, held %v times", took, holds())
	}
	alter(false, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: general}, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: own})
	connect(1)
	before := holds()
	connect(50)
	want(t, "holds without a limit", holds(), before)
}
