package kafka

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
)

// ListConfigResources (74), versions 0 to 1 (KIP-1000, KIP-1142). v0 asks for client metrics subscriptions
// alone, of which there are none.

const (
	resourceTopic         = 2
	resourceBroker        = 4
	resourceBrokerLogger  = 8
	resourceClientMetrics = 16
	resourceGroup         = 32
)

// listConfigResources lists what can have configs. Types that have none here yield nothing; a type that
// Kafka does not know either is refused.
func (s *Server) listConfigResources(r *request) kmsg.Response {
	req := r.body.(*kmsg.ListConfigResourcesRequest)
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if r.version == 0 {
		return resp
	}
	all := len(req.ResourceTypes) == 0
	topics, brokers, groups := all, all, all
	for _, t := range req.ResourceTypes {
		switch t {
		case resourceTopic:
			topics = true
		case resourceBroker:
			brokers = true
		case resourceGroup:
			groups = true
		case resourceBrokerLogger, resourceClientMetrics:
		default:
			resp.ErrorCode = codeUnsupportedVersion
			return resp
		}
	}
	add := func(name string, kind int8) {
		resource := kmsg.NewListConfigResourcesResponseConfigResource()
		resource.Name, resource.Type = name, kind
		resp.ConfigResources = append(resp.ConfigResources, resource)
	}
	image := s.image()
	if brokers {
		for _, b := range image.Brokers() {
			add(strconv.Itoa(int(b.NodeID)), resourceBroker)
		}
	}
	if topics {
		image.Topics(func(t *cluster.Topic) bool {
			add(t.Name, resourceTopic)
			return true
		})
	}
	if groups {
		for _, name := range image.GroupsWithConfigs() {
			add(name, resourceGroup)
		}
	}
	return resp
}
