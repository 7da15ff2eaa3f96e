package kafka

import (
	"millrace/kafka/group/consumer"
	"millrace/meta/cluster"
	"millrace/meta/config"
)

// resolvedSettings keeps the resolver of one version of the dynamic broker configs and one reading of the settings.
type resolvedSettings struct {
	version  uint64
	static   *config.Broker
	resolver *config.Resolver
}

// Reread takes over settings of which dynamic ones were read again. It may be called at any time.
func (s *Server) Reread(settings *config.Broker) {
	s.static.Store(settings)
	s.readings.Add(1)
}

// resolver looks settings up under the dynamic configs of an image. It is safe for concurrent use; making it
// anew costs some microseconds, which happens once for each change.
func (s *Server) resolver(image *cluster.Image) *config.Resolver {
	version, static := image.BrokerConfigVersion(), s.static.Load()
	if r := s.resolved.Load(); r != nil && r.version == version && r.static == static {
		return r.resolver
	}
	r := &resolvedSettings{version, static, config.NewResolver(static,
		image.BrokerConfigs(cluster.AllBrokers).Configs, image.BrokerConfigs(s.o.NodeID).Configs)}
	s.resolved.Store(r)
	return r.resolver
}

// consumerConfig returns what takes effect for a group of the consumer protocol.
func (s *Server) consumerConfig(id string) consumer.Config {
	b, image := s.o.Config, s.image()
	g := b.Consumer.Clamp(s.resolver(image).Group(image.GroupConfigs(id).Configs))
	c := consumer.DefaultConfig()
	c.SessionTimeout, c.HeartbeatInterval, c.AssignmentInterval = g.ConsumerSession, g.ConsumerHeartbeat, g.ConsumerAssignment
	c.MembersMax, c.ClassicMax, c.Assignors = b.ConsumersMax, b.GroupMembersMax, b.ConsumerAssignors
	c.Policy, _ = consumer.ParsePolicy(b.ConsumerMigration)
	return c
}

// topicConfig returns what takes effect for a topic. It is immutable and cheap without overrides.
func (s *Server) topicConfig(image *cluster.Image, topic *cluster.Topic) *config.Topic {
	return s.resolver(image).Topic(topic.Configs)
}
