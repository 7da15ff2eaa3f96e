package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
	"millrace/meta/config"
)

// CreateTopics (19), versions 2 to 7: v4 defaults for counts (taken in earlier ones too, as Kafka does),
// v5 answers with counts and configs (KIP-525), v7 with topic ids (KIP-516).
//
// A topic is answered with NONE only when its logs can be used here.

// reservedTopic is a name that nobody can have: Kafka's tools take it for the log of the cluster state.
const reservedTopic = "__cluster_metadata"

// createTopics judges each topic alone; what cannot be made does not keep others from it.
func (s *Server) createTopics(r *request) kmsg.Response {
	req := r.body.(*kmsg.CreateTopicsRequest)
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	image := s.image()
	counts := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		counts[req.Topics[i].Topic]++
	}
	command := cluster.CreateTopics{Time: s.o.Now()}
	var at []int // index in the answer of each topic of the command
	for i := range req.Topics {
		in := &req.Topics[i]
		n := counts[in.Topic]
		if n == 0 {
			continue // answered already
		}
		counts[in.Topic] = 0
		topic, code, message := s.newTopic(image, in)
		if n > 1 {
			code, message = codeInvalidRequest, "topic stands in the request more than once"
		}
		if code == codeNone {
			command.Topics = append(command.Topics, topic)
			at = append(at, len(resp.Topics))
		}
		resp.Topics = append(resp.Topics, createdTopic(in.Topic, code, message))
	}
	if len(command.Topics) == 0 {
		return resp
	}
	results, err := s.runCreateTopics(r, req, command)
	for i, index := range at {
		out := &resp.Topics[index]
		if err != nil {
			out.ErrorCode, out.ErrorMessage = codeOf(err), textOrNull(err.Error())
			continue
		}
		s.fillCreated(out, results[i])
	}
	return resp
}

func (s *Server) runCreateTopics(r *request, req *kmsg.CreateTopicsRequest, command cluster.CreateTopics) ([]cluster.CreateTopicResult, error) {
	ctx, cancel := r.deadline(req.TimeoutMillis)
	defer cancel()
	return s.makeTopics(ctx, command, req.ValidateOnly)
}

// makeTopics makes topics, or with validateOnly judges whether they could be made.
func (s *Server) makeTopics(ctx context.Context, command cluster.CreateTopics, validateOnly bool) ([]cluster.CreateTopicResult, error) {
	_, cordoned := s.o.Shards.Cordoned(nil)
	if !validateOnly && !cordoned {
		return s.client().CreateTopics(ctx, command)
	}
	results := s.image().CheckCreateTopics(command)
	for i := range results {
		refuseCordoned(&results[i].Outcome, cordoned)
	}
	return results, nil
}

// refuseCordoned refuses what could be made but for there being no directory that takes new partitions (KIP-1066).
func refuseCordoned(o *cluster.Outcome, cordoned bool) {
	if cordoned && !o.Failed() {
		*o = cluster.Outcome{Code: cluster.ErrInvalidReplicationFactor, Message: "all data directories are cordoned: take one out of cordoned.log.dirs"}
	}
}

func createdTopic(name string, code int16, message string) kmsg.CreateTopicsResponseTopic {
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.ErrorCode, out.ErrorMessage = name, code, textOrNull(message)
	out.NumPartitions, out.ReplicationFactor = -1, -1
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	return out
}

func (s *Server) fillCreated(out *kmsg.CreateTopicsResponseTopic, result cluster.CreateTopicResult) {
	if result.Failed() {
		out.ErrorCode, out.ErrorMessage = codeOfOutcome(result.Code), textOrNull(result.Message)
		return
	}
	out.TopicID = result.Topic.ID
	out.NumPartitions = int32(len(result.Topic.Partitions))
	out.ReplicationFactor = int16(len(result.Topic.Partitions[0].Replicas))
	for _, e := range s.resolver(s.image()).DescribeTopic(result.Topic.Configs) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.ReadOnly, c.Source, c.IsSensitive = e.Name, e.ReadOnly, int8(configSource(e.Source)), e.Sensitive
		if !e.Null {
			c.Value = &e.Value
		}
		out.Configs = append(out.Configs, c)
	}
}

// newTopic turns a request into what is proposed. It judges what needs no more than the request: but that
// the name is taken comes before all other faults.
func (s *Server) newTopic(image *cluster.Image, in *kmsg.CreateTopicsRequestTopic) (cluster.NewTopic, int16, string) {
	refuse := func(code int16, format string, args ...any) (cluster.NewTopic, int16, string) {
		return cluster.NewTopic{}, code, fmt.Sprintf(format, args...)
	}
	if err := cluster.CheckTopicName(in.Topic); err != nil {
		return refuse(codeInvalidTopic, "%v", err)
	}
	if image.TopicByName([]byte(in.Topic)) != nil {
		return refuse(codeTopicAlreadyExists, "topic %q already exists", in.Topic)
	}
	if in.Topic == reservedTopic {
		return refuse(codeInvalidRequest, "topic %q is reserved", in.Topic)
	}
	topic := cluster.NewTopic{Name: in.Topic, ID: newTopicID(), Partitions: in.NumPartitions, ReplicationFactor: in.ReplicationFactor}
	if len(in.Configs) > 0 {
		topic.Configs = make(map[string]string, len(in.Configs))
	}
	for _, c := range in.Configs {
		if c.Value == nil {
			return refuse(codeInvalidConfig, "config %s has no value", c.Name)
		}
		topic.Configs[c.Name] = *c.Value
	}
	if err := config.CheckTopicConfigs(topic.Configs); err != nil {
		return refuse(codeInvalidConfig, "%v", err)
	}
	if len(in.ReplicaAssignment) > 0 {
		assignments, code, message := assignmentsOf(in)
		topic.Assignments = assignments
		return topic, code, message
	}
	if topic.Partitions == -1 {
		topic.Partitions = s.o.Config.NumPartitions
	}
	if topic.ReplicationFactor == -1 {
		topic.ReplicationFactor = s.o.Config.DefaultReplicationFactor
	}
	return topic, codeNone, ""
}

// assignmentsOf orders a manual assignment by partition. What it says of brokers the cluster state judges.
func assignmentsOf(in *kmsg.CreateTopicsRequestTopic) ([][]int32, int16, string) {
	if in.ReplicationFactor != -1 || in.NumPartitions != -1 {
		return nil, codeInvalidRequest, "a manual partition assignment was given, but replication factor or number of partitions is not -1"
	}
	assignments := make([][]int32, len(in.ReplicaAssignment))
	for _, a := range in.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(assignments) {
			return nil, codeInvalidReplicaAssignment, "partitions must be numbered from 0 without a gap"
		}
		if assignments[a.Partition] != nil {
			return nil, codeInvalidReplicaAssignment, fmt.Sprintf("partition %d is assigned more than once", a.Partition)
		}
		assignments[a.Partition] = a.Replicas
		if a.Replicas == nil {
			assignments[a.Partition] = []int32{}
		}
	}
	return assignments, codeNone, ""
}
