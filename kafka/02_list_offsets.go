package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine"
	"millrace/meta/cluster"
)

// ListOffsets (2), versions 1 to 11: v1 one offset each, v2 isolation level, v4 leader epochs (KIP-320),
// v7 largest timestamp (KIP-734), v8 earliest local (KIP-405), v9 latest tiered (KIP-1005), v10 timeout,
// v11 earliest pending upload (KIP-1023). Without tiering everything is local and nothing is uploaded.

// Timestamps that stand for a place in the log instead of a time.
const (
	offsetLatest          = -1
	offsetEarliest        = -2
	offsetMaxTimestamp    = -3
	offsetEarliestLocal   = -4
	offsetLatestTiered    = -5
	offsetEarliestPending = -6
)

type listedOffset struct {
	code      int16
	offset    int64
	timestamp int64
	epoch     int32
}

func nothingListed(code int16) listedOffset {
	return listedOffset{code: code, offset: -1, timestamp: -1, epoch: -1}
}

// listOffsets looks places up by time. It may read the disk.
func (s *Server) listOffsets(r *request) kmsg.Response {
	req := r.body.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	image := s.image()
	twice := repeatedPartitions(req)
	var done repeated[partitionName]
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = in.Topic
		for j := range in.Partitions {
			p := &in.Partitions[j]
			name := partitionName{in.Topic, p.Partition}
			if done.again(name) {
				continue
			}
			var found listedOffset
			switch {
			case twice[name]:
				found = nothingListed(codeInvalidRequest)
			case req.IsolationLevel < 0 || req.IsolationLevel > 1:
				found = nothingListed(codeInvalidRequest)
			default:
				found = s.listOffset(image, r.version, req.IsolationLevel == 1, in.Topic, p)
			}
			answer := kmsg.NewListOffsetsResponseTopicPartition()
			answer.Partition, answer.ErrorCode = p.Partition, found.code
			answer.Offset, answer.Timestamp, answer.LeaderEpoch = found.offset, found.timestamp, found.epoch
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

type partitionName struct {
	topic     string
	partition int32
}

// repeatedPartitions returns the partitions that a request names more than once.
func repeatedPartitions(req *kmsg.ListOffsetsRequest) map[partitionName]bool {
	var seen repeated[partitionName]
	twice := make(map[partitionName]bool)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			name := partitionName{req.Topics[i].Topic, req.Topics[i].Partitions[j].Partition}
			if seen.again(name) {
				twice[name] = true
			}
		}
	}
	return twice
}

func (s *Server) listOffset(image *cluster.Image, version int16, committed bool, topic string, p *kmsg.ListOffsetsRequestTopicPartition) listedOffset {
	sh, code := s.locate(image, topic, p.Partition)
	if code != codeNone {
		return nothingListed(code)
	}
	state := sh.State()
	if code := checkEpoch(p.CurrentLeaderEpoch, state); code != codeNone {
		return nothingListed(code)
	}
	if !offsetSpecAllowed(p.Timestamp, version) {
		return nothingListed(codeUnsupportedVersion)
	}
	bound := state.HighWatermark
	if committed {
		bound = state.LastStable
	}
	switch p.Timestamp {
	case offsetLatest:
		return listedOffset{offset: bound, timestamp: -1, epoch: state.LeaderEpoch}
	case offsetEarliest, offsetEarliestLocal:
		return listedOffset{offset: state.LogStart, timestamp: -1, epoch: epochOf(sh, state.LogStart, state)}
	case offsetLatestTiered, offsetEarliestPending:
		return nothingListed(codeNone)
	}
	if state.LogStart >= bound {
		return nothingListed(codeNone)
	}
	offset, timestamp, epoch, found, err := lookUpTime(sh, p.Timestamp)
	switch {
	case err != nil:
		return nothingListed(s.readFailed(readPlace{topic: topic, partition: p.Partition, offset: -1}, err))
	case !found || offset >= bound:
		return nothingListed(codeNone)
	}
	return listedOffset{offset: offset, timestamp: timestamp, epoch: epoch}
}

func lookUpTime(sh *engine.Shard, timestamp int64) (offset, at int64, epoch int32, found bool, err error) {
	if timestamp == offsetMaxTimestamp {
		return sh.MaxTimestamp()
	}
	return sh.OffsetForTimestamp(timestamp)
}

// offsetSpecAllowed tells whether a version knows what a negative timestamp stands for.
func offsetSpecAllowed(timestamp int64, version int16) bool {
	switch timestamp {
	case offsetMaxTimestamp:
		return version >= 7
	case offsetEarliestLocal:
		return version >= 8
	case offsetLatestTiered:
		return version >= 9
	case offsetEarliestPending:
		return version >= 11
	}
	return timestamp >= offsetEarliest
}

// epochOf returns the leader epoch of the record at an offset, or of the next one to come there.
func epochOf(sh *engine.Shard, offset int64, state engine.State) int32 {
	if epoch := sh.EpochAt(offset); epoch >= 0 && offset < state.LogEnd {
		return epoch
	}
	return state.LeaderEpoch
}
