package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/config"
)

// IncrementalAlterConfigs (44), versions 0 to 1 (KIP-339): sets, deletes, appends to and subtracts from
// single configs. All operations of a resource take effect, or none.

// incrementalAlterConfigs answers every resource in its place.
func (s *Server) incrementalAlterConfigs(r *request) kmsg.Response {
	req := r.body.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	list := make([]*alteration, len(req.Resources))
	for i := range req.Resources {
		list[i] = increment(&req.Resources[i])
	}
	s.alterConfigsOf(r.ctx, list, req.ValidateOnly)
	for _, a := range list {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = a.kind, a.name
		out.ErrorCode, out.ErrorMessage = a.code, textOrNull(a.message)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func increment(in *kmsg.IncrementalAlterConfigsRequestResource) *alteration {
	a := &alteration{kind: in.ResourceType, name: in.ResourceName}
	ops := make([]config.Op, 0, len(in.Configs))
	var names repeated[string]
	for _, c := range in.Configs {
		if names.again(c.Name) {
			a.refuse(codeInvalidRequest, "config %s stands in the request more than once", c.Name)
			return a
		}
		op := config.Op{Name: c.Name, Null: c.Value == nil}
		if c.Value != nil {
			op.Value = *c.Value
		}
		switch c.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			op.Kind = config.Set
		case kmsg.IncrementalAlterConfigOpDelete:
			op.Kind = config.Delete
		case kmsg.IncrementalAlterConfigOpAppend:
			op.Kind = config.Append
		case kmsg.IncrementalAlterConfigOpSubtract:
			op.Kind = config.Subtract
		default:
			a.refuse(codeInvalidRequest, "operation %d on %s is unknown", c.Op, c.Name)
			return a
		}
		if op.Null && op.Kind != config.Delete {
			a.refuse(codeInvalidRequest, "null is no value for %s", c.Name)
			return a
		}
		ops = append(ops, op)
	}
	a.compute = func(scope config.Scope, current map[string]string) (map[string]string, error) {
		due := slices.DeleteFunc(slices.Clone(ops), func(op config.Op) bool {
			_, set := current[op.Name]
			return op.Kind == config.Delete && !set // nothing to do, whether the name is known or not
		})
		return config.Alter(scope, current, due)
	}
	return a
}
