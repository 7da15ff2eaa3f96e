package kafka

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
	"millrace/meta/config"
)

// DescribeConfigs (32), versions 1 to 4 (KIP-133; v1 synonyms, KIP-226; v3 types and documentation,
// KIP-569). Topics, groups and this broker have configs; a group need not exist for it. An empty list of keys asks for all, as null does; a broker
// named by the empty string means the dynamic configs of all brokers.

// describeConfigs answers resources in the order asked. One that is named again is refused: a name is short
// and what it stands for is not.
func (s *Server) describeConfigs(r *request) kmsg.Response {
	req := r.body.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	d := configDescriber{server: s, image: s.image(), synonyms: req.IncludeSynonyms, documentation: req.IncludeDocumentation}
	d.resolver = s.resolver(d.image)
	d.documents = make(map[*config.Definition]*string)
	type resourceName struct {
		kind kmsg.ConfigResourceType
		name string
	}
	var seen repeated[resourceName]
	for i := range req.Resources {
		in := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		if seen.again(resourceName{in.ResourceType, in.ResourceName}) {
			out.ErrorCode, out.ErrorMessage = codeInvalidRequest, textOrNull("resource stands in the request more than once")
		} else {
			d.describe(&out, in)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

type configDescriber struct {
	server                  *Server
	image                   *cluster.Image
	resolver                *config.Resolver
	synonyms, documentation bool
	documents               map[*config.Definition]*string
}

func (d *configDescriber) describe(out *kmsg.DescribeConfigsResponseResource, in *kmsg.DescribeConfigsRequestResource) {
	entries, code, message := d.entries(in)
	out.ErrorCode, out.ErrorMessage = code, textOrNull(message)
	var wanted map[string]struct{}
	if len(in.ConfigNames) > 0 {
		wanted = make(map[string]struct{}, len(in.ConfigNames))
		for _, name := range in.ConfigNames {
			wanted[name] = struct{}{}
		}
	}
	for i := range entries {
		if _, ok := wanted[entries[i].Name]; ok || wanted == nil {
			out.Configs = append(out.Configs, d.config(&entries[i]))
		}
	}
}

func (d *configDescriber) entries(in *kmsg.DescribeConfigsRequestResource) ([]config.Entry, int16, string) {
	switch in.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := cluster.CheckTopicName(in.ResourceName); err != nil {
			return nil, codeInvalidTopic, err.Error()
		}
		t := d.image.TopicByName([]byte(in.ResourceName))
		if t == nil {
			return nil, codeUnknownTopicOrPartition, fmt.Sprintf("there is no topic %q", in.ResourceName)
		}
		return d.resolver.DescribeTopic(t.Configs), codeNone, ""
	case kmsg.ConfigResourceTypeBroker:
		if in.ResourceName == "" {
			return d.resolver.DescribeBroker(false), codeNone, ""
		}
		if message := d.server.checkBrokerName(in.ResourceName); message != "" {
			return nil, codeInvalidRequest, message
		}
		return d.resolver.DescribeBroker(true), codeNone, ""
	case kmsg.ConfigResourceTypeGroupConfig:
		if in.ResourceName == "" {
			return nil, codeInvalidRequest, "group name must not be empty"
		}
		return d.resolver.DescribeGroup(d.image.GroupConfigs(in.ResourceName).Configs), codeNone, ""
	}
	return nil, codeInvalidRequest, fmt.Sprintf("configs of resource type %d are not supported", in.ResourceType)
}

// checkBrokerName tells what is wrong with a broker that configs are asked of; each knows only its own.
func (s *Server) checkBrokerName(name string) string {
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return fmt.Sprintf("broker id must be an integer, but it is %q", name)
	case int32(id) != s.o.NodeID:
		return fmt.Sprintf("unexpected broker id: %d or nothing was expected, not %d", s.o.NodeID, id)
	}
	return ""
}

func (d *configDescriber) config(e *config.Entry) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.ReadOnly, out.IsSensitive = e.Name, e.ReadOnly, e.Sensitive
	out.Source, out.ConfigType = configSource(e.Source), configType(e.Type)
	if !e.Null && !e.Sensitive {
		out.Value = &e.Value
	}
	if d.documentation {
		out.Documentation = d.document(e)
	}
	if d.synonyms {
		for i := range e.Synonyms {
			y := &e.Synonyms[i]
			synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			synonym.Name, synonym.Source = y.Name, configSource(y.Source)
			if !y.Null && !e.Sensitive {
				synonym.Value = &y.Value
			}
			out.ConfigSynonyms = append(out.ConfigSynonyms, synonym)
		}
	}
	return out
}

// document returns the text once for all resources.
func (d *configDescriber) document(e *config.Entry) *string {
	if text := d.documents[e.Definition]; text != nil {
		return text
	}
	text := e.Doc
	d.documents[e.Definition] = &text
	return &text
}

func configSource(s config.Source) kmsg.ConfigSource {
	switch s {
	case config.SourceTopic:
		return kmsg.ConfigSourceDynamicTopicConfig
	case config.SourceGroup:
		return kmsg.ConfigSourceGroupConfig
	case config.SourceDynamicBroker:
		return kmsg.ConfigSourceDynamicBrokerConfig
	case config.SourceDynamicDefaultBroker:
		return kmsg.ConfigSourceDynamicDefaultBrokerConfig
	case config.SourceStaticBroker:
		return kmsg.ConfigSourceStaticBrokerConfig
	default:
		return kmsg.ConfigSourceDefaultConfig
	}
}

func configType(t config.Type) kmsg.ConfigType {
	switch t {
	case config.Bool:
		return kmsg.ConfigTypeBoolean
	case config.String:
		return kmsg.ConfigTypeString
	case config.Int:
		return kmsg.ConfigTypeInt
	case config.Short:
		return kmsg.ConfigTypeShort
	case config.Long:
		return kmsg.ConfigTypeLong
	case config.Double:
		return kmsg.ConfigTypeDouble
	case config.List:
		return kmsg.ConfigTypeList
	case config.Class:
		return kmsg.ConfigTypeClass
	case config.Password:
		return kmsg.ConfigTypePassword
	default:
		return 0 // unknown
	}
}
