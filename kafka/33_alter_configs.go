package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/config"
)

// AlterConfigs (33), versions 0 to 2 (KIP-133): the older way, which replaces all configs of a resource.

// alterConfigs answers every resource in its place.
func (s *Server) alterConfigs(r *request) kmsg.Response {
	req := r.body.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	list := make([]*alteration, len(req.Resources))
	for i := range req.Resources {
		list[i] = replacement(&req.Resources[i])
	}
	s.alterConfigsOf(r.ctx, list, req.ValidateOnly)
	for _, a := range list {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = a.kind, a.name
		out.ErrorCode, out.ErrorMessage = a.code, textOrNull(a.message)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func replacement(in *kmsg.AlterConfigsRequestResource) *alteration {
	a := &alteration{kind: in.ResourceType, name: in.ResourceName}
	configs := make(map[string]string, len(in.Configs))
	for _, c := range in.Configs {
		if c.Value == nil {
			a.refuse(codeInvalidRequest, "null is no value for %s", c.Name)
			return a
		}
		configs[c.Name] = *c.Value
	}
	if len(configs) != len(in.Configs) {
		a.refuse(codeInvalidRequest, "a config stands in the request more than once")
		return a
	}
	a.compute = func(scope config.Scope, _ map[string]string) (map[string]string, error) {
		return configs, config.CheckConfigs(scope, configs)
	}
	return a
}
