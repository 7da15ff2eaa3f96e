package cluster

import (
	"fmt"
	"maps"
)

func (c AlterConfigs) apply(t *transaction) []byte {
	outcomes := make([]Outcome, len(c.Resources))
	for i := range c.Resources {
		r := &c.Resources[i]
		switch r.Kind {
		case TopicResource:
			outcomes[i] = t.alterTopic(r)
		case BrokerResource:
			outcomes[i] = t.alterBroker(r)
		case GroupResource:
			outcomes[i] = t.alterGroup(r)
		default:
			outcomes[i] = Outcome{ErrInvalidRequest, fmt.Sprintf("resource kind %d is unknown", r.Kind)}
		}
	}
	return appendOutcomes(nil, outcomes)
}

func (t *transaction) alterTopic(r *ResourceConfigs) Outcome {
	topic := t.topicByName(r.Name)
	switch {
	case topic == nil:
		return Outcome{ErrUnknownTopic, fmt.Sprintf("there is no topic %q", r.Name)}
	case topic.ConfigVersion != r.Version:
		return Outcome{ErrConflict, fmt.Sprintf("configs of topic %q changed meanwhile", r.Name)}
	case maps.Equal(topic.Configs, r.Configs):
		return Outcome{}
	}
	changed := *topic
	changed.Configs = r.Configs
	changed.ConfigVersion++
	t.put(&changed)
	return Outcome{}
}

func (t *transaction) alterBroker(r *ResourceConfigs) Outcome {
	current := t.next.BrokerConfigs(r.Broker)
	switch {
	case r.Broker != AllBrokers && t.next.Broker(r.Broker) == nil:
		return Outcome{ErrUnknownBroker, fmt.Sprintf("there is no broker %d", r.Broker)}
	case current.Version != r.Version:
		return Outcome{ErrConflict, fmt.Sprintf("configs of broker %d changed meanwhile", r.Broker)}
	case maps.Equal(current.Configs, r.Configs):
		return Outcome{}
	}
	// An emptied resource stays, since its version must not begin anew.
	all := maps.Clone(t.next.brokerConfigs)
	if all == nil {
		all = map[int32]*ConfigResource{}
	}
	all[r.Broker] = &ConfigResource{Configs: r.Configs, Version: current.Version + 1}
	t.next.brokerConfigs = all
	t.delta.BrokerConfigs = true
	return Outcome{}
}

// groupConfigsMax bounds the groups that have configs: anybody can name one.
const groupConfigsMax = 100_000

func (t *transaction) alterGroup(r *ResourceConfigs) Outcome {
	current := t.next.GroupConfigs(r.Name)
	switch {
	case r.Name == "":
		return Outcome{ErrInvalidRequest, "a group with configs has a name"}
	case current.Version != r.Version:
		return Outcome{ErrConflict, fmt.Sprintf("configs of group %q changed meanwhile", r.Name)}
	case maps.Equal(current.Configs, r.Configs):
		return Outcome{}
	case current.Version == 0 && len(t.next.groupConfigs) >= groupConfigsMax:
		return Outcome{ErrInvalidRequest, fmt.Sprintf("%d groups have configs, which is the limit", groupConfigsMax)}
	}
	all := maps.Clone(t.next.groupConfigs)
	if all == nil {
		all = map[string]*ConfigResource{}
	}
	if len(r.Configs) == 0 {
		delete(all, r.Name)
	} else {
		// The version of the image never comes again, so that neither does that of a group that had none meanwhile.
		all[r.Name] = &ConfigResource{Configs: r.Configs, Version: t.next.Version}
	}
	t.next.groupConfigs = all
	t.delta.GroupConfigs = true
	return Outcome{}
}
