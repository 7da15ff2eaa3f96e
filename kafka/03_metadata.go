package kafka

import (
	"log/slog"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/engine/model"
	"millrace/meta/cluster"
)

// Metadata (3), versions 0 to 13: v1 null lists, v4 says whether topics may be created, v7 leader epochs,
// v8 authorized operations (KIP-430), v10 topic ids in answers, v12 topics asked for by id (KIP-516),
// v13 an error code for the whole (KIP-1102), which is never needed here.

// notAsked stands in fields of authorized operations that the client did not ask for.
const notAsked = math.MinInt32

// autoCreateMax bounds the topics that one request creates; a client asks for the others again.
const autoCreateMax = 1000

// metadata describes topics and brokers, and creates topics that are missing where that is allowed: they
// are there when the answer leaves, which Kafka needs a second request for.
func (s *Server) metadata(r *request) kmsg.Response {
	req := r.body.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	all := req.Topics == nil || r.version == 0 && len(req.Topics) == 0
	var created map[string]int16
	if !all && s.o.Config.AutoCreateTopics && (r.version < 4 || req.AllowAutoTopicCreation) {
		created = s.autoCreate(r, missingTopics(s.image(), req))
	}
	image := s.image()
	partitions := 0
	if all {
		partitions = partitionsOfAll(image)
	} else {
		partitions = partitionsAskedFor(image, req)
	}
	if !r.describes(s, partitions) {
		return nil
	}
	for _, e := range s.endpointsOf(image, r.listener) {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = e.node, e.host, e.port, textOrNull(e.rack)
		resp.Brokers = append(resp.Brokers, b)
	}
	resp.ClusterID = textOrNull(image.ClusterID)
	resp.ControllerID = s.o.NodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = operationsOfCluster
	}
	if all {
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, image.TopicCount())
		image.Topics(func(t *cluster.Topic) bool {
			resp.Topics = append(resp.Topics, describedTopic(image, t))
			return true
		})
	} else {
		resp.Topics = askedTopics(image, r.version, req, created)
	}
	if req.IncludeTopicAuthorizedOperations {
		for i := range resp.Topics {
			resp.Topics[i].AuthorizedOperations = operationsOfTopic
		}
	}
	return resp
}

// askedTopics answers each topic once. Where ids are asked for, entries with a name alone are passed over,
// as in Kafka.
func askedTopics(image *cluster.Image, version int16, req *kmsg.MetadataRequest, created map[string]int16) []kmsg.MetadataResponseTopic {
	byID := false
	if version >= 12 {
		for i := range req.Topics {
			byID = byID || !model.TopicID(req.Topics[i].TopicID).IsZero()
		}
	}
	topics := make([]kmsg.MetadataResponseTopic, 0, len(req.Topics))
	var names repeated[string]
	var ids repeated[model.TopicID]
	for i := range req.Topics {
		asked := &req.Topics[i]
		id := model.TopicID(asked.TopicID)
		switch {
		case version < 12 && !id.IsZero() || asked.Topic == nil && id.IsZero():
			topics = append(topics, failedTopic(asked.Topic, codeInvalidRequest))
		case !id.IsZero():
			if !ids.again(id) {
				topics = append(topics, topicByID(image, id))
			}
		case byID || names.again(*asked.Topic):
		default:
			topics = append(topics, topicByName(image, *asked.Topic, created))
		}
	}
	return topics
}

func topicByID(image *cluster.Image, id model.TopicID) kmsg.MetadataResponseTopic {
	if t := image.TopicByID(id); t != nil {
		return describedTopic(image, t)
	}
	failed := kmsg.NewMetadataResponseTopic()
	failed.ErrorCode, failed.TopicID = codeUnknownTopicID, id
	return failed
}

