package kafka

import (
	"millrace/engine"
	"millrace/meta/cluster"
	"millrace/meta/config"
)

// topicView is what the hot path needs of a topic, put together once for each version of it. Views belong to
// one loop.
type topicView struct {
	topic         *cluster.Topic
	brokerConfigs uint64 // the loop's when config was resolved
	config        *config.Topic
	shards        []*engine.Shard // by partition; nil until first asked for; a worker's view has none
}

// viewsMax bounds the views that a loop keeps; beyond it they are all made anew.
const viewsMax = 1 << 16

// view returns the loop's view of a topic.
func (l *loop) view(image *cluster.Image, topic *cluster.Topic) *topicView {
	v := l.topics[topic.ID]
	if v != nil && v.topic == topic && v.brokerConfigs == l.brokerConfigs {
		return v
	}
	if len(l.topics) >= viewsMax {
		clear(l.topics)
	}
	v = &topicView{topic: topic, brokerConfigs: l.brokerConfigs,
		config: l.server.topicConfig(image, topic), shards: make([]*engine.Shard, len(topic.Partitions))}
	l.topics[topic.ID] = v
	return v
}

// image returns the cluster's state and notes which dynamic broker configs and settings there are.
func (l *loop) image() *cluster.Image {
	image, readings := l.server.image(), l.server.readings.Load()
	if image != l.lastImage || readings != l.readings {
		l.lastImage, l.readings = image, readings
		l.brokerConfigs = image.BrokerConfigs(cluster.AllBrokers).Version + image.BrokerConfigs(l.server.o.NodeID).Version + readings
	}
	return image
}

// shard returns the log of a partition, or the code that says why there is none to use.
func (v *topicView) shard(s *Server, partition int32) (*engine.Shard, int16) {
	if partition < 0 || int(partition) >= len(v.topic.Partitions) {
		return nil, codeUnknownTopicOrPartition
	}
	if v.shards != nil {
		if sh := v.shards[partition]; sh != nil && !sh.Gone() { // it may have moved to another directory
			return sh, codeNone
		}
	}
	sh := s.shard(v.topic.ID, partition)
	if sh == nil {
		return nil, codeNotLeaderOrFollower
	}
	if v.shards != nil {
		v.shards[partition] = sh
	}
	return sh, codeNone
}

// views finds topics for what runs on a loop, which keeps them, or on a worker, which does not.
type views struct {
	server *Server
	loop   *loop // nil: a worker's
}

func (v *views) image() *cluster.Image {
	if v.loop != nil {
		return v.loop.image()
	}
	return v.server.image()
}

func (v *views) view(image *cluster.Image, topic *cluster.Topic) *topicView {
	if v.loop != nil {
		return v.loop.view(image, topic)
	}
	return &topicView{topic: topic, config: v.server.topicConfig(image, topic)}
}
