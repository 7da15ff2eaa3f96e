package kafka

// GroupLag is how far a group is behind in one partition.
type GroupLag struct {
	Group, Topic string
	Partition    int32
	Records      int64 // from the committed offset to the high watermark, at least 0
}

// GroupLags returns the lag of every committed offset of partitions that are here, by group, topic and partition.
// It costs a look at each.
func (s *Server) GroupLags() []GroupLag {
	var list []GroupLag
	image := s.image()
	for _, id := range s.o.Groups.IDs() {
		for _, o := range s.o.Groups.Offsets(id) {
			topic := image.TopicByID(o.Topic)
			if topic == nil {
				continue
			}
			if sh := s.shard(o.Topic, o.Partition); sh != nil {
				list = append(list, GroupLag{Group: id, Topic: topic.Name, Partition: o.Partition,
					Records: max(sh.State().HighWatermark-o.Offset.Offset, 0)})
			}
		}
	}
	return list
}
