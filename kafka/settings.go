package kafka

import (
	"millrace/meta/cluster"
	"millrace/meta/config"
)

// resolvedSettings keeps the resolver of one version of the dynamic broker configs.
type resolvedSettings struct {
	version  uint64
	resolver *config.Resolver
}

// resolver looks settings up under the dynamic configs of an image. It is safe for concurrent use; making it
// anew costs some microseconds, which happens once for each change.
func (s *Server) resolver(image *cluster.Image) *config.Resolver {
	version := image.BrokerConfigVersion()
	if r := s.resolved.Load(); r != nil && r.version == version {
		return r.resolver
	}
	r := &resolvedSettings{version, config.NewResolver(s.o.Config,
		image.BrokerConfigs(cluster.AllBrokers).Configs, image.BrokerConfigs(s.o.NodeID).Configs)}
	s.resolved.Store(r)
	return r.resolver
}

// topicConfig returns what takes effect for a topic. It is immutable and cheap without overrides.
func (s *Server) topicConfig(image *cluster.Image, topic *cluster.Topic) *config.Topic {
	return s.resolver(image).Topic(topic.Configs)
}
