package kafka

import "millrace/engine/model"

// GroupLag is how far a group is behind in one partition.
type GroupLag struct {
	Group, Topic string
	Partition    int32
	Offset       int64 // committed
	Records      int64 // from there to the high watermark, at least 0
}

// GroupLags returns the lag of every committed offset of partitions that are here, by group, topic and partition.
// It costs a look at each.
func (s *Server) GroupLags() []GroupLag {
	var list []GroupLag
	for _, id := range s.o.Groups.IDs() {
		list = s.appendGroupLags(list, id)
	}
	return list
}

// GroupLagsOf returns the lags of one group, by topic and partition.
func (s *Server) GroupLagsOf(id string) []GroupLag { return s.appendGroupLags(nil, id) }

// GroupLagSum returns how many offsets a group has committed of partitions that are here, and the sums of their lags and
// of the offsets.
func (s *Server) GroupLagSum(id string) (offsets int, lag, committed int64) {
	image := s.image()
	s.o.Groups.EachOffset(id, func(topic model.TopicID, partition int32, offset int64) {
		sh := s.shard(topic, partition)
		if sh == nil || image.TopicByID(topic) == nil {
			return
		}
		offsets++
		lag += max(sh.State().HighWatermark-offset, 0)
		committed += offset
	})
	return offsets, lag, committed
}

func (s *Server) appendGroupLags(list []GroupLag, id string) []GroupLag {
	image := s.image()
	for _, o := range s.o.Groups.Offsets(id) {
		topic := image.TopicByID(o.Topic)
		if topic == nil {
			continue
		}
		if sh := s.shard(o.Topic, o.Partition); sh != nil {
			list = append(list, GroupLag{Group: id, Topic: topic.Name, Partition: o.Partition, Offset: o.Offset.Offset,
				Records: max(sh.State().HighWatermark-o.Offset.Offset, 0)})
		}
	}
	return list
}
