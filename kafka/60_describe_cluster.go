package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster (60), versions 0 to 2 (KIP-700; v1 endpoint types, KIP-919; v2 fenced brokers, KIP-1073).
// Brokers are the only endpoints; none is ever listed as fenced.

const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// What may be done without an authorizer, as bits by operation (KIP-430).
const (
	operationsOfCluster = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	operationsOfTopic   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
)

// describeCluster lists the brokers with the addresses of the listener that the client came in by.
func (s *Server) describeCluster(r *request) kmsg.Response {
	req := r.body.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ControllerID = -1
	resp.EndpointType = endpointBrokers
	if r.version >= 1 && req.EndpointType != endpointBrokers {
		resp.ErrorCode = codeUnsupportedEndpointType
		resp.ErrorMessage = textOrNull(fmt.Sprintf("endpoint type %d is not supported", req.EndpointType))
		if req.EndpointType == endpointControllers {
			resp.ErrorCode = codeMismatchedEndpointType
			resp.ErrorMessage = textOrNull("this is an endpoint of type broker, not controller")
		}
		return resp
	}
	image := s.image()
	resp.ClusterID = image.ClusterID
	resp.ControllerID = s.o.NodeID
	for _, e := range s.endpointsOf(image, r.listener) {
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = e.node, e.host, e.port, textOrNull(e.rack)
		resp.Brokers = append(resp.Brokers, b)
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = operationsOfCluster
	}
	return resp
}