func topicByName(image *cluster.Image, name string, created map[string]int16) kmsg.MetadataResponseTopic {
	if t := image.TopicByName([]byte(name)); t != nil {
		return describedTopic(image, t)
	}
	code := codeUnknownTopicOrPartition
	if cluster.CheckTopicName(name) != nil {
		code = codeInvalidTopic
	} else if c, tried := created[name]; tried && c != codeNone {
		code = c
	}
	return failedTopic(&name, code)
}

// failedTopic answers for a topic that cannot be described. Where the name is missing it goes out empty,
// since versions below 12 know no null.
func failedTopic(name *string, code int16) kmsg.MetadataResponseTopic {
	failed := kmsg.NewMetadataResponseTopic()
	failed.ErrorCode = code
	if name == nil {
		name = new(string)
	}
	failed.Topic = name
	return failed
}

func describedTopic(image *cluster.Image, t *cluster.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = &t.Name, t.ID
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		p, o := &t.Partitions[i], &out.Partitions[i]
		o.Default()
		o.Partition, o.Leader, o.LeaderEpoch, o.Replicas, o.ISR = int32(i), p.Leader, p.LeaderEpoch, p.Replicas, p.ISR
		o.OfflineReplicas = offlineReplicas(image, p)
		if p.Leader < 0 {
			o.ErrorCode = codeLeaderNotAvailable
		}
	}
	return out
}

// offlineReplicas returns the replicas on brokers that are not registered; mostly there are none.
func offlineReplicas(image *cluster.Image, p *cluster.Partition) []int32 {
	var offline []int32
	for _, id := range p.Replicas {
		if image.Broker(id) == nil {
			offline = append(offline, id)
		}
	}
	return offline
}

// missingTopics returns the legal names that are asked for and do not exist, each once.
func missingTopics(image *cluster.Image, req *kmsg.MetadataRequest) []string {
	var missing []string
	var names repeated[string]
	for i := range req.Topics {
		asked := &req.Topics[i]
		if asked.Topic == nil || !model.TopicID(asked.TopicID).IsZero() || image.TopicByName([]byte(*asked.Topic)) != nil {
			continue
		}
		if cluster.CheckTopicName(*asked.Topic) == nil && *asked.Topic != reservedTopic && !names.again(*asked.Topic) {
			missing = append(missing, *asked.Topic)
		}
	}
	return missing
}

// autoCreate makes topics with the broker's defaults and returns the codes for those that were tried. Ones
// that another request makes at the same time are found in the image afterwards.
func (s *Server) autoCreate(r *request, names []string) map[string]int16 {
	if len(names) == 0 {
		return nil
	}
	codes := make(map[string]int16, len(names))
	for _, name := range names[min(len(names), autoCreateMax):] {
		codes[name] = codeLeaderNotAvailable // the client asks again
	}
	names = names[:min(len(names), autoCreateMax)]
	command := cluster.CreateTopics{Time: s.o.Now()}
	for _, name := range names {
		command.Topics = append(command.Topics, cluster.NewTopic{Name: name, ID: newTopicID(),
			Partitions: s.o.Config.NumPartitions, ReplicationFactor: s.o.Config.DefaultReplicationFactor})
	}
	ctx, cancel := r.deadline(5000)
	defer cancel()
	results, err := s.makeTopics(ctx, command, false)
	if err != nil {
		s.o.Logger.Warn("automatic creation of topics failed", slog.Int("topics", len(names)), slog.Any("error", err))
		for _, name := range names {
			codes[name] = codeLeaderNotAvailable
		}
		return codes
	}
	for i, result := range results {
		codes[names[i]] = codeOfAutoCreation(result.Code)
	}
	return codes
}

func codeOfAutoCreation(o cluster.Code) int16 {
	switch o {
	case cluster.OK, cluster.ErrTopicExists:
		return codeNone
	case cluster.ErrInvalidReplicationFactor:
		return codeInvalidReplicationFactor // too few brokers for the default, as in Kafka
	case cluster.ErrNameCollision:
		return codeInvalidTopic
	default:
		return codeUnknownTopicOrPartition
	}
}
