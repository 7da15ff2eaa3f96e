package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func software(name, version string) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
	return req
}

func TestApiVersionsListsTheTable(t *testing.T) {
	h := newHandlerTest(t)
	for v := int16(0); v <= 5; v++ {
		resp := ask[*kmsg.ApiVersionsResponse](h, v, software("franz-go", "v1.22.3"))
		equal(h, "code", resp.ErrorCode, codeNone)
		equal(h, "keys", len(resp.ApiKeys), len(apis()))
		equal(h, "Produce from", resp.ApiKeys[0].MinVersion, 0)
		if v < 3 {
			equal(h, "features", len(resp.SupportedFeatures), 0)
			continue
		}
		equal(h, "features", len(resp.SupportedFeatures), 1)
		equal(h, "feature", resp.SupportedFeatures[0].Name, "group.version")
		least := int16(0)
		if v < 4 {
			least = 1
		}
		equal(h, "least level", resp.SupportedFeatures[0].MinVersion, least)
		equal(h, "level", resp.FinalizedFeatures[0].MaxVersionLevel, 1)
	}
}

func TestA01UnknownVersionIsAnsweredInV0(t *testing.T) {
	h := newHandlerTest(t)
	resp := h.s.apiVersionsUnsupported()
	// error 35, one entry: key 18 from 0 to 5; no throttle time
	if got, want := string(resp.AppendTo(nil)), "\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x05"; got != want {
		t.Errorf("% x, want % x", got, want)
	}
}

func TestA03NamesOfSoftware(t *testing.T) {
	h := newHandlerTest(t)
	f := func(name, version string, want int16) {
		t.Helper()
		equal(h, name, ask[*kmsg.ApiVersionsResponse](h, 3, software(name, version)).ErrorCode, want)
	}
	f("a", "1", codeNone)
	f("apache-kafka-java", "4.4.0", codeNone)
	f("a b", "1", codeInvalidRequest)
	f("", "1", codeInvalidRequest)
	f("a", "", codeInvalidRequest)
	f("-a", "1", codeInvalidRequest)
	f("a.", "1", codeInvalidRequest)
	f("ü", "1", codeInvalidRequest)
}

func TestM15ExpectedBroker(t *testing.T) {
	h := newHandlerTest(t)
	right, wrong := h.s.image().ClusterID, "other"
	f := func(clusterID *string, node int32, want int16) {
		t.Helper()
		req := software("a", "1")
		req.ClusterID, req.NodeID = clusterID, node
		resp := ask[*kmsg.ApiVersionsResponse](h, 5, req)
		equal(h, "code", resp.ErrorCode, want)
		equal(h, "keys are there", len(resp.ApiKeys) > 0, want == codeNone)
	}
	f(nil, -1, codeNone)
	f(&right, 1, codeNone)
	f(&right, -1, codeInvalidRequest)
	f(nil, 1, codeInvalidRequest)
	f(&right, 2, codeRebootstrapRequired)
	f(&wrong, 1, codeRebootstrapRequired)
}
