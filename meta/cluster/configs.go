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
		default:
			outcomes[i] = Outcome{ErrInvalidRequest, fmt.Sprintf("resource kind %d is unknown", r.Kind)}
		}
	}
	return appendOutcomes(nil, outcomes)
}

func (t *transaction) alterTopic(r *ResourceConfigs) Outcome {
	topic := t.topicByName(r.Topic)
	switch {
	case topic == nil:
		return Outcome{ErrUnknownTopic, fmt.Sprintf("there is no topic %q", r.Topic)}
	case topic.ConfigVersion != r.Version:
		return Outcome{ErrConflict, fmt.Sprintf("configs of topic %q changed meanwhile", r.Topic)}
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
