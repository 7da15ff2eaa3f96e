package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/perf"
)

// ApiVersions (18), versions 0 to 5 (KIP-35, KIP-511, KIP-584, KIP-1242).
//
// Of features only group.version is announced, for KIP-848: clients act on transaction.version and share.version by
// using APIs that are not here, and metadata.version describes a controller quorum that clients cannot join. From v5 on a client that came to the wrong broker or cluster is told to bootstrap
// again. The response header is never flexible, which the core sees to.

// featureGroups is the feature of groups: level 1 has the consumer protocol.
const featureGroups = "group.version"

// apiVersions answers a request of a version in the range.
func (s *Server) apiVersions(r *request) kmsg.Response {
	req := r.body.(*kmsg.ApiVersionsRequest)
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{}
	if r.version >= 3 && !(softwareText(req.ClientSoftwareName) && softwareText(req.ClientSoftwareVersion)) {
		resp.ErrorCode = codeInvalidRequest
		return resp
	}
	if r.version >= 5 {
		if resp.ErrorCode = s.checkExpectedBroker(req); resp.ErrorCode != codeNone {
			return resp
		}
	}
	supported := kmsg.NewApiVersionsResponseSupportedFeature()
	supported.Name, supported.MinVersion, supported.MaxVersion = featureGroups, 0, 1
	finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
	finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = featureGroups, 1, 1
	resp.FinalizedFeaturesEpoch = 0 // it never changes
	if r.version < 4 {
		supported.MinVersion = 1 // clients of before KIP-1022 do not take a minimum of 0
	}
	resp.SupportedFeatures = append(resp.SupportedFeatures, supported)
	resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized)
	for _, a := range s.table {
		if a != nil {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.min, a.max
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
	}
	return resp
}

// apiVersionsUnsupported answers a request of a version that is not known, in the layout of v0, which
// every client can read: the range of ApiVersions alone (KIP-511).
func (s *Server) apiVersionsUnsupported() kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 0
	resp.ErrorCode = codeUnsupportedVersion
	k := kmsg.NewApiVersionsResponseApiKey()
	a := s.table[keyApiVersions]
	k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.min, a.max
	resp.ApiKeys = append(resp.ApiKeys, k)
	return resp
}

// checkExpectedBroker compares what the client expects to be connected to with what this is (KIP-1242).
func (s *Server) checkExpectedBroker(req *kmsg.ApiVersionsRequest) int16 {
	switch {
	case req.ClusterID == nil && req.NodeID == -1:
		return codeNone // bootstrapping
	case req.ClusterID == nil || req.NodeID == -1:
		return codeInvalidRequest
	case *req.ClusterID != s.image().ClusterID || req.NodeID != s.o.NodeID:
		return codeRebootstrapRequired
	}
	return codeNone
}

// softwareText tells whether a client's name or version has the form that KIP-511 asks for: letters and
// digits, with dots and dashes between them.
func softwareText(text string) bool {
	for i := range len(text) {
		c := text[i]
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		inner := (c == '.' || c == '-') && i > 0 && i < len(text)-1
		if !alphanumeric && !inner {
			return false
		}
	}
	return text != ""
}

// apiVersionsTooNew is that answer as a whole frame, from an event loop.
func (s *Server) apiVersionsTooNew(correlation int32) *perf.Buffer {
	b := s.o.Pool.Get(64)
	b.B = beginReply(b.B, correlation, false)
	b.B = s.apiVersionsUnsupported().AppendTo(b.B)
	endReply(b.B)
	return b
}
