package kafka

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/meta/cluster"
	"millrace/meta/config"
)

// What AlterConfigs and IncrementalAlterConfigs have in common: resources are judged one by one, their new
// configs are computed from what they have and proposed together; who was overtaken by another change
// computes again.

const (
	alterAttempts = 10
	alterTimeout  = 30 * time.Second
)

// alteration is the change of one resource.
type alteration struct {
	kind kmsg.ConfigResourceType
	name string
	// compute returns the configs that are to be, all of them and checked. It may run more than once.
	compute func(scope config.Scope, current map[string]string) (map[string]string, error)

	code    int16
	message string
}

func (a *alteration) refuse(code int16, format string, args ...any) {
	a.code, a.message = code, fmt.Sprintf(format, args...)
}

// alterConfigsOf carries the alterations out and notes in each what became of it.
func (s *Server) alterConfigsOf(ctx context.Context, list []*alteration, validateOnly bool) {
	refuseRepeatedResources(list)
	ctx, cancel := context.WithTimeout(ctx, alterTimeout)
	defer cancel()
	due := list
	for range alterAttempts {
		image := s.image()
		var command cluster.AlterConfigs
		var proposed []*alteration
		for _, a := range due {
			if a.code != codeNone {
				continue
			}
			if resource, ok := s.alteredResource(image, a); ok {
				command.Resources = append(command.Resources, resource)
				proposed = append(proposed, a)
			}
		}
		if validateOnly || len(proposed) == 0 {
			return
		}
		outcomes, err := s.client().AlterConfigs(ctx, command)
		due = nil
		for i, a := range proposed {
			switch {
			case err != nil:
				a.refuse(codeOf(err), "%v", err)
			case outcomes[i].Code == cluster.ErrConflict:
				due = append(due, a)
			case outcomes[i].Failed():
				a.refuse(codeOfOutcome(outcomes[i].Code), "%s", outcomes[i].Message)
			}
		}
	}
	for _, a := range due {
		a.refuse(codeRequestTimedOut, "configs were changed by others at the same time, again and again")
	}
}

func refuseRepeatedResources(list []*alteration) {
	type resourceName struct {
		kind kmsg.ConfigResourceType
		name string
	}
	counts := make(map[resourceName]int, len(list))
	for _, a := range list {
		counts[resourceName{a.kind, a.name}]++
	}
	for _, a := range list {
		if counts[resourceName{a.kind, a.name}] > 1 {
			a.refuse(codeInvalidRequest, "each resource must appear at most once")
		}
	}
}

// alteredResource computes what the resource is to have. Where that is refused it notes so and returns
// false.
func (s *Server) alteredResource(image *cluster.Image, a *alteration) (cluster.ResourceConfigs, bool) {
	var out cluster.ResourceConfigs
	var current map[string]string
	var scope config.Scope
	switch a.kind {
	case kmsg.ConfigResourceTypeTopic:
		if a.name == "" {
			a.refuse(codeInvalidRequest, "there are no defaults of all topics to change: name one")
			return out, false
		}
		if err := cluster.CheckTopicName(a.name); err != nil {
			a.refuse(codeInvalidTopic, "%v", err)
			return out, false
		}
		t := image.TopicByName([]byte(a.name))
		if t == nil {
			a.refuse(codeUnknownTopicOrPartition, "there is no topic %q", a.name)
			return out, false
		}
		scope, current = config.ScopeTopic, t.Configs
		out = cluster.ResourceConfigs{Kind: cluster.TopicResource, Name: a.name, Version: t.ConfigVersion}
	case kmsg.ConfigResourceTypeBroker:
		broker := cluster.AllBrokers
		if a.name != "" {
			if message := s.checkBrokerName(a.name); message != "" {
				a.refuse(codeInvalidRequest, "%s", message)
				return out, false
			}
			id, _ := strconv.ParseInt(a.name, 10, 32)
			broker = int32(id)
		}
		resource := image.BrokerConfigs(broker)
		scope, current = config.ScopeBroker, resource.Configs
		out = cluster.ResourceConfigs{Kind: cluster.BrokerResource, Broker: broker, Version: resource.Version}
	case kmsg.ConfigResourceTypeGroupConfig:
		if a.name == "" {
			a.refuse(codeInvalidRequest, "there are no defaults of all groups to change: name one, or set the group.consumer. settings of the broker")
			return out, false
		}
		resource := image.GroupConfigs(a.name)
		scope, current = config.ScopeGroup, resource.Configs
		out = cluster.ResourceConfigs{Kind: cluster.GroupResource, Name: a.name, Version: resource.Version}
	default:
		a.refuse(codeInvalidRequest, "configs of resource type %d are not supported", a.kind)
		return out, false
	}
	configs, err := a.compute(scope, current)
	if err == nil && scope == config.ScopeGroup {
		err = s.o.Config.Consumer.Check(configs, s.resolver(image).Group(configs))
	}
	if err == nil && scope == config.ScopeBroker {
		err = s.o.Config.CheckDynamic(configs)
	}
	if err != nil {
		a.refuse(codeOfConfig(err), "%v", err)
		return out, false
	}
	out.Configs = configs
	return out, true
}
